//! What somebody writes to have a store certified: three methods, and a hook for each thing that only they can reach.

mod absent;
mod declaration;
mod hook;
mod how;
mod namespace;
mod script;
mod server;

use std::any::Any;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use async_trait::async_trait;
use idem_core::{Identity, Record, Span, Store};

pub use absent::Absent;
pub use declaration::{Declaration, Isolation, LEAST_RESPONSE_LIMIT};
pub use hook::{Aged, Hook, HookError, Hooked, Obstacle, Setting, unsupported};
pub use how::{How, OpenError, Reach, Role, Schema};
pub use namespace::Namespace;
pub use script::{Entry, Finish, OUTER, Pause, Paused, Script, Scripted, pause};
pub use server::Server;

/// Who is tested.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Implementation {
    /// A short name, as trials begin with it: `postgres`.
    pub name: String,
    /// The version of the store's own code.
    pub version: String,
    /// Where its server is, if it has one and if it is known already. Passwords are taken out before it is shown.
    pub url: Option<String>,
}

impl Implementation {
    /// A store of this name and version.
    #[must_use]
    pub fn new(name: impl Into<String>, version: impl Into<String>) -> Implementation {
        Implementation { name: name.into(), version: version.into(), url: None }
    }

    /// The same, reached at this URL.
    #[must_use]
    pub fn at(mut self, url: impl Into<String>) -> Implementation {
        self.url = Some(url.into());
        self
    }
}

/// Keeps alive what a handle needs (a folder, a server). Dropped after the handle.
pub struct Guard(#[allow(dead_code)] Box<dyn Any + Send + Sync>);

impl Guard {
    /// Keeps this alive.
    #[must_use]
    pub fn of(value: impl Any + Send + Sync) -> Guard {
        Guard(Box::new(value))
    }

    /// There is nothing to keep alive.
    #[must_use]
    pub fn none() -> Guard {
        Guard::of(())
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Guard")
    }
}

/// A store that is to be certified.
///
/// [`identity`](Harness::identity), [`declare`](Harness::declare) and [`open`](Harness::open) are required. Every
/// other method is a hook: what it reaches, only the backend's author can reach. A hook that is not written is a *gap*:
/// the rules that need it are reported as not run, never as passed. [`age`](Harness::age) is one UPDATE and most rules
/// of time need it: without it no profile is a success.
#[async_trait]
pub trait Harness: Send + Sync + 'static {
    /// Who is tested. Called to *list* trials, so it contacts no server.
    fn identity(&self) -> Implementation;

    /// What the store promises beyond the core, and its limits. What is not declared is denied, and a denial is probed.
    /// Contacts no server.
    fn declare(&self) -> Declaration;

    /// What the store cannot do without, such as a server, when it is known to be missing. Called to *list* trials, so it
    /// starts nothing and contacts no server.
    fn absent(&self) -> Option<Absent> {
        None
    }

    /// Makes sure that what the store cannot do without is there, and starts it the first time. Called before each trial.
    ///
    /// # Errors
    /// [`Absent`]: no rule is run, for this reason.
    async fn prepare(&self) -> Result<(), Absent> {
        self.absent().map_or(Ok(()), Err)
    }

    /// Opens a handle on the records of this namespace, and creates what it needs the first time.
    ///
    /// # Behavior
    /// Two handles of one namespace share nothing in this process: each has its own pool. A store that denies
    /// [`Shared`](crate::Profile::Shared) gives every handle its own records.
    ///
    /// # Errors
    /// [`OpenError::Unsupported`] for something in `how` that the backend cannot do: it becomes a gap.
    /// [`OpenError::Refused`] with the store's own error, when it refused.
    async fn open(&self, namespace: &Namespace, how: &How) -> Result<(Guard, Arc<dyn Store>), OpenError>;

    /// Removes what a namespace has left. Called once, after its handles and guards are dropped.
    async fn clear(&self, _namespace: &Namespace) {}

    /// Makes one record older: one UPDATE that shifts every time column of this one record back. So nothing sleeps,
    /// and the store's own clock is still what decides.
    async fn age(&self, _namespace: &Namespace, _identity: &Identity, _by: Span) -> Hooked<Aged> {
        unsupported()
    }

    /// Reads one row as it is, over age or not, over a connection that is not the store's.
    async fn peek(&self, _namespace: &Namespace, _identity: &Identity) -> Hooked<Option<Record>> {
        unsupported()
    }

    /// Cuts, at the server, every connection that works on this namespace.
    async fn kill_connections(&self, _namespace: &Namespace) -> Hooked<()> {
        unsupported()
    }

    /// Where the server listens now, so that a proxy can be put before it.
    async fn address(&self) -> Hooked<SocketAddr> {
        unsupported()
    }

    /// The same backend on a server that one trial has to itself until it drops the guard: it is killed and started
    /// there, and no other trial notices. Its harness has [`server`](Harness::server).
    async fn apart(&self) -> Hooked<(Guard, Arc<dyn Harness>)> {
        unsupported()
    }

    /// The server, when this process may stop and start it.
    fn server(&self) -> Option<&dyn Server> {
        None
    }

    /// The settings that durability rests on, read from the live server.
    async fn durability(&self) -> Hooked<Vec<Setting>> {
        unsupported()
    }

    /// Makes the cache before the arbiter say this about an identity, whatever is true.
    async fn cache(&self, _namespace: &Namespace, _identity: &Identity, _says: CacheSays) -> Hooked<()> {
        unsupported()
    }

    /// Puts something in the way of the store, at the server.
    async fn obstruct(&self, _namespace: &Namespace, _obstacle: Obstacle) -> Hooked<()> {
        unsupported()
    }

    /// Plays a transaction that joins business rows and the record.
    async fn transaction(&self, _namespace: &Namespace, _script: Script) -> Hooked<Scripted> {
        unsupported()
    }

    /// The business rows that committed transactions have left, over a connection that is not the store's.
    async fn business_rows(&self, _namespace: &Namespace) -> Hooked<Vec<String>> {
        unsupported()
    }
}

/// What a cache is made to say.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum CacheSays {
    /// Nothing: it was flushed.
    Nothing,
    /// "Somebody is at it."
    InFlight,
    /// "It is done."
    Done,
}
