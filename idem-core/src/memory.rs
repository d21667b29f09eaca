//! The reference store: the machine behind a lock, in this process's memory.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;

use crate::config::defaults;
use crate::machine::{self, Rules, Step};
use crate::{
    Claim, Claimed, Complete, Completed, Error, ErrorKind, Identity, Purged, Record, Release, Released, Renew, Renewed,
    Span, Store, StoreTime,
};

/// A store in memory: for tests, for trying things out, and as the reference that other stores are compared with.
///
/// It is one process's memory. Nothing survives a restart, so nothing that must not happen twice belongs in it.
pub struct MemoryStore {
    rules: Rules,
    response_limit: usize,
    clock: Box<dyn Fn() -> StoreTime + Send + Sync>,
    shelf: Mutex<Shelf>,
}

#[derive(Debug, Default)]
struct Shelf {
    records: HashMap<Identity, Option<Record>>,
}

impl Shelf {
    fn record(&self, identity: &Identity) -> Option<&Record> {
        self.records.get(identity).and_then(Option::as_ref)
    }

    fn put(&mut self, record: Record) {
        self.records.insert(record.identity.clone(), Some(record));
    }
}

impl MemoryStore {
    /// An empty store with the default rules.
    #[must_use]
    pub fn new() -> MemoryStore {
        MemoryStore::default()
    }

    /// An empty store that keeps things for as long as these rules say.
    #[must_use]
    pub fn with_rules(rules: Rules) -> MemoryStore {
        MemoryStore { rules, ..MemoryStore::default() }
    }

    /// An empty store with this clock instead of the host's, for tests that run in virtual time.
    #[must_use]
    pub fn with_clock(clock: impl Fn() -> StoreTime + Send + Sync + 'static) -> MemoryStore {
        MemoryStore { clock: Box::new(clock), ..MemoryStore::default() }
    }

    /// The same with another limit on responses, in bytes of meta and body.
    #[must_use]
    pub fn response_limit(mut self, bytes: usize) -> MemoryStore {
        self.response_limit = bytes;
        self
    }

    /// Makes one record older: shifts all its times back. For tests, which move time through the data instead of
    /// sleeping. Says whether there was a record.
    pub fn age(&self, identity: &Identity, by: Span) -> bool {
        let mut shelf = self.lock();
        let Some(Some(record)) = shelf.records.get_mut(identity) else { return false };
        let back = |time: StoreTime| StoreTime::from_micros(time.as_micros().saturating_sub(by.as_micros()));
        record.created_at = back(record.created_at);
        record.claimed_at = back(record.claimed_at);
        record.lease_until = back(record.lease_until);
        record.ended_at = record.ended_at.map(back);
        record.expires_at = back(record.expires_at);
        true
    }

    /// The row as it is, over age or not. For tests.
    #[must_use]
    pub fn peek(&self, identity: &Identity) -> Option<Record> {
        self.lock().record(identity).cloned()
    }

    /// The records, and the time as the clock has it: it is read behind the lock, and a step back is followed. One
    /// reading too late would otherwise stop this store's time until the host's has come there. A step back lengthens
    /// what runs and repeats no fence: a record's next one is above its last, and purge keeps a record for a quarantine
    /// after it became free, which is longer than any step (clause P7).
    fn open(&self) -> (MutexGuard<'_, Shelf>, StoreTime) {
        let shelf = self.lock();
        let now = (self.clock)();
        (shelf, now)
    }

    fn lock(&self) -> MutexGuard<'_, Shelf> {
        // No operation panics half way through a change, so a poisoned lock still guards a whole record.
        self.shelf.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for MemoryStore {
    fn default() -> MemoryStore {
        MemoryStore {
            rules: Rules::default(),
            response_limit: defaults::RESPONSE_LIMIT,
            clock: Box::new(StoreTime::of_this_host),
            shelf: Mutex::default(),
        }
    }
}

impl std::fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MemoryStore").field("rules", &self.rules).finish_non_exhaustive()
    }
}

#[async_trait]
impl Store for MemoryStore {
    async fn claim(&self, claim: &Claim) -> Result<Claimed, Error> {
        let (mut shelf, now) = self.open();
        let found = shelf.record(claim.identity());
        let record = match (machine::claim(found, claim, now, &self.rules), found) {
            (Step::Answer(answer), _) => return Ok(answer),
            (Step::Rewrite(how, _), Some(found)) => machine::rewritten(how, found, claim, now),
            (Step::Insert, _) | (Step::Rewrite(..), None) => machine::created(claim, now),
        };
        let grant = machine::grant(&record, claim);
        shelf.put(record);
        Ok(Claimed::Acquired(grant))
    }

    async fn renew(&self, renew: &Renew) -> Result<Renewed, Error> {
        let (mut shelf, now) = self.open();
        let (answer, changed) = machine::renew(shelf.record(&renew.lease().identity), renew, now);
        changed.into_iter().for_each(|record| shelf.put(record));
        Ok(answer)
    }

    async fn complete(&self, complete: &Complete) -> Result<Completed, Error> {
        let size = complete.end().recorded().map_or(0, crate::Recorded::size);
        let limit = self.response_limit;
        if size > limit {
            let message = format!("the response has {size} bytes, at most {limit} are kept");
            return Err(Error::new(ErrorKind::TooLarge, message)); // F7
        }
        let (mut shelf, now) = self.open();
        let found = shelf.record(&complete.lease().identity);
        let (answer, changed) = machine::complete(found, complete, now, &self.rules);
        changed.into_iter().for_each(|record| shelf.put(record));
        Ok(answer)
    }

    async fn release(&self, release: &Release) -> Result<Released, Error> {
        let (mut shelf, now) = self.open();
        let (answer, changed) = machine::release(shelf.record(&release.lease().identity), release, now);
        changed.into_iter().for_each(|record| shelf.put(record));
        Ok(answer)
    }

    async fn get(&self, identity: &Identity) -> Result<Option<Record>, Error> {
        let (shelf, now) = self.open();
        Ok(shelf.record(identity).and_then(|record| machine::visible(record, now, &self.rules)))
    }

    async fn purge(&self, limit: NonZeroU32) -> Result<Purged, Error> {
        let (mut shelf, now) = self.open();
        let purged = machine::purge_all(shelf.records.values_mut(), limit.get(), now, &self.rules);
        shelf.records.retain(|_, slot| slot.is_some());
        Ok(purged)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;
    use crate::{Fingerprint, Grant, Key, Operation, Scope};

    const SECOND: u64 = 1_000_000;
    const HOUR: u64 = 3_600 * SECOND;
    const DAY: u64 = 24 * HOUR;
    const NOON: u64 = 1_700_000_000 * SECOND;

    fn store() -> (MemoryStore, Arc<AtomicU64>) {
        let time = Arc::new(AtomicU64::new(NOON));
        let clock = Arc::clone(&time);
        (MemoryStore::with_clock(move || StoreTime::from_micros(clock.load(Ordering::Relaxed))), time)
    }

    fn claim() -> Claim {
        let operation = Operation::new("test").expect("valid");
        let fingerprint = Fingerprint::of(&operation).finish();
        let identity = Identity::new(Scope::global(), Key::new("k").expect("valid"));
        Claim::builder(identity, operation, fingerprint).build().expect("valid")
    }

    async fn acquire(store: &MemoryStore) -> Grant {
        match store.claim(&claim()).await {
            Ok(Claimed::Acquired(grant)) => grant,
            other => panic!("not acquired: {other:?}"),
        }
    }

    #[tokio::test]
    async fn one_reading_too_late_does_not_stop_the_time() {
        let (store, time) = store();
        time.store(NOON + 365 * DAY, Ordering::Relaxed);
        assert_eq!(store.get(claim().identity()).await.ok(), Some(None));
        time.store(NOON, Ordering::Relaxed);
        let first = acquire(&store).await;
        let record = store.peek(claim().identity()).expect("there");
        assert_eq!(record.claimed_at, StoreTime::from_micros(NOON));
        time.store(NOON + 31 * SECOND, Ordering::Relaxed);
        let second = acquire(&store).await;
        assert_eq!((second.lease.attempt, second.lease.fence > first.lease.fence), (2, true), "the lease has lapsed");
    }

    #[tokio::test]
    async fn a_step_back_lengthens_what_runs_and_repeats_no_fence() {
        let (store, time) = store();
        time.store(NOON + HOUR, Ordering::Relaxed);
        let first = acquire(&store).await.lease;
        time.store(NOON, Ordering::Relaxed);
        assert!(matches!(store.claim(&claim()).await, Ok(Claimed::InFlight { .. })));
        assert_eq!(store.release(&Release::new(first.clone())).await.ok(), Some(Released::Released));
        let second = acquire(&store).await.lease;
        assert_eq!(second.fence.get(), first.fence.get() + 1);
    }
}
