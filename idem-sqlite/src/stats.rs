//! What the writer counts.

use std::sync::atomic::{AtomicU64, Ordering};

/// What a store has done since it was opened, for people who watch it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Stats {
    /// Operations and closures that wait for the writer now.
    pub queued: usize,
    /// Operations and closures that were run.
    pub ran: u64,
    /// Transactions that were committed. How far it stays below `ran` is what group commit saves.
    pub commits: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Counters {
    ran: AtomicU64,
    commits: AtomicU64,
}

impl Counters {
    pub(crate) fn ran(&self, jobs: usize) {
        self.ran.fetch_add(jobs as u64, Ordering::Relaxed);
    }

    pub(crate) fn committed(&self) {
        self.commits.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn stats(&self, queued: usize) -> Stats {
        Stats { queued, ran: self.ran.load(Ordering::Relaxed), commits: self.commits.load(Ordering::Relaxed) }
    }
}
