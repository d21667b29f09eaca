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
    /// The latest time that was read: the store's clock never steps back, or a fence made from it would repeat.
    latest: StoreTime,
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

    fn open(&self) -> (MutexGuard<'_, Shelf>, StoreTime) {
        let mut shelf = self.lock();
        shelf.latest = shelf.latest.max((self.clock)());
        let now = shelf.latest;
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
