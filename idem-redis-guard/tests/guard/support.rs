//! A counted store, a guard in front of it, and a Redis server.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use conformance::provider::{Endpoint, Kind, Server, wanted};
use idem_core::{
    Claim, ClaimBuilder, Claimed, Complete, Completed, End, Error, Fingerprint, Grant, Identity, Key, MemoryStore,
    Operation, Purged, Record, Release, Released, Renew, Renewed, Response, Scope, Span, Store,
};
use idem_redis_guard::redis::{self, AsyncCommands};
use idem_redis_guard::{Builder, RedisGuard};
use tokio::sync::OnceCell;

static SHARED: OnceCell<Option<Server>> = OnceCell::const_new();

/// A server of the test's own, or none, said why; an error when one is required.
pub(crate) async fn own_server() -> Option<Server> {
    wanted(Kind::Redis).await
}

/// The server that tests share which leave it as it is.
pub(crate) async fn server() -> Option<Server> {
    SHARED.get_or_init(own_server).await.clone()
}

/// A store in memory that counts what it is asked.
#[derive(Default)]
pub(crate) struct Counted {
    pub(crate) store: MemoryStore,
    calls: AtomicU64,
}

impl Counted {
    pub(crate) fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    fn count(&self) -> &MemoryStore {
        self.calls.fetch_add(1, Ordering::Relaxed);
        &self.store
    }
}

#[async_trait]
impl Store for Counted {
    async fn claim(&self, claim: &Claim) -> Result<Claimed, Error> {
        self.count().claim(claim).await
    }
    async fn renew(&self, renew: &Renew) -> Result<Renewed, Error> {
        self.count().renew(renew).await
    }
    async fn complete(&self, complete: &Complete) -> Result<Completed, Error> {
        self.count().complete(complete).await
    }
    async fn release(&self, release: &Release) -> Result<Released, Error> {
        self.count().release(release).await
    }
    async fn get(&self, identity: &Identity) -> Result<Option<Record>, Error> {
        self.count().get(identity).await
    }
    async fn purge(&self, limit: NonZeroU32) -> Result<Purged, Error> {
        self.count().purge(limit).await
    }
}

pub(crate) type Guard = RedisGuard<Counted>;

/// A guard that has learnt what it needs, in front of a store of its own.
pub(crate) struct Fixture {
    pub(crate) guard: Guard,
    pub(crate) store: Arc<Counted>,
    pub(crate) url: String,
}

impl Fixture {
    pub(crate) async fn new() -> Option<Fixture> {
        Some(Fixture::on(&server().await?, |builder| builder).await)
    }

    pub(crate) async fn on(server: &Server, how: fn(Builder<Counted>) -> Builder<Counted>) -> Fixture {
        Fixture::at(&server.endpoint(), how).await
    }

    pub(crate) async fn at(endpoint: &Endpoint, how: fn(Builder<Counted>) -> Builder<Counted>) -> Fixture {
        let url = endpoint.url().to_owned();
        let store = Arc::<Counted>::default();
        let guard = how(patient(&store)).redis(&url).expect("a URL");
        guard.ready().await.expect("the store answers");
        Fixture { guard, store, url }
    }

    /// A second process on the same database and the same Redis.
    pub(crate) async fn second(&self) -> Guard {
        let guard = patient(&self.store).redis(&self.url).expect("a URL");
        guard.ready().await.expect("the store answers");
        guard
    }

    pub(crate) async fn redis(&self) -> redis::aio::MultiplexedConnection {
        let client = redis::Client::open(self.url.as_str()).expect("a URL");
        client.get_multiplexed_async_connection().await.expect("connected")
    }

    /// What Redis holds for an identity.
    pub(crate) async fn entry(&self, identity: &Identity) -> Option<Vec<u8>> {
        self.redis().await.get(self.name(identity)).await.expect("an answer")
    }

    pub(crate) async fn put(&self, identity: &Identity, entry: &[u8]) {
        self.redis().await.set::<_, _, ()>(self.name(identity), entry).await.expect("set");
    }

    pub(crate) fn name(&self, identity: &Identity) -> String {
        self.guard.entry_name(identity).expect("the guard is ready")
    }

    /// Runs an operation to its end, and waits for the copy.
    pub(crate) async fn finished(&self, identity: &Identity, body: &[u8]) -> Grant {
        let grant = acquired(self.guard.claim(&claim(identity)).await);
        let end = End::Succeeded(Response::new(200).with_body(body.to_vec()).into());
        let completed = self.guard.complete(&Complete::new(grant.lease.clone(), end)).await.expect("completed");
        assert_eq!(completed, Completed::Stored);
        self.guard.flush().await;
        grant
    }
}

/// A guard's set-up that a slow machine does not disturb.
pub(crate) fn patient(store: &Arc<Counted>) -> Builder<Counted> {
    RedisGuard::builder(Arc::clone(store)).patience(std::time::Duration::from_secs(5))
}

pub(crate) fn identity(key: &str) -> Identity {
    Identity::new(Scope::new("alice").expect("valid"), Key::new(key).expect("valid"))
}

pub(crate) fn fingerprint(body: &str) -> Fingerprint {
    Fingerprint::of(&operation()).field("body", body.as_bytes()).finish()
}

fn operation() -> Operation {
    Operation::new("POST /payments").expect("valid")
}

pub(crate) fn builder(identity: &Identity) -> ClaimBuilder {
    Claim::builder(identity.clone(), operation(), fingerprint("1"))
}

pub(crate) fn claim(identity: &Identity) -> Claim {
    builder(identity).build().expect("valid")
}

pub(crate) fn another(identity: &Identity) -> Claim {
    Claim::builder(identity.clone(), operation(), fingerprint("2")).build().expect("valid")
}

pub(crate) fn acquired(answer: Result<Claimed, Error>) -> Grant {
    match answer.expect("an answer") {
        Claimed::Acquired(grant) => grant,
        other => panic!("not granted: {other:?}"),
    }
}

pub(crate) fn body(answer: Result<Claimed, Error>) -> Vec<u8> {
    match answer.expect("an answer") {
        Claimed::Replay(replay) => match replay.recorded {
            idem_core::Recorded::Response(response) => response.body.expect("a body").to_vec(),
            other => panic!("not a response: {other:?}"),
        },
        other => panic!("not replayed: {other:?}"),
    }
}

pub(crate) fn secs(secs: u64) -> Span {
    Span::saturating_secs(secs)
}
