//! A store in memory that runs any [`Logic`], and notices where it differs from a good one's.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use idem_core::config::defaults;
use idem_core::machine::{Purge, Rules};
use idem_core::{
    Claim, Claimed, Complete, Completed, Error, ErrorKind, Identity, Purged, Record, Recorded, Release, Released,
    Renew, Renewed, Span, Store, StoreTime,
};

use super::{Landed, Logic, Write};
use crate::base::Ageable;

/// How often a mutant that acts later lets others go first: often enough that all contenders have decided.
const YIELDS: usize = 2_000;

/// A store in memory that runs any [`Logic`].
pub(super) struct Bent {
    logic: Logic,
    rules: Rules,
    landed: Landed,
    shelf: Mutex<Shelf>,
}

#[derive(Default)]
struct Shelf {
    records: BTreeMap<Identity, Record>,
    latest: Option<StoreTime>,
}

impl Bent {
    pub(super) fn new(logic: Logic, rules: Rules, landed: Landed) -> Bent {
        Bent { logic, rules, landed, shelf: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Shelf> {
        self.shelf.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(shelf: &mut Shelf) -> StoreTime {
        let now = shelf.latest.max(Some(StoreTime::of_this_host()));
        shelf.latest = now;
        now.unwrap_or_else(StoreTime::of_this_host)
    }

    /// The place of an identity on the shelf.
    fn place(&self, identity: &Identity) -> Identity {
        let place = (self.logic.identity)(identity);
        if place != *identity {
            self.landed.hit();
        }
        place
    }

    /// Decides with the mutant's function and with a good one, notes a difference, and gives back the mutant's.
    fn decide<T: PartialEq>(
        &self,
        identity: &Identity,
        mutant: impl Fn(Option<&Record>, StoreTime) -> T,
        good: impl Fn(Option<&Record>, StoreTime) -> T,
    ) -> T {
        let mut shelf = self.lock();
        let now = Bent::now(&mut shelf);
        let found = shelf.records.get(&self.place(identity));
        let decided = mutant(found, now);
        if decided != good(found, now) {
            self.landed.hit();
        }
        decided
    }

    /// Writes a row, whatever is there.
    pub(super) fn put(&self, record: Option<Record>) {
        if let Some(record) = record {
            let place = self.place(&record.identity);
            self.lock().records.insert(place, record);
        }
    }

    /// Takes a row away. Says whether it was there.
    pub(super) fn forget(&self, identity: &Identity) -> bool {
        self.lock().records.remove(&self.place(identity)).is_some()
    }

    /// Every operation but `claim` and `purge` decides and writes under one lock.
    fn change<A: PartialEq>(
        &self,
        identity: &Identity,
        mutant: impl Fn(Option<&Record>, StoreTime) -> (A, Option<Record>),
        good: impl Fn(Option<&Record>, StoreTime) -> (A, Option<Record>),
    ) -> A {
        let mut shelf = self.lock();
        let now = Bent::now(&mut shelf);
        let place = self.place(identity);
        let found = shelf.records.get(&place);
        let decided = mutant(found, now);
        if decided != good(found, now) {
            self.landed.hit();
        }
        let (answer, record) = decided;
        if let Some(record) = record {
            shelf.records.insert(place, record);
        }
        answer
    }

    async fn let_others_go_first(&self) {
        self.landed.hit();
        for _ in 0..YIELDS {
            tokio::task::yield_now().await;
        }
    }
}

impl Ageable for Bent {
    fn age(&self, identity: &Identity, by: Span) -> bool {
        let back = |time: StoreTime| StoreTime::from_micros(time.as_micros().saturating_sub(by.as_micros()));
        let place = (self.logic.identity)(identity);
        let mut shelf = self.lock();
        let Some(record) = shelf.records.get_mut(&place) else { return false };
        record.created_at = back(record.created_at);
        record.claimed_at = back(record.claimed_at);
        record.lease_until = back(record.lease_until);
        record.ended_at = record.ended_at.map(back);
        record.expires_at = back(record.expires_at);
        true
    }

    fn peek(&self, identity: &Identity) -> Option<Record> {
        self.lock().records.get(&(self.logic.identity)(identity)).cloned()
    }
}

#[async_trait]
impl Store for Bent {
    async fn claim(&self, claim: &Claim) -> Result<Claimed, Error> {
        let (Logic { claim: mutant, write, .. }, good) = (self.logic, Logic::GOOD.claim);
        let (mutant, good) = (
            |found: Option<&Record>, now| mutant(found, claim, now, &self.rules),
            |found: Option<&Record>, now| good(found, claim, now, &self.rules),
        );
        match write {
            Write::AtOnce | Write::PurgeAfterYielding => Ok(self.change(claim.identity(), mutant, good)),
            Write::ClaimAfterYielding => {
                let (answer, record) = self.decide(claim.identity(), mutant, good);
                if record.is_some() {
                    self.let_others_go_first().await;
                }
                self.put(record);
                Ok(answer)
            }
        }
    }

    async fn renew(&self, renew: &Renew) -> Result<Renewed, Error> {
        let identity = &renew.lease().identity;
        let mutant = |found: Option<&Record>, now| (self.logic.renew)(found, renew, now);
        Ok(self.change(identity, mutant, |found, now| (Logic::GOOD.renew)(found, renew, now)))
    }

    async fn complete(&self, complete: &Complete) -> Result<Completed, Error> {
        let size = complete.end().recorded().map_or(0, Recorded::size);
        let limit = (self.logic.response_limit)(defaults::RESPONSE_LIMIT);
        if (size > limit) != (size > defaults::RESPONSE_LIMIT) {
            self.landed.hit();
        }
        if size > limit {
            return Err(Error::new(ErrorKind::TooLarge, "the response is too long"));
        }
        let identity = &complete.lease().identity;
        let mutant = |found: Option<&Record>, now| (self.logic.complete)(found, complete, now, &self.rules);
        Ok(self.change(identity, mutant, |found, now| (Logic::GOOD.complete)(found, complete, now, &self.rules)))
    }

    async fn release(&self, release: &Release) -> Result<Released, Error> {
        let identity = &release.lease().identity;
        let mutant = |found: Option<&Record>, now| (self.logic.release)(found, release, now);
        Ok(self.change(identity, mutant, |found, now| (Logic::GOOD.release)(found, release, now)))
    }

    async fn get(&self, identity: &Identity) -> Result<Option<Record>, Error> {
        let see = |visible: fn(&Record, StoreTime, &Rules) -> Option<Record>| {
            move |found: Option<&Record>, now| found.and_then(|record| visible(record, now, &self.rules))
        };
        Ok(self.decide(identity, see(self.logic.visible), see(Logic::GOOD.visible)))
    }

    async fn purge(&self, limit: NonZeroU32) -> Result<Purged, Error> {
        let allowed = (self.logic.purge_limit)(limit.get());
        let mut doomed = Vec::new();
        {
            let mut shelf = self.lock();
            let now = Bent::now(&mut shelf);
            for (place, record) in &shelf.records {
                let what = (self.logic.purge)(record, now, &self.rules);
                if what != (Logic::GOOD.purge)(record, now, &self.rules) {
                    self.landed.hit();
                }
                if what != Purge::Keep {
                    doomed.push((place.clone(), what));
                }
            }
            let first = |limit: u32| doomed.len().min(usize::try_from(limit).unwrap_or(usize::MAX));
            if first(allowed) != first(limit.get()) {
                self.landed.hit();
            }
            doomed.truncate(first(allowed));
            if self.logic.write != Write::PurgeAfterYielding {
                return Ok(sweep(&mut shelf, doomed));
            }
        }
        self.let_others_go_first().await;
        Ok(sweep(&mut self.lock(), doomed))
    }
}

fn sweep(shelf: &mut Shelf, doomed: Vec<(Identity, Purge)>) -> Purged {
    let mut purged = Purged::default();
    for (place, what) in doomed {
        if what == Purge::Delete {
            purged.deleted += u64::from(shelf.records.remove(&place).is_some());
        } else if let Some(record) = shelf.records.get_mut(&place) {
            let code = record.recorded.as_ref().map_or(0, Recorded::code);
            record.recorded = Some(Recorded::Tombstone { code });
            purged.dropped += 1;
        }
    }
    purged
}
