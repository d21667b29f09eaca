//! Broken stores: the proof that the suite would have noticed.
//!
//! A mutant is data. A kill counts only if the mutant *landed* (it did something that a good store would not have
//! done) and the rule that it names failed for the reason that it names.

mod logic;
mod bent;
mod model;
mod twist;
mod wrapper;
mod liar;
mod race;
mod remote;
mod variant;
mod attack;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

pub use attack::{Attack, good_store};
pub use logic::{ClaimLogic, CompleteLogic, Decided, Logic, ReleaseLogic, RenewLogic, Write};
pub use remote::{Driver, good_remote};
pub use twist::{Twist, Twisted};
pub use variant::{Variant, variants};

use crate::Harness;

/// A store, or a harness, that is broken in one way.
#[derive(Clone, Copy)]
pub struct Mutant {
    /// Its name.
    pub id: &'static str,
    /// How it is made.
    pub kind: Kind,
    /// The id of the rule that has to fail.
    pub kills: &'static str,
    /// What is wrong with it.
    pub because: &'static str,
    /// What the failed rule says: part of its reason.
    pub says: &'static str,
}

impl fmt::Debug for Mutant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} kills {}", self.id, self.kills)
    }
}

/// How a mutant is made.
#[derive(Clone, Copy)]
pub enum Kind {
    /// W: wraps a good store, anybody's, and changes what it does with some calls.
    Wrapper(fn() -> Box<dyn Twist>),
    /// M: the reference's state machine with one decision changed.
    Model(Logic),
    /// P: a good store behind a connection, with a driver or a server that does one thing wrong.
    Driver(Driver),
    /// L: a harness that lies about a good store.
    Liar(fn(Arc<dyn Harness>, Landed) -> Arc<dyn Harness>),
}

impl Kind {
    /// Its letter.
    #[must_use]
    pub fn letter(&self) -> char {
        match self {
            Kind::Wrapper(_) => 'W',
            Kind::Model(_) => 'M',
            Kind::Driver(_) => 'P',
            Kind::Liar(_) => 'L',
        }
    }
}

/// All of them.
#[must_use]
pub fn all() -> &'static [Mutant] {
    static ALL: std::sync::LazyLock<Vec<Mutant>> = std::sync::LazyLock::new(|| {
        [&model::MUTANTS[..], wrapper::MUTANTS, race::MUTANTS, remote::MUTANTS, liar::MUTANTS].concat()
    });
    &ALL
}

/// Counts how often a mutant did something that a good store would not have done.
#[derive(Clone, Debug, Default)]
pub struct Landed(Arc<AtomicU64>);

impl Landed {
    /// Once more.
    pub fn hit(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// How often.
    #[must_use]
    pub fn times(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
