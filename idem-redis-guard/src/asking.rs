//! What Redis says, and what of it may be believed.

use std::time::Duration;

use idem_core::{Claim, Claimed, Replay, Store};

use crate::clock::Here;
use crate::entry::{self, Entry, Says};
use crate::ground::Ground;
use crate::guard::RedisGuard;

impl<S: Store + 'static> RedisGuard<S> {
    /// What Redis has to say about this claim, when it says anything that may be believed.
    pub(crate) async fn ask(&self, claim: &Claim, ground: &Ground) -> Option<Claimed> {
        let parts = &*self.0;
        if claim.is_resolving() || !parts.cache.is_admitted() {
            parts.counting.bypasses.up();
            return None;
        }
        let name = entry::name(&ground.secret, &parts.prefix, claim.identity());
        let Some(bytes) = parts.cache.get(&name).await? else {
            parts.counting.misses.up();
            return None;
        };
        let read = Entry::open(&ground.secret, &name, &bytes);
        // The later of the two bounds, and after the reply: an entry is not believed while it *may* be over.
        let now = ground.reading.latest(Here::now())?;
        let Some(entry) = read.filter(|entry| now < entry.until) else {
            parts.counting.rejected.up();
            self.in_background(async move |parts| parts.cache.drop_entry(&name).await);
            return None;
        };
        let left = entry.until.since(now);
        let answer = answer(claim, entry.says, left);
        let counter = match &answer {
            Some(Claimed::Replay(_)) => &parts.counting.replays,
            Some(Claimed::Mismatch) => &parts.counting.mismatches,
            Some(_) => &parts.counting.in_flight,
            None => &parts.counting.misses,
        };
        counter.up();
        answer
    }
}

/// What a believed entry means for a claim.
fn answer(claim: &Claim, says: Says, left: Duration) -> Option<Claimed> {
    match says {
        // C2, C4: a finished record does not change until its retention ends.
        Says::Done(done) if done.fingerprint != *claim.fingerprint() => Some(Claimed::Mismatch),
        Says::Done(done) => Some(Claimed::Replay(Replay { end: done.end, recorded: done.recorded() })),
        // Only the database answers the owner's own claim again (C3). Another fingerprint's refusal is final, and the
        // attempt may have been released since, so the database says that too.
        Says::Running(running) if running.token == claim.token() || running.fingerprint != *claim.fingerprint() => None,
        Says::Running(_) if left.is_zero() => None,
        Says::Running(_) => Some(Claimed::InFlight { retry_after: left }),
        Says::Nothing => None,
    }
}
