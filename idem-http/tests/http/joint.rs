//! Handlers that finish the record themselves, as a store's `settle` does.

use std::sync::Arc;

use axum::Router;
use axum::response::Response;
use axum::routing::post;
use http::{HeaderName, HeaderValue, StatusCode};
use idem_core::{Complete, Completed, Config, End, Idem, MemoryStore, Recorded, State, Store};
use idem_http::{Attempt, Ends, GlobalScope, HeaderFilter, IdempotencyLayer, Profile};

use crate::support::{Answer, Runs, guarded_by, pay, send};

/// What a settling handler says after its commit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Says {
    TheSame,
    /// Middleware between it and the layer changes the bytes.
    SomethingElse,
    /// The reply of COMMIT was lost.
    AnError,
    NothingHappened,
    Panics,
}

fn settled() -> http::Response<&'static str> {
    let builder = http::Response::builder().status(StatusCode::CREATED).header("x-payment", "7");
    builder.header("set-cookie", "session=1").body("paid").expect("valid")
}

fn says(says: Says) -> Response {
    let plain = |status: StatusCode, body: &'static str| {
        let mut response = Response::new(axum::body::Body::from(body));
        *response.status_mut() = status;
        response
    };
    match says {
        Says::TheSame => settled().map(axum::body::Body::from),
        Says::SomethingElse => plain(StatusCode::CREATED, "<html>paid</html>"),
        Says::AnError => plain(StatusCode::INTERNAL_SERVER_ERROR, "timeout"),
        Says::NothingHappened => plain(StatusCode::UNPROCESSABLE_ENTITY, "no"),
        Says::Panics => panic!("on purpose"),
    }
}

async fn twice(what: Says, end: fn(Recorded) -> End) -> (Answer, Answer, u32) {
    let (store, runs) = (Arc::new(MemoryStore::new()), Runs::default());
    let handler = {
        let (store, runs) = (Arc::clone(&store), runs.clone());
        async move |attempt: Attempt| {
            runs.one_more();
            let settle = Complete::new(attempt.lease().clone(), end(attempt.record(&settled())));
            assert_eq!(store.complete(&settle).await.expect("stored"), Completed::Stored);
            says(what)
        }
    };
    let idem = Idem::new(store as Arc<dyn Store>);
    let app = Router::new().route("/pay", post(handler)).layer(IdempotencyLayer::new(idem, GlobalScope));
    (send(&app, pay("k")).await, send(&app, pay("k")).await, runs.count())
}

/// Whatever the handler says afterwards, both answers are what the record says.
#[tokio::test]
async fn the_answer_is_what_the_record_says() {
    for what in [Says::TheSame, Says::SomethingElse, Says::AnError, Says::NothingHappened, Says::Panics] {
        for end in [End::Succeeded, End::Failed] {
            let (first, second, runs) = twice(what, end).await;
            assert_eq!(
                (first.status, &*first.body, first.header("x-payment")),
                (StatusCode::CREATED, &b"paid"[..], Some("7")),
                "{what:?}"
            );
            assert_eq!(
                (second.status, &second.body, second.header("x-payment")),
                (first.status, &first.body, Some("7"))
            );
            assert!(!first.is_replay() && second.is_replay(), "{what:?}: only the second is a replay");
            assert_eq!(runs, 1);
            // The record has no cookies; the handler's own answer keeps its one when it agrees with the record.
            assert!(second.header("set-cookie").is_none());
        }
    }
    let (first, ..) = twice(Says::TheSame, End::Succeeded).await;
    assert_eq!(first.headers.get("set-cookie"), Some(&HeaderValue::from_static("session=1")));
}

/// A transaction that was rolled back leaves the record as it was, and the response decides as ever.
#[tokio::test]
async fn nothing_settled_ends_by_the_response() {
    let store = Arc::new(MemoryStore::new());
    let handler = async |attempt: Attempt| {
        let _rolled_back = attempt.record(&settled());
        (StatusCode::SERVICE_UNAVAILABLE, Ends::NothingHappened, "try again")
    };
    let idem = Idem::new(Arc::clone(&store) as Arc<dyn Store>);
    let app = Router::new().route("/pay", post(handler)).layer(IdempotencyLayer::new(idem, GlobalScope));
    assert_eq!(send(&app, pay("k")).await.body, "try again");
    assert_eq!(store.peek(&crate::support::identity("k")).map(|record| record.state), Some(State::Released));
}

/// Whoever holds the lease can end the attempt; the form that `record` gives is the layer's own.
#[tokio::test]
async fn a_worker_that_is_quicker_than_its_handler() {
    let store = Arc::new(MemoryStore::new());
    let handler = {
        let store = Arc::clone(&store);
        async move |attempt: Attempt| {
            let lease = attempt.lease().clone();
            let response = http::Response::builder().status(201).body("made by the worker").expect("valid");
            let end = End::Succeeded(idem_http::record(&response));
            store.complete(&Complete::new(lease, end)).await.expect("stored");
            StatusCode::ACCEPTED
        }
    };
    let idem = Idem::new(store as Arc<dyn Store>);
    let app = Router::new().route("/pay", post(handler)).layer(IdempotencyLayer::new(idem, GlobalScope));
    let first = send(&app, pay("k")).await;
    let second = send(&app, pay("k")).await;
    assert_eq!((first.status, &*first.body), (StatusCode::CREATED, &b"made by the worker"[..]));
    assert_eq!(
        (second.status, &*second.body, second.is_replay()),
        (StatusCode::CREATED, &b"made by the worker"[..], true)
    );
}

/// What a handler records has its layer's filter and limit, so that settling changes nothing about replays.
#[tokio::test]
async fn the_recorded_form_is_the_layers_own() {
    let filter = HeaderFilter::only([HeaderName::from_static("x-payment")]);
    for (profile, kept) in
        [(Profile::ietf().replayed_headers(filter), true), (Profile::ietf().response_limit(3), false)]
    {
        let guarded = guarded_by(profile, Config::default(), |attempt| match attempt.record(&settled()) {
            Recorded::Response(response) => format!("{} bytes", response.meta.len()),
            Recorded::Tombstone { code } => format!("tombstone of {code}"),
        });
        // A version byte, and `x-payment: 7` with its two lengths.
        let said = if kept { format!("{} bytes", 1 + 2 + 9 + 4 + 1) } else { "tombstone of 201".to_owned() };
        assert_eq!(guarded.pay("k").await.body, said);
    }
}
