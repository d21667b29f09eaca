//! What the tests share: requests, a store that fails on request, and answers that can be compared.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use axum::Router;
use axum::body::Body;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use bytes::Bytes;
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::BodyExt;
use idem_core::{
    Claim, Claimed, Complete, Completed, Config, Error, ErrorKind, Idem, Identity, Key, MemoryStore, Purged, Record,
    Release, Released, Renew, Renewed, Scope, State, Store,
};
use idem_http::{Attempt, GlobalScope, IdempotencyLayer, Profile};
use tokio::sync::Semaphore;
use tower::ServiceExt;

/// How often a handler ran.
#[derive(Clone, Default)]
pub(crate) struct Runs(Arc<AtomicU32>);

impl Runs {
    pub(crate) fn one_more(&self) -> u32 {
        self.0.fetch_add(1, Ordering::SeqCst) + 1
    }

    pub(crate) fn count(&self) -> u32 {
        self.0.load(Ordering::SeqCst)
    }
}

/// An application with one guarded route, its store, and the count of its handler's runs.
pub(crate) struct Guarded {
    pub(crate) app: Router,
    pub(crate) store: Arc<MemoryStore>,
    pub(crate) runs: Runs,
}

/// A handler that is a function of its attempt, on `/pay`.
pub(crate) fn guarded<A: IntoResponse>(handler: impl Fn(Attempt) -> A + Clone + Send + Sync + 'static) -> Guarded {
    guarded_by(Profile::ietf(), Config::default(), handler)
}

pub(crate) fn guarded_by<A: IntoResponse>(
    profile: Profile,
    config: Config,
    handler: impl Fn(Attempt) -> A + Clone + Send + Sync + 'static,
) -> Guarded {
    let store = Arc::new(MemoryStore::new());
    let runs = Runs::default();
    let idem = Idem::with_config(Arc::clone(&store) as Arc<dyn Store>, config);
    let counted = runs.clone();
    let app = Router::new()
        .route(
            "/pay",
            post(async move |attempt: Attempt| {
                counted.one_more();
                handler(attempt).into_response()
            }),
        )
        .layer(IdempotencyLayer::new(idem, GlobalScope).profile(profile));
    Guarded { app, store, runs }
}

impl Guarded {
    /// POST /pay with this key.
    pub(crate) async fn pay(&self, key: &str) -> Answer {
        send(&self.app, pay(key)).await
    }

    pub(crate) fn state(&self, key: &str) -> Option<State> {
        self.store.peek(&identity(key)).map(|record| record.state)
    }
}

pub(crate) fn pay(key: &str) -> Request<Body> {
    request(Method::POST, "/pay", key, "{}")
}

pub(crate) fn request(method: Method, uri: &str, key: &str, body: &str) -> Request<Body> {
    Request::builder()
        .method(method)
        .uri(uri)
        .header("idempotency-key", key)
        .header("content-type", "application/json")
        .body(Body::from(body.to_owned()))
        .expect("a valid request")
}

pub(crate) fn identity(key: &str) -> Identity {
    Identity::new(Scope::global(), Key::new(key).expect("a valid key"))
}

/// A response, read whole.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

pub(crate) async fn send(app: &Router, request: Request<Body>) -> Answer {
    read(app.clone().oneshot(request).await.expect("infallible")).await
}

pub(crate) async fn read(response: Response) -> Answer {
    let (parts, body) = response.into_parts();
    let body = body.collect().await.expect("a whole body").to_bytes();
    Answer { status: parts.status, headers: parts.headers, body }
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().expect("printable"))
    }

    pub(crate) fn is_replay(&self) -> bool {
        self.header("idempotent-replayed") == Some("true")
    }

    /// The end of the problem's type; panics unless the answer is a well-formed problem.
    pub(crate) fn problem(&self) -> String {
        assert_eq!(self.header("content-type"), Some("application/problem+json"));
        let problem = self.json();
        assert_eq!(problem["status"], self.status.as_u16());
        assert!(problem["title"].as_str().is_some_and(|title| !title.is_empty()));
        assert!(!self.headers.contains_key("idempotent-replayed"), "a problem is no replay");
        let name = problem["type"].as_str().and_then(|kind| kind.strip_prefix("urn:idem:problem:"));
        name.expect("one of our types").to_owned()
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).expect("JSON")
    }
}

/// A memory store that can be switched off, and whose completions can be held back.
pub(crate) struct Troubled {
    pub(crate) inner: MemoryStore,
    pub(crate) kind: ErrorKind,
    pub(crate) away: AtomicBool,
    /// One completion goes through for each permit, when there is a gate.
    pub(crate) completions: Option<Semaphore>,
}

impl Troubled {
    pub(crate) fn away(kind: ErrorKind) -> Arc<Troubled> {
        Arc::new(Troubled { inner: MemoryStore::new(), kind, away: AtomicBool::new(true), completions: None })
    }

    pub(crate) fn gated() -> Arc<Troubled> {
        Arc::new(Troubled {
            inner: MemoryStore::new(),
            kind: ErrorKind::Unavailable,
            away: AtomicBool::new(false),
            completions: Some(Semaphore::new(0)),
        })
    }

    pub(crate) fn is_back(&self) {
        self.away.store(false, Ordering::SeqCst);
    }

    fn check(&self) -> Result<(), Error> {
        if self.away.load(Ordering::SeqCst) { Err(Error::new(self.kind, "switched off by the test")) } else { Ok(()) }
    }
}

#[async_trait]
impl Store for Troubled {
    async fn claim(&self, claim: &Claim) -> Result<Claimed, Error> {
        self.check()?;
        self.inner.claim(claim).await
    }

    async fn renew(&self, renew: &Renew) -> Result<Renewed, Error> {
        self.check()?;
        self.inner.renew(renew).await
    }

    async fn complete(&self, complete: &Complete) -> Result<Completed, Error> {
        self.check()?;
        if let Some(gate) = &self.completions {
            gate.acquire().await.expect("never closed").forget();
        }
        self.inner.complete(complete).await
    }

    async fn release(&self, release: &Release) -> Result<Released, Error> {
        self.check()?;
        self.inner.release(release).await
    }

    async fn get(&self, identity: &Identity) -> Result<Option<Record>, Error> {
        self.check()?;
        self.inner.get(identity).await
    }

    async fn purge(&self, limit: NonZeroU32) -> Result<Purged, Error> {
        self.check()?;
        self.inner.purge(limit).await
    }
}

/// Fails a test that would otherwise hang.
pub(crate) async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(30), future).await.expect("in time")
}

/// Serves an application on a socket of its own, and tells its address.
pub(crate) async fn serve(app: Router) -> std::net::SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("bound");
    tokio::spawn(async move { axum::serve(listener, app).await });
    address
}
