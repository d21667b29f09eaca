//! What a backend says about itself. The suite skips only by it, and probes what it denies.

use std::collections::BTreeSet;

use idem_core::Span;
use idem_core::config::defaults;

use crate::Profile;

/// No store may declare a smaller response limit: it would escape the rules about responses.
pub const LEAST_RESPONSE_LIMIT: usize = 16 * 1024;

/// What a backend promises beyond the core, and its limits.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Declaration {
    /// The profiles that it claims. Core is always among them.
    pub profiles: BTreeSet<Profile>,
    /// How many bytes of meta and body it keeps; tested at this size and at one more. At least
    /// [`LEAST_RESPONSE_LIMIT`].
    pub response_limit: usize,
    /// The resolution of its times (clause T2).
    pub resolution: Span,
    /// The isolation levels at which a caller's transaction can be joined. Empty where there is only one way.
    pub isolation_levels: BTreeSet<Isolation>,
}

impl Default for Declaration {
    fn default() -> Declaration {
        Declaration {
            profiles: BTreeSet::from([Profile::Core]),
            response_limit: defaults::RESPONSE_LIMIT,
            resolution: Span::MIN,
            isolation_levels: BTreeSet::new(),
        }
    }
}

impl Declaration {
    /// The core alone, with the default limits.
    #[must_use]
    pub fn core() -> Declaration {
        Declaration::default()
    }

    /// This profile, too.
    #[must_use]
    pub fn with(mut self, profile: Profile) -> Declaration {
        self.profiles.insert(profile);
        self
    }

    /// Another limit on responses, in bytes of meta and body.
    #[must_use]
    pub fn response_limit(mut self, bytes: usize) -> Declaration {
        self.response_limit = bytes;
        self
    }

    /// Coarser times than microseconds.
    #[must_use]
    pub fn resolution(mut self, resolution: Span) -> Declaration {
        self.resolution = resolution;
        self
    }

    /// This isolation level, too.
    #[must_use]
    pub fn isolation_level(mut self, isolation: Isolation) -> Declaration {
        self.isolation_levels.insert(isolation);
        self
    }

    /// Is this profile claimed?
    #[must_use]
    pub fn claims(&self, profile: Profile) -> bool {
        profile == Profile::Core || self.profiles.contains(&profile)
    }
}

/// The isolation level of a caller's transaction.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum Isolation {
    /// READ COMMITTED.
    ReadCommitted,
    /// REPEATABLE READ, or a snapshot.
    RepeatableRead,
    /// SERIALIZABLE.
    Serializable,
}
