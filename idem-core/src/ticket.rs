//! A granted claim before and while its work runs: what a dropped one does depends on whether work has begun.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout_at};
use tokio_util::task::AbortOnDropHandle;

use crate::backoff::Backoff;
use crate::deadline::after;
use crate::ending::{Ended, end};
use crate::executor::{Inner, Slot};
use crate::heartbeat::beat;
use crate::{Attempt, Claim, End, Error, ErrorKind, Grant, Lease, Renewed};

/// What both stages hold.
struct Held {
    inner: Arc<Inner>,
    attempt: Attempt,
    runtime: Handle,
    _slot: Slot,
}

impl Held {
    /// Keeps the lease alive for at most so long, until the returned handle is dropped.
    fn heartbeat(&self, ceiling: Duration) -> AbortOnDropHandle<()> {
        AbortOnDropHandle::new(self.runtime.spawn(beat(self.attempt.clone(), after(ceiling))))
    }

    /// Ends the attempt in a task of its own, which outlives a holder that is dropped. None is a release.
    ///
    /// The lease is kept alive until the end is stored: nobody takes over an attempt whose owner lives and knows how it
    /// went. So does the executor's slot.
    fn end_behind(self, how: Option<End>) -> JoinHandle<Ended> {
        self.attempt.end();
        let runtime = self.runtime.clone();
        runtime.spawn(async move {
            let heartbeat = self.heartbeat(self.inner.config.store_budget);
            let ended = end(&self.inner, self.attempt.own(), how).await;
            drop((heartbeat, self));
            ended
        })
    }
}

/// A granted claim whose work has not begun. Dropped, it releases the key.
#[must_use = "dropping a ticket releases its key"]
pub struct Ticket {
    held: Option<Held>,
    announces: bool,
}

impl Ticket {
    pub(crate) fn new(inner: &Arc<Inner>, grant: Grant, claim: &Claim, sent: Instant, slot: Slot) -> Ticket {
        let attempt = Attempt::new(Arc::clone(&inner.store), grant, *claim.fingerprint(), sent);
        let held = Held { inner: Arc::clone(inner), attempt, runtime: Handle::current(), _slot: slot };
        Ticket { held: Some(held), announces: claim.announces() }
    }

    /// The lease that was granted.
    #[must_use]
    pub fn lease(&self) -> &Lease {
        self.attempt().own()
    }

    /// The attempt that is about to run.
    ///
    /// # Panics
    /// Never: only `start` and `drop` take the attempt out.
    #[must_use]
    pub fn attempt(&self) -> &Attempt {
        attempt_of(&self.held)
    }

    /// Begins: from here on the outside world may change, so a dropped attempt ends as UNKNOWN.
    ///
    /// Under Hold the start is announced first (clause C14), and so is a start that comes later than the lease. None
    /// when the lease was lost meanwhile: nothing ran, and nothing may.
    ///
    /// # Errors
    /// The store's, when the announcement got no answer; the key is released.
    ///
    /// # Cancel safety
    /// Dropped, the key is released.
    pub async fn start(mut self) -> Result<Option<Running>, Error> {
        let must_ask = self.announces || self.attempt().check().is_err();
        if must_ask && self.announce().await? == Renewed::Lost {
            self.held = None; // There is nothing to release.
            return Ok(None);
        }
        let Some(held) = self.held.take() else { return Ok(None) };
        let heartbeat = held.heartbeat(held.inner.config.run_ceiling);
        Ok(Some(Running { held: Some(held), heartbeat: Some(heartbeat) }))
    }

    /// Renews before the work begins; asked again as a claim is, inside the claim's budget.
    async fn announce(&self) -> Result<Renewed, Error> {
        let until = after(self.budget());
        let mut backoff = Backoff::new(Duration::from_millis(20), Duration::from_secs(1));
        loop {
            let error = match timeout_at(until, self.attempt().announce()).await {
                Ok(Ok(renewed)) => return Ok(renewed),
                Ok(Err(error)) => error,
                Err(_) => return Err(Error::new(ErrorKind::Unavailable, "the announcement got no answer in time")),
            };
            let pause = backoff.next();
            if !error.is_retryable() || Instant::now() + pause >= until {
                return Err(error);
            }
            sleep(pause).await;
        }
    }

    fn budget(&self) -> Duration {
        self.held.as_ref().map_or(Duration::ZERO, |held| held.inner.config.claim_budget)
    }
}

impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ticket").field("attempt", self.attempt()).finish_non_exhaustive()
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if let Some(held) = self.held.take() {
            drop(held.end_behind(None));
        }
    }
}

/// An attempt whose work runs. It says how it ended by [`end`](Running::end); dropped without, it ends as UNKNOWN.
#[must_use = "dropping a running attempt ends it as unknown"]
pub struct Running {
    held: Option<Held>,
    heartbeat: Option<AbortOnDropHandle<()>>,
}

impl Running {
    /// What the work may know about its attempt.
    ///
    /// # Panics
    /// Never: only `end` and `drop` take the attempt out.
    #[must_use]
    pub fn attempt(&self) -> &Attempt {
        attempt_of(&self.held)
    }

    /// Ends the attempt; None says that nothing happened, and releases the key.
    ///
    /// Tried again while the store is away, for as long as [`Config::store_budget`](crate::Config::store_budget). A
    /// response that is too long for the store leaves a tombstone.
    ///
    /// # Cancel safety
    /// Dropped at any time, also before it is polled, the same end goes on being stored in the background.
    pub fn end(mut self, how: Option<End>) -> impl Future<Output = Ended> + Send + use<> {
        let storing = self.end_behind(how);
        async move {
            match storing {
                // A runtime that shuts down ends the storing too.
                Some(storing) => storing.await.unwrap_or(Ended::GaveUp),
                None => Ended::GaveUp,
            }
        }
    }

    fn end_behind(&mut self, how: Option<End>) -> Option<JoinHandle<Ended>> {
        let held = self.held.take()?;
        // From here on the ending's own heartbeat keeps the lease.
        drop(self.heartbeat.take());
        Some(held.end_behind(how))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.end_behind(Some(End::Unknown(None)));
    }
}

impl fmt::Debug for Running {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Running").field("attempt", self.attempt()).finish_non_exhaustive()
    }
}

fn attempt_of(held: &Option<Held>) -> &Attempt {
    match held {
        Some(held) => &held.attempt,
        None => unreachable!("taken only by what consumes its owner"),
    }
}
