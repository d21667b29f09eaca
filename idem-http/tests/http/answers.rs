//! Every row of the table of answers.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::routing::post;
use http::{HeaderValue, Method, StatusCode, Uri};
use idem_core::machine::Rules;
use idem_core::{Config, ErrorKind, Idem, MemoryStore, OnUncertain, Span, Store};
use idem_http::{Attempt, Demand, Denied, GlobalScope, IdempotencyLayer, Profile};
use tokio::sync::Notify;

use crate::support::{Runs, Troubled, guarded, guarded_by, identity, pay, request, send, soon};

#[tokio::test]
async fn missing_where_required() {
    let guarded = guarded(|_| StatusCode::CREATED);
    let mut request = pay("k");
    request.headers_mut().clear();
    let answer = send(&guarded.app, request).await;
    assert_eq!((answer.status, &*answer.problem()), (StatusCode::BAD_REQUEST, "key-missing"));
    assert_eq!(guarded.runs.count(), 0);
}

#[tokio::test]
async fn malformed() {
    let guarded = guarded(|_| StatusCode::CREATED);
    let answer = guarded.pay("\"never closed").await;
    assert_eq!((answer.status, &*answer.problem()), (StatusCode::BAD_REQUEST, "key-malformed"));
    assert!(answer.header("retry-after").is_none());
    assert_eq!(guarded.runs.count(), 0);
}

#[tokio::test]
async fn another_request_under_the_key() {
    let guarded = guarded(|_| StatusCode::CREATED);
    guarded.pay("k").await;
    let answer = send(&guarded.app, request(Method::POST, "/pay", "k", "{\"other\":1}")).await;
    assert_eq!((answer.status, &*answer.problem()), (StatusCode::UNPROCESSABLE_ENTITY, "mismatch"));
    assert_eq!(guarded.runs.count(), 1);
}

#[tokio::test]
async fn in_flight_with_a_retry_after_that_is_rounded_up_and_capped() {
    let lease = |secs| Config::default_with(|config| config.lease = Span::saturating_secs(secs));
    for (lease, told) in [(lease(30), "30"), (lease(90), "60"), (lease(1), "1")] {
        let (entered, leave) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let store = Arc::new(MemoryStore::new());
        let layer = IdempotencyLayer::new(Idem::with_config(Arc::clone(&store) as Arc<dyn Store>, lease), GlobalScope);
        let handler = {
            let (entered, leave) = (Arc::clone(&entered), Arc::clone(&leave));
            async move || {
                entered.notify_one();
                leave.notified().await;
                "done"
            }
        };
        let app = Router::new().route("/pay", post(handler)).layer(layer);
        let first = tokio::spawn({
            let app = app.clone();
            async move { send(&app, pay("k")).await }
        });
        entered.notified().await;
        let second = send(&app, pay("k")).await;
        assert_eq!((second.status, &*second.problem()), (StatusCode::CONFLICT, "in-flight"));
        assert_eq!(second.header("retry-after"), Some(told));
        leave.notify_one();
        assert_eq!(soon(first).await.expect("answered").body, "done");
        assert!(send(&app, pay("k")).await.is_replay());
    }
}

#[tokio::test(start_paused = true)]
async fn no_retry_after_is_too_long_to_be_told() {
    let longest = std::time::Duration::MAX;
    let uncapped = || Profile::ietf().retry_after_cap(longest);
    let told = [
        (uncapped(), "5"),
        (uncapped().retry_after_unavailable(longest), "18446744073709551615"),
        (Profile::ietf().retry_after_unavailable(longest), "60"),
    ];
    for (profile, told) in told {
        let idem = Idem::new(Troubled::away(ErrorKind::Unavailable));
        let layer = IdempotencyLayer::new(idem, GlobalScope).profile(profile);
        let answer = send(&Router::new().route("/pay", post(async || "never")).layer(layer), pay("k")).await;
        assert_eq!((&*answer.problem(), answer.header("retry-after")), ("unavailable", Some(told)));
    }
}

#[tokio::test]
async fn done() {
    let guarded = guarded(|_| (StatusCode::CREATED, [("x-payment", "7")], "paid"));
    let first = guarded.pay("k").await;
    assert!(!first.headers.contains_key("idempotent-replayed"));
    let second = guarded.pay("k").await;
    assert_eq!((second.status, second.header("x-payment"), &*second.body), (first.status, Some("7"), &b"paid"[..]));
    assert!(second.is_replay());
    assert_eq!(guarded.runs.count(), 1);
}

#[tokio::test]
async fn done_but_not_kept() {
    let guarded = guarded(|_| (StatusCode::CREATED, idem_http::Unkept, "paid"));
    assert_eq!(guarded.pay("k").await.body, "paid");
    let answer = guarded.pay("k").await;
    assert_eq!((answer.status, &*answer.problem()), (StatusCode::GONE, "response-not-kept"));
    assert_eq!(answer.json()["original_status"], 201);
    assert_eq!(guarded.runs.count(), 1);
}

#[tokio::test]
async fn done_long_ago_and_still_remembered() {
    let rules = Rules { remember: Some(Span::saturating_secs(1_000_000)), ..Rules::default() };
    let (store, runs) = (Arc::new(MemoryStore::with_rules(rules)), Runs::default());
    let counted = runs.clone();
    let app = Router::new()
        .route("/pay", post(async move || (StatusCode::ACCEPTED, counted.one_more().to_string())))
        .layer(IdempotencyLayer::new(Idem::new(Arc::clone(&store) as Arc<dyn Store>), GlobalScope));
    send(&app, pay("k")).await;
    assert!(store.age(&identity("k"), Span::saturating_secs(2 * 86_400)));
    let answer = send(&app, pay("k")).await;
    assert_eq!((answer.status, &*answer.problem()), (StatusCode::GONE, "response-not-kept"));
    assert_eq!(answer.json()["original_status"], 202);
    assert_eq!(runs.count(), 1);
}

#[tokio::test]
async fn uncertain_and_held() {
    let config = Config::default_with(|config| config.on_uncertain = OnUncertain::Hold);
    let guarded = guarded_by(Profile::ietf(), config, |_| StatusCode::BAD_GATEWAY);
    assert_eq!(guarded.pay("k").await.status, StatusCode::BAD_GATEWAY);
    let answer = guarded.pay("k").await;
    assert_eq!((answer.status, &*answer.problem()), (StatusCode::CONFLICT, "uncertain"));
    assert!(answer.header("retry-after").is_none(), "asking again does not help");
    assert_eq!(guarded.runs.count(), 1);
}

#[tokio::test]
async fn no_scope() {
    let challenge = || Denied::challenge(HeaderValue::from_static("Bearer realm=\"pay\""));
    let cases = [
        (Denied::unauthenticated(), StatusCode::UNAUTHORIZED, "unauthenticated", None),
        (challenge(), StatusCode::UNAUTHORIZED, "unauthenticated", Some("Bearer realm=\"pay\"")),
        (Denied::misconfigured(), StatusCode::INTERNAL_SERVER_ERROR, "no-scope", None),
    ];
    for (denied, status, problem, challenge) in cases {
        let (store, runs) = (Arc::new(MemoryStore::new()), Runs::default());
        let counted = runs.clone();
        let scope = move |_: &http::request::Parts| Err(denied.clone());
        let app = Router::new()
            .route("/pay", post(async move || counted.one_more().to_string()))
            .layer(IdempotencyLayer::new(Idem::new(Arc::clone(&store) as Arc<dyn Store>), scope));
        let answer = send(&app, pay("k")).await;
        assert_eq!((answer.status, &*answer.problem()), (status, problem));
        assert_eq!(answer.header("www-authenticate"), challenge);
        assert_eq!(runs.count(), 0);
        assert!(store.peek(&identity("k")).is_none());
    }
}

/// Fails closed: the handler does not run, and the client is asked to come back only when that can help.
#[tokio::test(start_paused = true)]
async fn a_store_that_fails() {
    let cases = [
        (ErrorKind::Unavailable, StatusCode::SERVICE_UNAVAILABLE, "unavailable", Some("5")),
        (ErrorKind::Indeterminate, StatusCode::SERVICE_UNAVAILABLE, "unavailable", Some("5")),
        (ErrorKind::TransactionAborted, StatusCode::SERVICE_UNAVAILABLE, "unavailable", Some("5")),
        (ErrorKind::Schema, StatusCode::INTERNAL_SERVER_ERROR, "store-failed", None),
        (ErrorKind::Unsupported, StatusCode::INTERNAL_SERVER_ERROR, "store-failed", None),
        (ErrorKind::Bug, StatusCode::INTERNAL_SERVER_ERROR, "store-failed", None),
    ];
    for (kind, status, problem, retry_after) in cases {
        let (store, runs) = (Troubled::away(kind), Runs::default());
        let counted = runs.clone();
        let app = Router::new()
            .route("/pay", post(async move || counted.one_more().to_string()))
            .layer(IdempotencyLayer::new(Idem::new(Arc::clone(&store) as Arc<dyn Store>), GlobalScope));
        let answer = send(&app, pay("k")).await;
        assert_eq!((answer.status, &*answer.problem()), (status, problem));
        assert_eq!(answer.header("retry-after"), retry_after);
        assert_eq!(runs.count(), 0);
        store.is_back();
        assert_eq!(send(&app, pay("k")).await.body, "1");
    }
}

/// Nothing is told that is not recorded; the same key tells it later.
#[tokio::test(start_paused = true)]
async fn not_recorded_in_time() {
    let (store, runs) = (Troubled::gated(), Runs::default());
    let counted = runs.clone();
    let app = Router::new()
        .route("/pay", post(async move || counted.one_more().to_string()))
        .layer(IdempotencyLayer::new(Idem::new(Arc::clone(&store) as Arc<dyn Store>), GlobalScope));
    let answer = send(&app, pay("k")).await;
    assert_eq!((answer.status, &*answer.problem()), (StatusCode::SERVICE_UNAVAILABLE, "unconfirmed"));
    assert_eq!(answer.header("retry-after"), Some("5"));
    store.completions.as_ref().expect("gated").add_permits(1);
    while send(&app, pay("k")).await.status == StatusCode::CONFLICT {
        tokio::task::yield_now().await;
    }
    let told = send(&app, pay("k")).await;
    assert_eq!((&*told.body, told.is_replay(), runs.count()), (&b"1"[..], true, 1));
}

#[tokio::test]
async fn too_much_is_running() {
    let entered = Arc::new(Notify::new());
    let leave = Arc::new(Notify::new());
    let store = Arc::new(MemoryStore::new());
    let config = Config::default_with(|config| config.max_running = 1);
    let handler = {
        let (entered, leave) = (Arc::clone(&entered), Arc::clone(&leave));
        async move |attempt: Attempt| {
            if attempt.key().as_str() == "slow" {
                entered.notify_one();
                leave.notified().await;
            }
            "done"
        }
    };
    let idem = Idem::with_config(Arc::clone(&store) as Arc<dyn Store>, config);
    let app = Router::new().route("/pay", post(handler)).layer(IdempotencyLayer::new(idem.clone(), GlobalScope));
    assert_eq!(send(&app, pay("before")).await.body, "done");
    let slow = tokio::spawn({
        let app = app.clone();
        async move { send(&app, pay("slow")).await }
    });
    entered.notified().await;
    let answer = send(&app, pay("k")).await;
    assert_eq!((answer.status, &*answer.problem()), (StatusCode::SERVICE_UNAVAILABLE, "saturated"));
    assert_eq!(answer.header("retry-after"), Some("5"));
    assert!(send(&app, pay("before")).await.is_replay(), "replays need no slot");
    leave.notify_one();
    soon(slow).await.expect("answered");

    idem.drain(Duration::from_secs(30)).await;
    let answer = send(&app, pay("k")).await;
    assert_eq!((answer.status, &*answer.problem()), (StatusCode::SERVICE_UNAVAILABLE, "draining"));
    assert_eq!(answer.header("retry-after"), Some("5"));
    assert!(send(&app, pay("before")).await.is_replay());
    assert!(store.peek(&identity("k")).is_none());
}

#[tokio::test]
async fn a_panic() {
    let guarded = guarded(|_| -> StatusCode { panic!("on purpose") });
    let answer = guarded.pay("k").await;
    assert_eq!((answer.status, &*answer.problem()), (StatusCode::INTERNAL_SERVER_ERROR, "handler-failed"));
    assert_eq!(guarded.state("k"), Some(idem_core::State::Unknown));
}

#[tokio::test]
async fn problems_of_ones_own() {
    let profile = Profile::ietf()
        .problem_base("https://pay.example/problems#")
        .documentation(&Uri::from_static("https://pay.example/idempotency"))
        .demand(Demand::Required);
    let guarded = guarded_by(profile, Config::default(), |_| StatusCode::CREATED);
    let answer = guarded.pay("a, b").await;
    assert_eq!(answer.json()["type"], "https://pay.example/problems#key-malformed");
    assert_eq!(answer.header("link"), Some("<https://pay.example/idempotency>; rel=\"describedby\""));
}

/// A configuration that differs from the default.
trait DefaultWith {
    fn default_with(change: impl FnOnce(&mut Config)) -> Config;
}

impl DefaultWith for Config {
    fn default_with(change: impl FnOnce(&mut Config)) -> Config {
        let mut config = Config::default();
        change(&mut config);
        config
    }
}
