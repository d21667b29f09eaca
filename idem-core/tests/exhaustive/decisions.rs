//! Every decision that the explored store takes, behind function pointers: the real machine's, unless one is broken on
//! purpose.

use idem_core::machine::{self, Purge, Rewrite, Rules, Seen, Step};
use idem_core::{Claim, Complete, Completed, Record, Release, Released, Renew, Renewed, StoreTime};

/// An answer, and the record after it; None when nothing changes.
type Changed<Answer> = (Answer, Option<Record>);

/// The machine as the explored store and workers use it.
#[derive(Clone, Copy)]
pub(crate) struct Decisions {
    pub(crate) claim: fn(Option<&Record>, &Claim, StoreTime, &Rules) -> Step,
    /// May the first statement of a claim carry this step out by itself (clause C13)?
    pub(crate) alone: fn(&Step) -> bool,
    pub(crate) created: fn(&Claim, StoreTime) -> Record,
    /// Does a rewrite still stand when its own statement runs?
    pub(crate) stands: fn(Rewrite, &Seen, &Record, &Claim, StoreTime, &Rules) -> bool,
    pub(crate) rewritten: fn(Rewrite, &Record, &Claim, StoreTime) -> Record,
    /// What a rewriting statement starts from.
    pub(crate) basis: Basis,
    pub(crate) renew: fn(Option<&Record>, &Renew, StoreTime) -> Changed<Renewed>,
    pub(crate) complete: fn(Option<&Record>, &Complete, StoreTime, &Rules) -> Changed<Completed>,
    pub(crate) release: fn(Option<&Record>, &Release, StoreTime) -> Changed<Released>,
    pub(crate) purge: fn(&Record, StoreTime, &Rules) -> Purge,
    /// Does a worker with this claim renew before its work starts (clause C14)?
    pub(crate) announces: fn(&Claim) -> bool,
}

/// What a rewriting statement starts from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Basis {
    /// The row that the statement finds.
    Row,
    /// The copy that the claim has read before, written back whole.
    Copy,
}

impl Decisions {
    /// The machine that is shipped.
    pub(crate) const REAL: Decisions = Decisions {
        claim: machine::claim,
        alone: |step| matches!(step, Step::Insert),
        created: machine::created,
        stands: machine::stands,
        rewritten: machine::rewritten,
        basis: Basis::Row,
        renew: machine::renew,
        complete: machine::complete,
        release: machine::release,
        purge: machine::purge,
        announces: Claim::announces,
    };
}
