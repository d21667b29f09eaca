//! What the guard has done so far.

use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// What a guard has done since it was made: a copy of its counters.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
        #[non_exhaustive]
        pub struct Counters {
            $($(#[$doc])* pub $name: u64,)*
        }

        #[derive(Debug, Default)]
        pub(crate) struct Counting {
            $(pub(crate) $name: Counter,)*
        }

        impl Counting {
            pub(crate) fn read(&self) -> Counters {
                Counters { $($name: self.$name.0.load(Ordering::Relaxed),)* }
            }
        }
    };
}

counters! {
    /// Claims answered with a finished record's copy.
    replays,
    /// Claims refused because a finished record's copy has another fingerprint.
    mismatches,
    /// Claims answered "in flight" by a hint.
    in_flight,
    /// Claims that went to the database because Redis had nothing to say.
    misses,
    /// Entries that were not believed: damaged, forged, moved, another store's, or too old.
    rejected,
    /// Claims that went to the database without asking Redis: the breaker is open, the database's time is not known yet, or
    /// the claim is a person's decision.
    bypasses,
    /// Calls to Redis that failed or were too slow. The database decided instead.
    failures,
    /// Entries written.
    writes,
    /// Entries that were not written: too large, too many at once, or Redis kept a newer one.
    skipped,
}

#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn up(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}
