//! A harness for stores that live in this process's memory.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use async_trait::async_trait;
use idem_core::{
    Claim, Claimed, Complete, Completed, Error, Identity, MemoryStore, Purged, Record, Release, Released, Renew,
    Renewed, Span, Store,
};

use crate::harness::{
    Aged, Declaration, Guard, Harness, Hooked, How, Implementation, Namespace, OpenError, Reach, Schema,
};

/// A store in memory whose records a test can read and make older.
pub trait Ageable: Store + 'static {
    /// Shifts all times of one record back. Says whether there was a record.
    fn age(&self, identity: &Identity, by: Span) -> bool;
    /// The row as it is.
    fn peek(&self, identity: &Identity) -> Option<Record>;
}

impl Ageable for MemoryStore {
    fn age(&self, identity: &Identity, by: Span) -> bool {
        MemoryStore::age(self, identity, by)
    }

    fn peek(&self, identity: &Identity) -> Option<Record> {
        MemoryStore::peek(self, identity)
    }
}

/// What two handles of one namespace have to do with each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sharing {
    /// Nothing: each has its own records.
    Apart,
    /// They work on the same records, for as long as one of them is open.
    Together,
}

type Make = Arc<dyn Fn(&How) -> Arc<dyn Ageable> + Send + Sync>;

/// A harness for stores that live in this process's memory.
pub struct InMemory {
    identity: Implementation,
    declaration: Declaration,
    sharing: Sharing,
    make: Make,
    open: Mutex<HashMap<Namespace, Vec<Weak<dyn Ageable>>>>,
}

impl InMemory {
    /// A harness for stores that are made so.
    pub fn new(
        identity: Implementation,
        declaration: Declaration,
        sharing: Sharing,
        make: impl Fn(&How) -> Arc<dyn Ageable> + Send + Sync + 'static,
    ) -> InMemory {
        InMemory { identity, declaration, sharing, make: Arc::new(make), open: Mutex::default() }
    }

    fn stores(&self, namespace: &Namespace) -> Vec<Arc<dyn Ageable>> {
        self.lock().get(namespace).into_iter().flatten().filter_map(Weak::upgrade).collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Namespace, Vec<Weak<dyn Ageable>>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Harness for InMemory {
    fn identity(&self) -> Implementation {
        self.identity.clone()
    }

    fn declare(&self) -> Declaration {
        self.declaration.clone()
    }

    async fn open(&self, namespace: &Namespace, how: &How) -> Result<(Guard, Arc<dyn Store>), OpenError> {
        let session = how.session_time_zone.is_some() || how.clock_off_by.is_some();
        if session || how.reach != Reach::Direct || how.schema != Schema::Current {
            return Err(OpenError::Unsupported("a store in memory has no server, no tables and no sessions".into()));
        }
        let there = match self.sharing {
            Sharing::Together => self.stores(namespace).into_iter().next(),
            Sharing::Apart => None,
        };
        let store = there.unwrap_or_else(|| {
            let made = (self.make)(how);
            self.lock().entry(namespace.clone()).or_default().push(Arc::downgrade(&made));
            made
        });
        let handle: Arc<dyn Store> = match self.sharing {
            Sharing::Apart => store,
            // Each handle is an object of its own, as it is for a store behind a connection.
            Sharing::Together => Arc::new(Connection(store)),
        };
        Ok((Guard::none(), handle))
    }

    async fn clear(&self, namespace: &Namespace) {
        self.lock().remove(namespace);
    }

    async fn age(&self, namespace: &Namespace, identity: &Identity, by: Span) -> Hooked<Aged> {
        let aged = self.stores(namespace).iter().filter(|store| store.age(identity, by)).count();
        Ok(if aged > 0 { Aged::Older } else { Aged::NoRecord })
    }

    async fn peek(&self, namespace: &Namespace, identity: &Identity) -> Hooked<Option<Record>> {
        Ok(self.stores(namespace).iter().find_map(|store| store.peek(identity)))
    }
}

/// A handle on a store that other handles share.
struct Connection(Arc<dyn Ageable>);

#[async_trait]
impl Store for Connection {
    async fn claim(&self, claim: &Claim) -> Result<Claimed, Error> {
        self.0.claim(claim).await
    }

    async fn renew(&self, renew: &Renew) -> Result<Renewed, Error> {
        self.0.renew(renew).await
    }

    async fn complete(&self, complete: &Complete) -> Result<Completed, Error> {
        self.0.complete(complete).await
    }

    async fn release(&self, release: &Release) -> Result<Released, Error> {
        self.0.release(release).await
    }

    async fn get(&self, identity: &Identity) -> Result<Option<Record>, Error> {
        self.0.get(identity).await
    }

    async fn purge(&self, limit: NonZeroU32) -> Result<Purged, Error> {
        self.0.purge(limit).await
    }
}
