//! The executor: runs work exactly once per key, over any store.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

use crate::backoff::Backoff;
use crate::deadline::after;
use crate::driving::{drive, replayed};
use crate::{
    Attempt, Begun, Busy, Claim, Config, Error, ErrorKind, Fault, Final, Fingerprint, Identity, OnUncertain, Operation,
    Outcome, Replay, Reply, Span, State, Store, Wait,
};

/// What is to be run: identity, operation and fingerprint, and what differs from the executor's [`Config`].
#[derive(Clone, Debug)]
#[must_use = "a request does nothing until it is run"]
pub struct Request {
    identity: Identity,
    operation: Operation,
    fingerprint: Fingerprint,
    lease: Option<Span>,
    retention: Option<Span>,
    on_uncertain: Option<OnUncertain>,
    wait: Option<Wait>,
}

impl Request {
    /// A request with the executor's configuration.
    pub fn new(identity: Identity, operation: Operation, fingerprint: Fingerprint) -> Request {
        Request { identity, operation, fingerprint, lease: None, retention: None, on_uncertain: None, wait: None }
    }

    /// Another lease than the configuration's.
    pub fn lease(mut self, lease: Span) -> Request {
        self.lease = Some(lease);
        self
    }

    /// Another retention than the configuration's.
    pub fn retention(mut self, retention: Span) -> Request {
        self.retention = Some(retention);
        self
    }

    /// Another policy than the configuration's.
    pub fn on_uncertain(mut self, on_uncertain: OnUncertain) -> Request {
        self.on_uncertain = Some(on_uncertain);
        self
    }

    /// Another way to meet a key in flight than the configuration's.
    pub fn wait(mut self, wait: Wait) -> Request {
        self.wait = Some(wait);
        self
    }

    /// Whose key, and which.
    #[must_use]
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// What is run.
    #[must_use]
    pub fn operation(&self) -> &Operation {
        &self.operation
    }

    /// What makes two requests the same.
    #[must_use]
    pub fn fingerprint(&self) -> &Fingerprint {
        &self.fingerprint
    }

    /// The claim that this request makes under a configuration: what a store's `once` takes.
    ///
    /// # Errors
    /// `InvalidInput` when the retention is below the lease (clause C15).
    pub fn claim(&self, config: &Config) -> Result<Claim, Error> {
        let claim = Claim::builder(self.identity.clone(), self.operation.clone(), self.fingerprint)
            .lease(self.lease.unwrap_or(config.lease))
            .retention(self.retention.unwrap_or(config.retention))
            .on_uncertain(self.on_uncertain.unwrap_or(config.on_uncertain));
        match &config.owner {
            Some(owner) => claim.owner(owner.clone()).build(),
            None => claim.build(),
        }
    }
}

/// Runs work exactly once per key, over any [`Store`]. Cheap to clone; needs a tokio runtime.
#[derive(Clone)]
pub struct Idem {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) config: Config,
    slots: Arc<Semaphore>,
    pub(crate) tasks: TaskTracker,
    pub(crate) draining: CancellationToken,
}

/// A place among the attempts that run at once, which a drain waits for.
pub(crate) struct Slot {
    _permit: OwnedSemaphorePermit,
    _counted: TaskTrackerToken,
}

impl Idem {
    /// An executor with the default configuration.
    pub fn new(store: Arc<dyn Store>) -> Idem {
        Idem::with_config(store, Config::default())
    }

    /// An executor with this configuration.
    pub fn with_config(store: Arc<dyn Store>, config: Config) -> Idem {
        let slots = Arc::new(Semaphore::new(slots(&config)));
        Idem {
            inner: Arc::new(Inner {
                store,
                config,
                slots,
                tasks: TaskTracker::new(),
                draining: CancellationToken::new(),
            }),
        }
    }

    /// The store.
    #[must_use]
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.inner.store
    }

    /// The configuration.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.inner.config
    }

    /// Runs the work, unless the record says that it was or is being run; answers how it went either way.
    ///
    /// # Behavior
    /// - The work runs in a task of its own and to its end, whatever becomes of this future. Its lease is renewed at a
    ///   third of its length up to the run ceiling. What it returns decides how the record ends; a panic ends as
    ///   UNKNOWN.
    /// - The answer waits until the record is stored, inside [`Config::confirm`]. A completion is tried again while
    ///   the store is away, for as long as [`Config::store_budget`].
    /// - When the record turns out to be somebody else's, or the work finished it itself in a joint transaction, the
    ///   answer is what the record says.
    ///
    /// # Errors
    /// The store's, when the claim got no answer: the work did not run. Fail closed. `Schema` when a recorded response
    /// cannot be read as `T` or `E`. `Indeterminate` when the runtime shuts down while the work runs.
    ///
    /// # Cancel safety
    /// Dropped before the work was first polled, the grant is released. Dropped after, the work goes on, its end is
    /// recorded, and the next request with the key is answered from the record.
    pub async fn run<T, E, F, Fut>(&self, request: Request, work: F) -> Result<Outcome<T, E>, Error>
    where
        T: Reply,
        E: Reply,
        F: FnOnce(Attempt) -> Fut + Send + 'static,
        Fut: Future<Output = Result<T, Fault<E>>> + Send + 'static,
    {
        let ticket = match self.begin(request).await? {
            Begun::Granted(ticket) => ticket,
            Begun::Replay(replay) => return replayed(replay),
            Begun::InFlight { retry_after } => return Ok(Outcome::InFlight { retry_after }),
            Begun::Mismatch => return Ok(Outcome::Mismatch),
            Begun::Uncertain(uncertain) => return Ok(Outcome::Uncertain(uncertain)),
            Begun::Spent(spent) => return Ok(Outcome::Spent(spent)),
            Begun::Busy(busy) => return Ok(Outcome::Busy(busy)),
        };
        let (caller, answer) = oneshot::channel();
        self.inner.tasks.spawn(drive(Arc::clone(&self.inner), ticket, work, caller));
        answer.await.unwrap_or_else(|_| {
            Err(Error::new(ErrorKind::Indeterminate, "the runtime shut down while the work was running"))
        })
    }

    /// The same stepwise, for work that cannot be a closure: claims, and answers with a [`Ticket`](crate::Ticket) to start from.
    ///
    /// # Errors
    /// The store's, when the claim got no answer inside [`Config::claim_budget`].
    ///
    /// # Cancel safety
    /// Dropped, the claim is awaited in the background and its grant released (clause C14).
    pub async fn begin(&self, request: Request) -> Result<Begun, Error> {
        let claim = request.claim(&self.inner.config)?;
        let mut backoff = Backoff::new(Duration::from_millis(20), Duration::from_secs(1));
        let gives_up = match request.wait.unwrap_or(self.inner.config.wait) {
            Wait::Reject => Instant::now(),
            Wait::UpTo(budget) => after(budget),
        };
        loop {
            let begun = match self.slot() {
                Ok(slot) => self.inner.claim(claim.clone(), slot).await?,
                Err(busy) => self.look(&claim, busy).await,
            };
            let Begun::InFlight { retry_after } = begun else { return Ok(begun) };
            let pause = backoff.next().min(retry_after);
            if Instant::now() + pause >= gives_up {
                return Ok(begun);
            }
            tokio::time::sleep(pause).await;
        }
    }

    /// Starts nothing more, and waits until everything that runs has ended and is recorded, at most so long.
    ///
    /// Returns how many attempts were still running then: their leases lapse, and their keys are taken over or held.
    pub async fn drain(&self, deadline: Duration) -> usize {
        self.inner.draining.cancel();
        self.inner.tasks.close();
        let _ = tokio::time::timeout(deadline, self.inner.tasks.wait()).await;
        self.running()
    }

    /// How many attempts run, or are being claimed, at this moment.
    #[must_use]
    pub fn running(&self) -> usize {
        slots(&self.inner.config) - self.inner.slots.available_permits()
    }

    fn slot(&self) -> Result<Slot, Busy> {
        // Counted first: a drain that does not see this count is seen here.
        let counted = self.inner.tasks.token();
        if self.inner.draining.is_cancelled() {
            return Err(Busy::Draining);
        }
        let permit = Arc::clone(&self.inner.slots).try_acquire_owned().map_err(|_| Busy::Saturated)?;
        Ok(Slot { _permit: permit, _counted: counted })
    }

    /// Replays need no slot: an executor that is busy still says what is done. It grants nothing by looking (G1).
    async fn look(&self, claim: &Claim, busy: Busy) -> Begun {
        let found = timeout(self.inner.config.claim_budget, self.inner.store.get(claim.identity())).await;
        let Ok(Ok(Some(record))) = found else { return Begun::Busy(busy) };
        match (record.state, record.recorded) {
            (State::Released, _) => Begun::Busy(busy),
            _ if record.fingerprint != *claim.fingerprint() => Begun::Mismatch,
            (State::Succeeded, Some(recorded)) => Begun::Replay(Replay { end: Final::Succeeded, recorded }),
            (State::Failed, Some(recorded)) => Begun::Replay(Replay { end: Final::Failed, recorded }),
            _ => Begun::Busy(busy),
        }
    }
}

impl std::fmt::Debug for Idem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Idem").field("config", &self.inner.config).finish_non_exhaustive()
    }
}

fn slots(config: &Config) -> usize {
    config.max_running.min(Semaphore::MAX_PERMITS)
}
