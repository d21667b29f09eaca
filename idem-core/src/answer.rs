//! What a store answers. These enums are exhaustive: a new answer is a new contract.

use std::time::Duration;

use crate::{Checkpoint, Final, Lease, PastAttempt, Recorded, StoreTime};

/// The answer to a claim (clauses C1 to C8).
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Claimed {
    /// You run it. Answered after the commit that makes it true (clause C10).
    Acquired(Grant),
    /// It is done, and this is how it went.
    Replay(Replay),
    /// Another attempt's lease is running.
    InFlight {
        /// Above zero, and at most what is left of the lease.
        retry_after: Duration,
    },
    /// The key was used for another request.
    Mismatch,
    /// An earlier attempt's effect is not known, and nobody may run it again by itself.
    Uncertain(Uncertain),
    /// It was done, its retention is over, and the store still remembers: not run again.
    Spent(Spent),
}

/// A granted claim.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Grant {
    /// The right to run.
    pub lease: Lease,
    /// How the attempt before this one ended, when there was one.
    pub previous: Option<PastAttempt>,
    /// The last checkpoint of any earlier attempt.
    pub checkpoint: Option<Checkpoint>,
}

/// A finished record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Replay {
    /// How it ended.
    pub end: Final,
    /// The first response, byte for byte, or its tombstone.
    pub recorded: Recorded,
}

/// A record whose effect is not known and that is held.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Uncertain {
    /// The last attempt.
    pub attempt: u32,
    /// Since when nothing is known.
    pub since: StoreTime,
    /// The last checkpoint.
    pub checkpoint: Option<Checkpoint>,
    /// What an attempt that ended as unknown answered.
    pub evidence: Option<Recorded>,
}

/// A finished record that is remembered past its retention.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Spent {
    /// How it ended.
    pub end: Final,
    /// The code of its response.
    pub code: u16,
}

/// The answer to a renewal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Renewed {
    /// The lease is held, and runs for at least the length that was asked for, from now.
    Held,
    /// The lease belongs to somebody else, or the record is finished. Nothing was changed.
    Lost,
}

/// The answer to a completion.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Completed {
    /// Recorded, and committed.
    Stored,
    /// This very attempt had finished the record before. The first end stays.
    AlreadyStored,
    /// The record is another attempt's, or gone. Nothing was changed.
    Lost,
}

/// The answer to a release.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Released {
    /// The attempt's grant is undone.
    Released,
    /// The record is another attempt's, finished, or gone. Nothing was changed.
    Lost,
}

/// What a purge did: true counts (clause P3).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Purged {
    /// Records deleted.
    pub deleted: u64,
    /// Responses dropped from records that are still remembered.
    pub dropped: u64,
}

impl Purged {
    /// Rows touched: what the limit bounds.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.deleted + self.dropped
    }
}
