//! The layer only identifies, and the handler claims.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use bytes::Bytes;
use http::{Method, Request, StatusCode};
use idem_core::{Claimed, Complete, Config, End, Error, ErrorKind, Final, MemoryStore, Recorded, Replay, Spent, Store};
use idem_http::{Attempt, Demand, GlobalScope, IdempotencyLayer, Identified, Profile};

use crate::support::{Answer, Runs, pay, read, request, send};

/// A handler that does what `once` does, on a memory store: claim, effect, completion.
fn inbox(store: &Arc<MemoryStore>, runs: &Runs) -> Router {
    let handler = {
        let (store, runs) = (Arc::clone(store), runs.clone());
        async move |identified: Identified, body: Bytes| -> Response {
            let claim = identified.claim(&Config::default()).expect("a valid configuration");
            match store.claim(&claim).await {
                Ok(Claimed::Acquired(grant)) => {
                    let made = format!("{} {}", runs.one_more(), body.len());
                    let response = http::Response::builder().status(201).header("x-n", "1").body(made).expect("valid");
                    let end = End::Succeeded(identified.record(&response));
                    store.complete(&Complete::new(grant.lease, end)).await.expect("stored");
                    response.into_response()
                }
                Ok(Claimed::Replay(replay)) => identified.done(replay).into_response(),
                Ok(Claimed::InFlight { retry_after }) => identified.busy(retry_after).into_response(),
                Ok(Claimed::Mismatch) => identified.mismatch().into_response(),
                Ok(Claimed::Uncertain(_)) => identified.uncertain().into_response(),
                Ok(Claimed::Spent(spent)) => identified.spent(spent).into_response(),
                Err(error) => identified.failed(&error).into_response(),
            }
        }
    };
    Router::new().route("/pay", post(handler)).layer(IdempotencyLayer::identify_only(GlobalScope))
}

#[tokio::test]
async fn the_handler_claims_what_the_layer_identified() {
    let (store, runs) = (Arc::new(MemoryStore::new()), Runs::default());
    let app = inbox(&store, &runs);
    let first = send(&app, pay("k")).await;
    assert_eq!((first.status, &*first.body, first.is_replay()), (StatusCode::CREATED, &b"1 2"[..], false));
    let second = send(&app, pay("k")).await;
    assert_eq!((second.status, &*second.body, second.is_replay()), (StatusCode::CREATED, &b"1 2"[..], true));
    assert_eq!(second.header("x-n"), Some("1"));
    let other = send(&app, request(Method::POST, "/pay", "k", "{\"other\":1}")).await;
    assert_eq!((other.status, &*other.problem()), (StatusCode::UNPROCESSABLE_ENTITY, "mismatch"));
    assert_eq!(send(&app, pay("a, b")).await.problem(), "key-malformed");
    assert_eq!(runs.count(), 1);
}

/// A running layer and an identifying one make the same claim of the same request.
#[tokio::test]
async fn both_modes_identify_alike() {
    let (store, runs) = (Arc::new(MemoryStore::new()), Runs::default());
    let running = Router::new()
        .route("/pay", post(async || "by the layer"))
        .layer(IdempotencyLayer::new(idem_core::Idem::new(Arc::clone(&store) as Arc<dyn Store>), GlobalScope));
    assert_eq!(send(&running, pay("k")).await.body, "by the layer");
    let replayed = send(&inbox(&store, &runs), pay("k")).await;
    assert_eq!((&*replayed.body, replayed.is_replay(), runs.count()), (&b"by the layer"[..], true, 0));
}

#[tokio::test]
async fn the_answers_of_identified() {
    let answers = Router::new()
        .route(
            "/pay",
            post(async |identified: Identified| {
                let replay = |recorded| Replay { end: Final::Succeeded, recorded };
                match identified.request().identity().key.as_str() {
                    "busy" => identified.busy(Duration::from_millis(1_001)),
                    "nearly free" => identified.busy(Duration::ZERO),
                    "mismatch" => identified.mismatch(),
                    "uncertain" => identified.uncertain(),
                    "spent" => identified.spent(Spent { end: Final::Failed, code: 402 }),
                    "tombstone" => identified.done(replay(Recorded::Tombstone { code: 201 })),
                    "nonsense" => identified.done(replay(idem_core::Response::new(200).into())),
                    "away" => identified.failed(&Error::new(ErrorKind::Unavailable, "away")),
                    _ => identified.failed(&Error::new(ErrorKind::Bug, "broken")),
                }
            }),
        )
        .layer(IdempotencyLayer::identify_only(GlobalScope));
    let told =
        |answer: &Answer| (answer.status.as_u16(), answer.problem(), answer.header("retry-after").map(str::to_owned));
    for (key, status, problem, wait) in [
        ("busy", 409, "in-flight", Some("2")),
        ("nearly free", 409, "in-flight", Some("1")),
        ("mismatch", 422, "mismatch", None),
        ("uncertain", 409, "uncertain", None),
        ("spent", 410, "response-not-kept", None),
        ("tombstone", 410, "response-not-kept", None),
        ("nonsense", 500, "store-failed", None),
        ("away", 503, "unavailable", Some("5")),
        ("broken", 500, "store-failed", None),
    ] {
        assert_eq!(told(&send(&answers, pay(key)).await), (status, problem.to_owned(), wait.map(str::to_owned)));
    }
}

/// Extractors where the layer has not been: a clear answer, or nothing where that was asked for.
#[tokio::test]
async fn without_the_layer() {
    let bare = Router::new()
        .route("/attempt", post(async |_: Attempt| "unreachable"))
        .route("/identified", post(async |_: Identified| "unreachable"));
    for path in ["/attempt", "/identified"] {
        let answer = send(&bare, request(Method::POST, path, "k", "")).await;
        assert_eq!(answer.status, StatusCode::INTERNAL_SERVER_ERROR);
        assert!(String::from_utf8_lossy(&answer.body).contains("layer has not seen this request"));
    }
    let store = Arc::new(MemoryStore::new());
    let optional = Profile::ietf().demand(Demand::Optional);
    let idem = idem_core::Idem::new(store as Arc<dyn Store>);
    let app = Router::new()
        .route("/a", post(async |attempt: Option<Attempt>| attempt.is_some().to_string()))
        .layer(IdempotencyLayer::new(idem, GlobalScope).profile(optional.clone()))
        .merge(
            Router::new()
                .route("/i", post(async |identified: Option<Identified>| identified.is_some().to_string()))
                .layer(IdempotencyLayer::identify_only(GlobalScope).profile(optional)),
        );
    for path in ["/a", "/i"] {
        assert_eq!(send(&app, request(Method::POST, path, "k", "")).await.body, "true");
        let without = Request::post(path).body(axum::body::Body::empty()).expect("valid");
        assert_eq!(
            read(tower::ServiceExt::oneshot(app.clone(), without).await.expect("infallible")).await.body,
            "false"
        );
    }
}
