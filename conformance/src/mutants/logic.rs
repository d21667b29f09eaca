//! The decisions of a store, one by one, so that a mutant can change one of them.

use idem_core::machine::{self, Purge, Rules, Step};
use idem_core::{Claim, Claimed, Complete, Completed, Identity, Record, Release, Released, Renew, Renewed, StoreTime};

/// An answer, and the row that is written, if one is.
pub type Decided<A> = (A, Option<Record>);
/// What a claim does to the record that is there.
pub type ClaimLogic = fn(Option<&Record>, &Claim, StoreTime, &Rules) -> Decided<Claimed>;
/// What a renewal does to it.
pub type RenewLogic = fn(Option<&Record>, &Renew, StoreTime) -> Decided<Renewed>;
/// What a completion does to it.
pub type CompleteLogic = fn(Option<&Record>, &Complete, StoreTime, &Rules) -> Decided<Completed>;
/// What a release does to it.
pub type ReleaseLogic = fn(Option<&Record>, &Release, StoreTime) -> Decided<Released>;

/// What a store decides. Each gives the answer, and the row that is written, if one is.
#[derive(Clone, Copy)]
pub struct Logic {
    /// Which record an identity finds.
    pub identity: fn(&Identity) -> Identity,
    /// What a claim does.
    pub claim: ClaimLogic,
    /// What a renewal does.
    pub renew: RenewLogic,
    /// What a completion does.
    pub complete: CompleteLogic,
    /// What a release does.
    pub release: ReleaseLogic,
    /// What a reader sees.
    pub visible: fn(&Record, StoreTime, &Rules) -> Option<Record>,
    /// What purge does to a row.
    pub purge: fn(&Record, StoreTime, &Rules) -> Purge,
    /// How many rows a purge with this limit touches.
    pub purge_limit: fn(u32) -> u32,
    /// How many bytes are kept, of this limit.
    pub response_limit: fn(usize) -> usize,
    /// When what was decided is written.
    pub write: Write,
}

/// When what was decided is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Write {
    /// Together with the decision.
    AtOnce,
    /// A claim's later, without looking again: check, yield, act.
    ClaimAfterYielding,
    /// A purge's later, without looking again.
    PurgeAfterYielding,
}

impl Logic {
    /// A good store's.
    pub const GOOD: Logic = Logic {
        identity: Identity::clone,
        claim,
        renew: machine::renew,
        complete: machine::complete,
        release: machine::release,
        visible: machine::visible,
        purge: machine::purge,
        purge_limit: |limit| limit,
        response_limit: |limit| limit,
        write: Write::AtOnce,
    };
}

/// A good store's claim.
pub(super) fn claim(found: Option<&Record>, claim: &Claim, now: StoreTime, rules: &Rules) -> (Claimed, Option<Record>) {
    let record = match (machine::claim(found, claim, now, rules), found) {
        (Step::Answer(answer), _) => return (answer, None),
        (Step::Rewrite(how, _), Some(found)) => machine::rewritten(how, found, claim, now),
        (Step::Insert, _) | (Step::Rewrite(..), None) => machine::created(claim, now),
    };
    (Claimed::Acquired(machine::grant(&record, claim)), Some(record))
}
