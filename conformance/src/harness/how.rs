//! How a handle is to be opened.

use std::fmt;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::time::Duration;

use idem_core::machine::Rules;

use super::HookError;

/// How a handle is to be opened.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct How {
    /// Which handle it is.
    pub role: Role,
    /// By which way the server is reached.
    pub reach: Reach,
    /// In which state the tables are found.
    pub schema: Schema,
    /// How long the store is to keep what.
    pub rules: Rules,
    /// How many connections the handle's pool has, where a rule cares.
    pub pool: Option<NonZeroU32>,
    /// How long one call may take.
    pub deadline: Duration,
    /// The session's time zone, as an offset from UTC in hours, where a rule cares.
    pub session_time_zone: Option<i8>,
    /// By how many seconds the clock of the claimant's process is off, where a rule cares.
    pub clock_off_by: Option<i64>,
}

impl How {
    /// The first handle, with everything as usual.
    #[must_use]
    pub fn usual() -> How {
        How {
            role: Role::First,
            reach: Reach::Direct,
            schema: Schema::Current,
            rules: Rules::default(),
            pool: None,
            deadline: Duration::from_secs(10),
            session_time_zone: None,
            clock_off_by: None,
        }
    }

    /// The second handle, with everything as usual.
    #[must_use]
    pub fn second() -> How {
        How { role: Role::Second, ..How::usual() }
    }

    /// The same, keeping things for as long as these rules say.
    #[must_use]
    pub fn keeping(mut self, rules: Rules) -> How {
        self.rules = rules;
        self
    }

    /// The same, reaching the server so.
    #[must_use]
    pub fn reaching(mut self, reach: Reach) -> How {
        self.reach = reach;
        self
    }

    /// The same, finding the tables so.
    #[must_use]
    pub fn finding(mut self, schema: Schema) -> How {
        self.schema = schema;
        self
    }

    /// The same, with this long for a call.
    #[must_use]
    pub fn within(mut self, deadline: Duration) -> How {
        self.deadline = deadline;
        self
    }

    /// The same, with a pool of one connection.
    #[must_use]
    pub fn alone(mut self) -> How {
        self.pool = Some(NonZeroU32::MIN);
        self
    }

    /// Does it ask for nothing but a handle? Then no backend may call it unsupported.
    #[must_use]
    pub fn is_usual(&self) -> bool {
        self.reach == Reach::Direct
            && self.schema == Schema::Current
            && self.rules == Rules::default()
            && self.pool.is_none()
            && self.session_time_zone.is_none()
            && self.clock_off_by.is_none()
    }
}

/// Which handle of a namespace.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Role {
    /// The first.
    First,
    /// Another one, which shares nothing with the first but the records.
    Second,
}

/// By which way a server is reached.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Reach {
    /// As usual.
    Direct,
    /// Through a proxy that listens here.
    Through(SocketAddr),
    /// Not at all: at an address where nobody answers.
    Nowhere,
}

/// In which state a handle finds the tables.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Schema {
    /// As this version makes them. Opening creates them when they are missing.
    Current,
    /// Missing, and not to be created.
    Missing,
    /// Marked as of a version that this code does not know yet.
    Newer,
    /// Of a version before this one.
    Older,
}

/// Why there is no handle.
#[derive(Debug)]
pub enum OpenError {
    /// The backend cannot do what `how` asks for. Reported as a gap.
    Unsupported(String),
    /// The store refused, with its own error.
    Refused(idem_core::Error),
    /// The environment is broken: no folder, no server.
    Environment(String),
}

impl OpenError {
    /// The environment is broken in this way.
    #[must_use]
    pub fn environment(what: impl fmt::Display) -> OpenError {
        OpenError::Environment(what.to_string())
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenError::Unsupported(what) => write!(f, "the harness cannot open a handle so: {what}"),
            OpenError::Refused(error) => write!(f, "the store refused to open: {error}"),
            OpenError::Environment(what) => write!(f, "no handle could be opened: {what}"),
        }
    }
}

impl std::error::Error for OpenError {}

impl From<HookError> for OpenError {
    fn from(error: HookError) -> OpenError {
        match error {
            HookError::Unsupported => OpenError::Unsupported("the harness cannot reach what it takes".into()),
            HookError::Failed(what) => OpenError::Environment(what),
        }
    }
}

impl From<idem_core::Error> for OpenError {
    fn from(error: idem_core::Error) -> OpenError {
        OpenError::Refused(error)
    }
}
