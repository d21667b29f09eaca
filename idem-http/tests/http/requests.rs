//! Which requests are guarded, what makes two of them the same, and how their bodies are read.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes};
use axum::response::IntoResponse;
use axum::routing::{any, post};
use axum::{Extension, Router};
use futures::stream;
use http::{HeaderValue, Method, Request, StatusCode};
use http_body::{Frame, SizeHint};
use idem_core::{Idem, MemoryStore, Operation, Scope, Store};
use idem_http::{Attempt, Demand, GlobalScope, IdempotencyLayer, Profile, from_extension};

use tower::{Layer, ServiceExt};

use crate::support::{Runs, identity, pay, read, request, send};

fn idem() -> (Idem, Arc<MemoryStore>) {
    let store = Arc::new(MemoryStore::new());
    (Idem::new(Arc::clone(&store) as Arc<dyn Store>), store)
}

/// Any method on any path; says how often it ran, and repeats the body.
fn app(profile: Profile) -> (Router, Arc<MemoryStore>, Runs) {
    let ((idem, store), runs) = (idem(), Runs::default());
    let counted = runs.clone();
    let handler = any(async move |body: Bytes| {
        counted.one_more();
        body
    });
    let app = Router::new().route("/{*path}", handler).layer(IdempotencyLayer::new(idem, GlobalScope).profile(profile));
    (app, store, runs)
}

#[tokio::test]
async fn only_the_guarded_methods() {
    for (method, guarded) in [
        (Method::POST, true),
        (Method::PATCH, true),
        (Method::PUT, false),
        (Method::DELETE, false),
        (Method::GET, false),
        (Method::HEAD, false),
        (Method::OPTIONS, false),
    ] {
        let (app, store, runs) = app(Profile::ietf());
        for _ in 0..2 {
            let answer = send(&app, request(method.clone(), "/a", "k", "")).await;
            assert_eq!(answer.status, StatusCode::OK, "{method}");
        }
        assert_eq!(runs.count(), if guarded { 1 } else { 2 }, "{method}");
        assert_eq!(store.peek(&identity("k")).is_some(), guarded, "{method}");
    }
    let (app, _, runs) = app(Profile::ietf().methods([Method::PUT]));
    for method in [Method::PUT, Method::PUT, Method::POST, Method::POST] {
        send(&app, request(method, "/a", "k", "")).await;
    }
    assert_eq!(runs.count(), 1 + 2);
}

/// A key is never invented, and what is not guarded is not read: the body arrives as the stream that it was.
#[tokio::test]
async fn without_an_optional_key_a_request_passes_untouched() {
    let (app, store, runs) = app(Profile::ietf().demand(Demand::Optional).body_limit(1));
    for _ in 0..2 {
        let request = Request::post("/a").body(Body::from("longer than the limit")).expect("valid");
        let answer = send(&app, request).await;
        assert_eq!(answer.body, "longer than the limit");
        assert!(!answer.is_replay());
    }
    assert_eq!(runs.count(), 2);
    assert!(store.peek(&identity("k")).is_none());
}

#[tokio::test]
async fn what_makes_two_requests_the_same() {
    let base = || request(Method::POST, "/a/b?x=1", "k", "{\"n\":1}");
    let content_type = |value: &'static str| {
        let mut request = base();
        request.headers_mut().insert("content-type", HeaderValue::from_static(value));
        request
    };
    let mut no_content_type = base();
    no_content_type.headers_mut().remove("content-type");
    let mut another_header = base();
    another_header.headers_mut().insert("x-request-id", HeaderValue::from_static("7"));
    let same = [base(), another_header];
    let different = [
        request(Method::PATCH, "/a/b?x=1", "k", "{\"n\":1}"),
        request(Method::POST, "/a/c?x=1", "k", "{\"n\":1}"),
        request(Method::POST, "/a/b?x=2", "k", "{\"n\":1}"),
        request(Method::POST, "/a/b", "k", "{\"n\":1}"),
        request(Method::POST, "/a/b?x=1", "k", "{\"n\":2}"),
        request(Method::POST, "/a/b?x=1", "k", ""),
        request(Method::POST, "/a/B?x=1", "k", "{\"n\":1}"),
        content_type("text/plain"),
        no_content_type,
    ];
    let (app, _, runs) = app(Profile::ietf());
    assert!(!send(&app, base()).await.is_replay());
    for request in same {
        assert!(send(&app, request).await.is_replay());
    }
    for request in different {
        let shown = format!("{} {} {:?}", request.method(), request.uri(), request.headers());
        assert_eq!(send(&app, request).await.problem(), "mismatch", "{shown}");
    }
    assert_eq!(runs.count(), 1);
}

/// A nested router sees a shortened path; two resources that differ only in what was cut off are still two.
#[tokio::test]
async fn nested_routers_see_the_whole_path() {
    let ((idem, store), runs) = (idem(), Runs::default());
    let counted = runs.clone();
    let inner = Router::new()
        .route("/pay", post(async move || counted.one_more().to_string()))
        .layer(IdempotencyLayer::new(idem, GlobalScope));
    let app = Router::new().nest("/shops/{shop}", Router::new().nest("/v1", inner));
    let to = |path: &str| request(Method::POST, path, "k", "{}");
    assert_eq!(send(&app, to("/shops/1/v1/pay")).await.body, "1");
    assert!(send(&app, to("/shops/1/v1/pay")).await.is_replay());
    assert_eq!(send(&app, to("/shops/2/v1/pay")).await.problem(), "mismatch");
    assert_eq!(runs.count(), 1);
    let record = store.peek(&identity("k")).expect("recorded");
    assert_eq!(record.operation.as_str(), "POST /shops/1/v1/pay");
}

/// Moving the layer from the route to the outside of the router turns no retry into a mismatch.
#[tokio::test]
async fn the_layer_may_be_anywhere() {
    let (idem, _) = idem();
    let route = || Router::new().route("/{id}", post(async || "paid"));
    let layer = || IdempotencyLayer::new(idem.clone(), GlobalScope);
    let on_the_route = Router::new().nest("/pay", Router::new().route("/{id}", post(async || "paid").layer(layer())));
    let on_a_router = Router::new().nest("/pay", route().layer(layer()));
    let outside = layer().layer(Router::new().nest("/pay", route()));
    let again = || request(Method::POST, "/pay/7", "k", "{}");
    assert_eq!(send(&on_the_route, again()).await.body, "paid");
    for app in [on_the_route, on_a_router] {
        assert!(send(&app, again()).await.is_replay());
    }
    let answer = outside.oneshot(again()).await.expect("infallible").into_response();
    assert!(read(answer).await.is_replay());
}

#[tokio::test]
async fn long_paths_and_named_operations() {
    let (long, store, runs) = app(Profile::ietf());
    let path = format!("/{}", "p".repeat(300));
    assert_eq!(send(&long, request(Method::POST, &format!("{path}1"), "k", "")).await.status, StatusCode::OK);
    assert_eq!(send(&long, request(Method::POST, &format!("{path}2"), "k", "")).await.problem(), "mismatch");
    assert_eq!(store.peek(&identity("k")).expect("recorded").operation.as_str().len(), 255);
    assert_eq!(runs.count(), 1);

    let (named, store, _) = app(Profile::ietf().operation(Operation::new("pay").expect("valid")));
    send(&named, request(Method::POST, "/a", "k", "")).await;
    assert_eq!(store.peek(&identity("k")).expect("recorded").operation.as_str(), "pay");
    for (method, path) in [(Method::POST, "/b"), (Method::PATCH, "/a")] {
        assert_eq!(send(&named, request(method, path, "k", "")).await.problem(), "mismatch", "{path}");
    }
}

#[derive(Clone)]
struct User(&'static str);

#[tokio::test]
async fn keys_of_two_users_never_meet() {
    let ((idem, _), runs) = (idem(), Runs::default());
    let counted = runs.clone();
    let guarded = Router::new()
        .route(
            "/pay",
            post(async move |attempt: Attempt| {
                counted.one_more();
                attempt.identity().scope.as_str().to_owned()
            }),
        )
        .layer(IdempotencyLayer::new(idem, from_extension(|user: &User| Ok(Scope::new(user.0)?))));
    for name in ["ann", "bob", "ann"] {
        let app = guarded.clone().layer(Extension(User(name)));
        assert_eq!(send(&app, pay("k")).await.body, name);
    }
    assert_eq!(runs.count(), 2);
    // Without authentication, and with a principal that makes no scope, it is the service's own fault.
    assert_eq!(send(&guarded, pay("k")).await.problem(), "no-scope");
    assert_eq!(send(&guarded.layer(Extension(User(""))), pay("k")).await.problem(), "no-scope");
    assert_eq!(runs.count(), 2);
}

#[tokio::test]
async fn a_body_reaches_the_handler_unchanged_up_to_the_limit() {
    let every_byte: Vec<u8> = (0..=255).cycle().take(1_000).collect();
    let of = |key: &str, bytes: &[u8]| {
        let mut request = pay(key);
        *request.body_mut() = Body::from(bytes.to_vec());
        request
    };
    let (app, store, runs) = app(Profile::ietf().body_limit(1_000));
    assert_eq!(&*send(&app, of("k", &every_byte)).await.body, &every_byte[..]);
    let longer = [&every_byte[..], b"1"].concat();
    let answer = send(&app, of("longer", &longer)).await;
    assert_eq!((answer.status, &*answer.problem()), (StatusCode::PAYLOAD_TOO_LARGE, "body-too-large"));
    // The same without a length that could be known before.
    let mut streamed = pay("longer");
    let chunks =
        longer.chunks(100).map(|chunk| Ok::<_, std::io::Error>(Bytes::copy_from_slice(chunk))).collect::<Vec<_>>();
    *streamed.body_mut() = Body::from_stream(stream::iter(chunks));
    assert_eq!(send(&app, streamed).await.problem(), "body-too-large");
    assert!(store.peek(&identity("longer")).is_none(), "nothing is claimed");
    assert_eq!(runs.count(), 1);
}

/// A body that says how long it is, and must not be read.
struct Announced(u64);

impl http_body::Body for Announced {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
        panic!("the body was read")
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0)
    }
}

#[tokio::test]
async fn what_is_announced_as_too_long_is_not_read() {
    let (app, ..) = app(Profile::ietf().body_limit(1_000));
    let mut announced = pay("k");
    *announced.body_mut() = Body::new(Announced(1_001));
    assert_eq!(send(&app, announced).await.problem(), "body-too-large");
}

#[tokio::test]
async fn a_body_that_breaks_off_claims_nothing() {
    let (app, store, runs) = app(Profile::ietf());
    let mut broken = pay("k");
    let chunks = [Ok(Bytes::from_static(b"{")), Err(std::io::Error::other("gone"))];
    *broken.body_mut() = Body::from_stream(stream::iter(chunks));
    let answer = send(&app, broken).await;
    assert_eq!((answer.status, &*answer.problem()), (StatusCode::BAD_REQUEST, "body-unreadable"));
    assert!(store.peek(&identity("k")).is_none());
    assert_eq!(runs.count(), 0);
}

/// A limit outside of the layer stays a limit.
#[tokio::test]
async fn a_limit_outside_is_told_as_one() {
    let (app, _, runs) = app(Profile::ietf());
    let mut request = pay("k");
    let chunks = [Ok::<_, std::io::Error>(Bytes::from_static(b"0123456789"))];
    let limited = http_body_util::Limited::new(Body::from_stream(stream::iter(chunks)), 5);
    *request.body_mut() = Body::new(limited);
    assert_eq!(send(&app, request).await.problem(), "body-too-large");
    assert_eq!(runs.count(), 0);
}
