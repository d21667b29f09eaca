//! Hooks and their answers.

use std::fmt;

use serde::Serialize;

/// What a hook answers.
pub type Hooked<T> = Result<T, HookError>;

/// The answer of every hook that is not written.
///
/// # Errors
/// Always [`HookError::Unsupported`].
pub fn unsupported<T>() -> Hooked<T> {
    Err(HookError::Unsupported)
}

/// Why a hook did nothing.
#[derive(Debug)]
pub enum HookError {
    /// The harness does not have it. Reported as a gap.
    Unsupported,
    /// It was tried and failed: the environment is broken.
    Failed(String),
}

impl HookError {
    /// It failed in this way.
    #[must_use]
    pub fn failed(what: impl fmt::Display) -> HookError {
        HookError::Failed(what.to_string())
    }
}

/// A hook of the [`Harness`](crate::Harness), for reports.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Hook {
    /// [`age`](crate::Harness::age)
    Age,
    /// [`peek`](crate::Harness::peek)
    Peek,
    /// [`kill_connections`](crate::Harness::kill_connections)
    KillConnections,
    /// [`address`](crate::Harness::address)
    Address,
    /// [`apart`](crate::Harness::apart)
    Apart,
    /// [`server`](crate::Harness::server)
    Server,
    /// [`durability`](crate::Harness::durability)
    Durability,
    /// [`cache`](crate::Harness::cache)
    Cache,
    /// [`obstruct`](crate::Harness::obstruct)
    Obstruct,
    /// [`transaction`](crate::Harness::transaction)
    Transaction,
    /// [`business_rows`](crate::Harness::business_rows)
    BusinessRows,
    /// Something in [`How`](crate::harness::How) that `open` does not support.
    Open,
}

impl fmt::Display for Hook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Hook::Age => "age",
            Hook::Peek => "peek",
            Hook::KillConnections => "kill_connections",
            Hook::Address => "address",
            Hook::Apart => "apart",
            Hook::Server => "server",
            Hook::Durability => "durability",
            Hook::Cache => "cache",
            Hook::Obstruct => "obstruct",
            Hook::Transaction => "transaction",
            Hook::BusinessRows => "business_rows",
            Hook::Open => "open",
        })
    }
}

/// What ageing did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Aged {
    /// The record is older now.
    Older,
    /// There is no such record.
    NoRecord,
}

/// Something in the way of the store, at the server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Obstacle {
    /// Every insert of a record violates a constraint that has nothing to do with its identity (a CHECK, a trigger).
    OtherConstraint,
}

/// A setting, read from the live server.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Setting {
    /// Its name there.
    pub name: String,
    /// Its value.
    pub value: String,
}

impl Setting {
    /// This setting has this value.
    #[must_use]
    pub fn new(name: impl Into<String>, value: impl Into<String>) -> Setting {
        Setting { name: name.into(), value: value.into() }
    }
}
