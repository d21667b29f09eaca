//! What cannot be kept reaches its first client untouched, and leaves a tombstone.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use axum::Router;
use axum::body::{Body, HttpBody};
use axum::response::Response;
use axum::routing::post;
use bytes::Bytes;
use futures::StreamExt;
use futures::channel::mpsc;
use http::{HeaderMap, Method, Request, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use idem_core::{Idem, MemoryStore, Recorded, State, Store};
use idem_http::{Attempt, Ends, GlobalScope, IdempotencyLayer, Profile, Unkept};
use tower::{Layer, ServiceExt, service_fn};

use crate::support::{Guarded, guarded, guarded_by, identity, pay, request, send, serve, soon};

fn frames(frames: Vec<Result<Frame<Bytes>, std::io::Error>>) -> Body {
    Body::new(StreamBody::new(futures::stream::iter(frames)))
}

fn data(bytes: &'static [u8]) -> Result<Frame<Bytes>, std::io::Error> {
    Ok(Frame::data(Bytes::from_static(bytes)))
}

async fn leaves_a_tombstone(guarded: &Guarded, status: u16) {
    let record = guarded.store.peek(&identity("k")).expect("recorded");
    assert_eq!((record.state, record.recorded), (State::Succeeded, Some(Recorded::Tombstone { code: status })));
    let later = guarded.pay("k").await;
    assert_eq!((later.status, &*later.problem()), (StatusCode::GONE, "response-not-kept"));
    assert_eq!(later.json()["original_status"], status);
    assert_eq!(guarded.runs.count(), 1);
}

#[tokio::test]
async fn longer_than_the_limit() {
    let whole: Vec<u8> = (0..=255).cycle().take(10_000).collect();
    let known = whole.clone();
    let with_length = guarded_by(small(), idem_core::Config::default(), move |_| known.clone());
    let pieces = whole.clone();
    let without = guarded_by(small(), idem_core::Config::default(), move |_| {
        let pieces: Vec<_> = pieces.chunks(300).map(|piece| Ok(Frame::data(Bytes::copy_from_slice(piece)))).collect();
        frames(pieces)
    });
    for guarded in [with_length, without] {
        assert_eq!(&*guarded.pay("k").await.body, &whole[..]);
        leaves_a_tombstone(&guarded, 200).await;
    }
}

fn small() -> Profile {
    Profile::ietf().response_limit(1_000)
}

/// The headers count, too; a store with a lower limit comes to the same.
#[tokio::test]
async fn the_limits_edge() {
    // Meta: a version byte, and `content-type: application/octet-stream` with its two lengths.
    let room = 1_000 - (1 + 2 + 12 + 4 + 24);
    for (length, kept) in [(room, true), (room + 1, false)] {
        let guarded = guarded_by(small(), idem_core::Config::default(), move |_| vec![1_u8; length]);
        assert_eq!(guarded.pay("k").await.body.len(), length);
        assert_eq!(guarded.pay("k").await.is_replay(), kept, "{length}");
        assert_eq!(guarded.runs.count(), 1);
    }
    let store = Arc::new(MemoryStore::new().response_limit(100));
    let app = Router::new()
        .route("/pay", post(async || "x".repeat(500)))
        .layer(IdempotencyLayer::new(Idem::new(store as Arc<dyn Store>), GlobalScope));
    assert_eq!(send(&app, pay("k")).await.body.len(), 500);
    assert_eq!(send(&app, pay("k")).await.status, StatusCode::GONE);
}

#[tokio::test]
async fn trailers() {
    let guarded = guarded(|_| {
        let mut trailers = HeaderMap::new();
        trailers.insert("x-checksum", "7".parse().expect("a value"));
        frames(vec![data(b"pa"), data(b"id"), Ok(Frame::trailers(trailers))])
    });
    let response = guarded.app.clone().oneshot(pay("k")).await.expect("infallible");
    let collected = response.into_body().collect().await.expect("whole");
    assert_eq!(
        collected.trailers().and_then(|trailers| trailers.get("x-checksum")).map(|v| v.as_bytes()),
        Some(&b"7"[..])
    );
    assert_eq!(collected.to_bytes(), "paid");
    leaves_a_tombstone(&guarded, 200).await;
}

/// Each of these has a body that never ends: were it waited for, the test would not end either.
#[tokio::test]
async fn streams_by_their_head_are_not_waited_for() {
    let endless = || {
        let begun = futures::stream::iter([Ok::<_, Infallible>(Bytes::from_static(b"first"))]);
        Body::from_stream(begun.chain(futures::stream::pending()))
    };
    let with = |name: &'static str, value: &'static str| Response::builder().header(name, value);
    type Head = fn(http::response::Builder) -> http::response::Builder;
    let plain: Head = |builder| builder;
    let cases: [(http::response::Builder, Head, u16); 7] = [
        (with("content-type", "text/event-stream"), plain, 200),
        (with("content-type", "Text/Event-Stream; charset=utf-8"), plain, 200),
        (with("content-type", "application/grpc+proto"), plain, 200),
        (with("content-type", "multipart/x-mixed-replace; boundary=b"), plain, 200),
        (with("trailer", "x-checksum"), plain, 200),
        (with("content-type", "application/x-ndjson"), |builder| builder.extension(Unkept), 200),
        (with("upgrade", "websocket"), |builder| builder.status(StatusCode::SWITCHING_PROTOCOLS), 101),
    ];
    for (builder, head, status) in cases {
        let response = std::sync::Mutex::new(Some(head(builder).body(endless()).expect("valid")));
        let response = Arc::new(response);
        let guarded = guarded_by(patient(), idem_core::Config::default(), move |_| {
            response.lock().expect("unpoisoned").take().expect("one run")
        });
        let answer = soon(guarded.app.clone().oneshot(pay("k"))).await.expect("infallible");
        assert_eq!(answer.status().as_u16(), status);
        let mut body = answer.into_body();
        let first = soon(body.frame()).await.expect("a frame").expect("whole").into_data().expect("data");
        assert_eq!(first, "first");
        assert!(!body.is_end_stream());
        leaves_a_tombstone(&guarded, status).await;
    }
}

/// However long the patience, it fits the clock.
#[tokio::test]
async fn no_patience_is_too_long() {
    for patience in [std::time::Duration::MAX, std::time::Duration::from_secs(i64::MAX.unsigned_abs() - 1)] {
        let profile = Profile::ietf().stream_after(patience);
        let guarded = guarded_by(profile, idem_core::Config::default(), |_| (StatusCode::CREATED, "paid"));
        assert_eq!(soon(guarded.pay("k")).await.body, "paid");
        let again = soon(guarded.pay("k")).await;
        assert_eq!((again.status, again.is_replay(), guarded.runs.count()), (StatusCode::CREATED, true, 1));
    }
}

/// Waits for a body longer than any test may take.
fn patient() -> Profile {
    Profile::ietf().stream_after(std::time::Duration::from_secs(3_600))
}

/// A successful CONNECT is a tunnel; a refused one is a response as any other.
#[tokio::test]
async fn tunnels_are_not_waited_for() {
    let store = Arc::new(MemoryStore::new());
    let layer = IdempotencyLayer::new(Idem::new(store as Arc<dyn Store>), GlobalScope);
    let service =
        layer.profile(patient().methods([Method::CONNECT])).layer(service_fn(async |request: Request<Body>| {
            let open = request.uri().host() == Some("open");
            let mut response = Response::new(if open { Body::from_stream(pending()) } else { Body::from("no") });
            *response.status_mut() = if open { StatusCode::OK } else { StatusCode::CONFLICT };
            Ok::<_, Infallible>(response)
        }));
    for (to, first, later) in
        [("open", StatusCode::OK, StatusCode::GONE), ("shut", StatusCode::CONFLICT, StatusCode::CONFLICT)]
    {
        for status in [first, later] {
            let request = request(Method::CONNECT, &format!("http://{to}/"), to, "");
            assert_eq!(soon(service.clone().oneshot(request)).await.expect("infallible").status(), status);
        }
    }
}

fn pending() -> futures::stream::Pending<Result<Bytes, Infallible>> {
    futures::stream::pending()
}

/// What looks like an ordinary response, and does not end: the patience ends, and the client gets what there is.
#[tokio::test(start_paused = true)]
async fn a_body_that_takes_too_long_is_a_stream() {
    let (sender, receiver) = mpsc::unbounded::<Result<Bytes, Infallible>>();
    let receiver = Arc::new(std::sync::Mutex::new(Some(receiver)));
    let guarded = guarded(move |_| Body::from_stream(receiver.lock().expect("unpoisoned").take().expect("one run")));
    sender.unbounded_send(Ok(Bytes::from_static(b"one "))).expect("open");
    let answer = guarded.app.clone().oneshot(pay("k")).await.expect("infallible");
    sender.unbounded_send(Ok(Bytes::from_static(b"two"))).expect("open");
    drop(sender);
    assert_eq!(answer.into_body().collect().await.expect("whole").to_bytes(), "one two");
    leaves_a_tombstone(&guarded, 200).await;
}

/// The effect is not known: the client sees the error, and the next request takes over.
#[tokio::test]
async fn a_body_that_breaks_off() {
    let guarded = guarded(|_| frames(vec![data(b"pa"), Err(std::io::Error::other("lost the database"))]));
    let answer = guarded.app.clone().oneshot(pay("k")).await.expect("infallible");
    assert_eq!(answer.status(), StatusCode::OK);
    let mut body = answer.into_body();
    assert_eq!(body.frame().await.expect("a frame").expect("data").into_data().expect("data"), "pa");
    let error = body.frame().await.expect("a frame").expect_err("the handler's error");
    assert!(error.to_string().contains("lost the database"));
    assert_eq!(guarded.state("k"), Some(State::Unknown));
    let _ = guarded.app.clone().oneshot(pay("k")).await;
    assert_eq!(guarded.runs.count(), 2, "the next one takes over");
}

/// A handler that knows better than a broken stream.
#[tokio::test]
async fn a_broken_stream_after_a_known_effect() {
    let guarded = guarded(|attempt| {
        attempt.ends(Ends::Succeeded);
        frames(vec![data(b"pa"), Err(std::io::Error::other("gone"))])
    });
    let _ = guarded.app.clone().oneshot(pay("k")).await;
    leaves_a_tombstone(&guarded, 200).await;
}

/// Over a socket: events arrive one by one, while the record says already that it is done.
#[tokio::test]
async fn events_over_a_socket() {
    let (sender, receiver) = mpsc::unbounded::<Result<Bytes, Infallible>>();
    let receiver = Arc::new(std::sync::Mutex::new(Some(receiver)));
    let runs = Arc::new(AtomicU32::new(0));
    let store = Arc::new(MemoryStore::new());
    let counted = Arc::clone(&runs);
    let handler = async move |_: Attempt| {
        counted.fetch_add(1, Ordering::SeqCst);
        let events = receiver.lock().expect("unpoisoned").take().expect("one run");
        ([("content-type", "text/event-stream")], Body::from_stream(events))
    };
    let app = Router::new()
        .route("/pay", post(handler))
        .layer(IdempotencyLayer::new(Idem::new(store as Arc<dyn Store>), GlobalScope));
    let url = format!("http://{}/pay", serve(app).await);
    let client = reqwest::Client::new();
    let ask = || client.post(&url).header("idempotency-key", "k").send();
    let mut events = soon(ask()).await.expect("answered").bytes_stream();
    for event in ["data: 1\n\n", "data: 2\n\n"] {
        sender.unbounded_send(Ok(Bytes::from(event))).expect("open");
        assert_eq!(soon(events.next()).await.expect("an event").expect("whole"), event);
        assert_eq!(soon(ask()).await.expect("answered").status(), StatusCode::GONE);
    }
    drop(sender);
    assert!(soon(events.next()).await.is_none());
    assert_eq!(runs.load(Ordering::SeqCst), 1);
}
