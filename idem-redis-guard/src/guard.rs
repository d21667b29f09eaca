//! The guard: a store around a store.

use std::sync::Arc;
use std::time::Duration;

use idem_core::{Error, Identity, Span, Store, StoreTime};
use tokio::sync::Semaphore;
use tokio_util::task::TaskTracker;

use crate::breaker::{Breaker, Circuit};
use crate::cache::{Cache, Link};
use crate::clock::Here;
use crate::config::{Builder, defaults};
use crate::counters::{Counters, Counting};
use crate::entry::{self, Entry};
use crate::ground::{Ground, Keeper};
use crate::held::Held;

/// A database's store with a fast pre-check in Redis in front.
///
/// It is a [`Store`] itself, and cannot be made without one. What Redis says can *refuse* a claim early or *replay* a finished
/// record early. It never grants: a claim is granted by the database, or not at all, so nothing that Redis forgets, loses or
/// makes up lets anything run.
///
/// # Behavior
/// - A finished record is copied after the database's commit, and replayed byte for byte from the copy, no longer than the
///   database would replay it, by the database's clock.
/// - A running attempt leaves a hint, which answers `InFlight` for a short, declared [staleness](Builder::staleness).
/// - Entries are sealed with a secret that is kept in the database: what Redis holds under another name, from another
///   database, or changed in any byte, is not read.
/// - Whatever goes wrong with Redis (an error, a time-out, an odd value) is counted, and the database decides. The guard
///   needs Redis neither to be made nor to answer.
///
/// Transactional work (`once`, `settle`) is the inner store's: [`inner`](RedisGuard::inner), and then
/// [`settled`](RedisGuard::settled).
///
/// Cloning it is cheap, and gives another handle on the same guard.
pub struct RedisGuard<S>(pub(crate) Arc<Parts<S>>);

pub(crate) struct Parts<S> {
    pub(crate) store: Arc<S>,
    pub(crate) keeper: Keeper<S>,
    pub(crate) cache: Cache,
    pub(crate) held: Held,
    pub(crate) counting: Arc<Counting>,
    pub(crate) prefix: String,
    pub(crate) staleness: Span,
    pub(crate) life: Span,
    pub(crate) largest: usize,
    pub(crate) writes: Arc<Semaphore>,
    pub(crate) tasks: TaskTracker,
}

impl<S> Clone for RedisGuard<S> {
    fn clone(&self) -> RedisGuard<S> {
        RedisGuard(Arc::clone(&self.0))
    }
}

impl<S: Store + 'static> RedisGuard<S> {
    /// Sets up a guard in front of this store.
    pub fn builder(store: Arc<S>) -> Builder<S> {
        Builder::new(store)
    }

    pub(crate) fn new(builder: Builder<S>, link: Arc<dyn Link>) -> RedisGuard<S> {
        let counting = Arc::<Counting>::default();
        let circuit = Circuit::new(builder.failures, builder.pause);
        RedisGuard(Arc::new(Parts {
            keeper: Keeper::new(Arc::clone(&builder.store), &builder.namespace),
            store: builder.store,
            cache: Cache::new(link, builder.patience, circuit, Arc::clone(&counting)),
            held: Held::new(defaults::HELD),
            counting,
            prefix: format!("idem:{}", builder.namespace),
            staleness: builder.staleness,
            life: builder.life,
            largest: builder.largest,
            writes: Arc::new(Semaphore::new(defaults::WRITES)),
            tasks: TaskTracker::new(),
        }))
    }

    /// The store that decides. For transactions, and for whatever else it can do.
    #[must_use]
    pub fn inner(&self) -> &Arc<S> {
        &self.0.store
    }

    /// Tells the guard that a record was finished behind its back (by `settle` or `once`, in a transaction that has been
    /// committed). It reads the record and copies what the database says; nothing has to be believed.
    ///
    /// # Errors
    /// As [`Store::get`]. Without this call, or when it fails, the database goes on answering for this record.
    pub async fn settled(&self, identity: &Identity) -> Result<(), Error> {
        if let Some(ground) = self.ground() {
            self.0.copy(&ground, identity).await?;
        }
        Ok(())
    }

    /// Learns now what the guard needs from the database before it asks Redis, instead of behind the first claims' backs.
    ///
    /// # Errors
    /// The store's. The guard works all the same, and tries again by itself.
    pub async fn ready(&self) -> Result<(), Error> {
        self.0.keeper.learn().await
    }

    /// Waits until nothing is under way behind the callers' backs: writes to Redis, each within its time-out, and readings of
    /// the database.
    pub async fn flush(&self) {
        while !self.0.tasks.is_empty() {
            self.0.tasks.close();
            self.0.tasks.wait().await;
            self.0.tasks.reopen();
        }
    }

    /// Drops the copy of this record from Redis, when it is to be erased, as far as Redis answers; what it cannot reach is used
    /// until its `life` is over. Erase it in the database first.
    pub async fn forget(&self, identity: &Identity) {
        if let Some(ground) = self.ground() {
            self.flush().await;
            self.0.cache.drop_entry(&entry::name(&ground.secret, &self.0.prefix, identity)).await;
        }
    }

    /// Makes the copy of one record older, as [`MemoryStore::age`](idem_core::MemoryStore::age) does with a record. For
    /// tests, which move time through the data; every handle on the record [forgets its grants](RedisGuard::forget_grants)
    /// too. Says whether there was an entry.
    pub async fn age(&self, identity: &Identity, by: Span) -> bool {
        self.flush().await;
        let Some(ground) = self.ground() else { return false };
        let name = entry::name(&ground.secret, &self.0.prefix, identity);
        let found = self.0.cache.get(&name).await.flatten();
        let Some(mut entry) = found.and_then(|bytes| Entry::open(&ground.secret, &name, &bytes)) else { return false };
        entry.until = StoreTime::from_micros(entry.until.as_micros().saturating_sub(by.as_micros()));
        let Some(sealed) = entry.seal(&ground.secret, &name) else { return false };
        // Longer than it is believed: what is over must be refused by what it says, and not by Redis' clock.
        self.0.cache.put(&name, &sealed, Duration::from_secs(60)).await;
        true
    }

    /// Forgets what this process remembers of its grants, as a restart does: for their ends the record is read. For tests.
    pub fn forget_grants(&self) {
        self.0.held.clear();
    }

    /// What the guard has done so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.0.counting.read()
    }

    /// Where the breaker stands.
    #[must_use]
    pub fn breaker(&self) -> Breaker {
        self.0.cache.stands()
    }

    /// The name of an identity's entry in Redis, once the guard knows its database. For tests and for looking.
    #[must_use]
    pub fn entry_name(&self, identity: &Identity) -> Option<String> {
        let ground = self.0.keeper.ground(Here::now())?;
        String::from_utf8(entry::name(&ground.secret, &self.0.prefix, identity)).ok()
    }

    pub(crate) fn cache(&self) -> &Cache {
        &self.0.cache
    }

    /// What is known of the database, and behind the caller's back a task that learns what is not.
    pub(crate) fn ground(&self) -> Option<Ground> {
        let here = Here::now();
        if self.0.keeper.wants(here) {
            self.in_background(async |parts| {
                if let Err(error) = parts.keeper.learn().await {
                    tracing::debug!(%error, "the guard does not know the database yet");
                }
            });
        }
        self.0.keeper.ground(here)
    }
}

impl<S> std::fmt::Debug for RedisGuard<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RedisGuard")
            .field("staleness", &self.0.staleness)
            .field("breaker", &self.0.cache.stands())
            .finish_non_exhaustive()
    }
}
