//! The handler's life: once, in a task of its own, to its end.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::Router;
use axum::body::Body;
use axum::routing::post;
use futures::future::join_all;
use http::{Request, Response, StatusCode};
use idem_core::{Config, Idem, MemoryStore, Span, State, Store};
use idem_http::{Attempt, GlobalScope, IdempotencyLayer, ResponseBody};
use tokio::sync::{Barrier, Notify, Semaphore};
use tower::{Layer, Service, ServiceExt, service_fn};

use crate::support::{Runs, guarded, identity, pay, read, send, serve, soon};

fn idem(store: &Arc<MemoryStore>) -> Idem {
    Idem::new(Arc::clone(store) as Arc<dyn Store>)
}

/// 64 at once over sockets: the handler holds its attempt until each of the others has been answered, so they overlap.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_64_at_once_one_runs() {
    let (store, runs, answered) = (Arc::new(MemoryStore::new()), Runs::default(), Arc::new(Semaphore::new(0)));
    let handler = {
        let (runs, answered) = (runs.clone(), Arc::clone(&answered));
        async move || {
            runs.one_more();
            let _all = answered.acquire_many(63).await.expect("never closed");
            (StatusCode::CREATED, "paid")
        }
    };
    let app = Router::new().route("/pay", post(handler)).layer(IdempotencyLayer::new(idem(&store), GlobalScope));
    let url = format!("http://{}/pay", serve(app).await);
    let start = Arc::new(Barrier::new(64));
    let clients = (0..64).map(|_| {
        let (url, start, answered) = (url.clone(), Arc::clone(&start), Arc::clone(&answered));
        tokio::spawn(async move {
            let client = reqwest::Client::new();
            start.wait().await;
            let answer = client.post(&url).header("idempotency-key", "k").body("{}").send().await.expect("answered");
            answered.add_permits(1);
            let wait = answer.headers().get("retry-after").map(|wait| wait.as_bytes().to_vec());
            (answer.status(), wait, answer.text().await.expect("a body"))
        })
    });
    let answers: Vec<_> = soon(join_all(clients)).await.into_iter().map(|answer| answer.expect("ended")).collect();
    let first: Vec<_> = answers.iter().filter(|(status, ..)| *status == StatusCode::CREATED).collect();
    let refused: Vec<_> = answers.iter().filter(|(status, ..)| *status == StatusCode::CONFLICT).collect();
    assert_eq!((first.len(), refused.len(), runs.count()), (1, 63, 1));
    assert!(refused.iter().all(|(_, wait, _)| wait.as_deref() == Some(b"30")));
    let again =
        reqwest::Client::new().post(&url).header("idempotency-key", "k").body("{}").send().await.expect("answered");
    assert_eq!((again.headers()["idempotent-replayed"].as_bytes(), runs.count()), (&b"true"[..], 1));
}

/// 100 clients hang up in the middle of their handlers: each is recorded, and its retry is a replay.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_hang_up() {
    const CLIENTS: usize = 100;
    let (store, runs) = (Arc::new(MemoryStore::new()), Runs::default());
    let (entered, gone) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let handler = {
        let (runs, entered, gone) = (runs.clone(), Arc::clone(&entered), Arc::clone(&gone));
        async move |attempt: Attempt| {
            runs.one_more();
            entered.add_permits(1);
            gone.acquire().await.expect("never closed").forget();
            format!("paid {}", attempt.key().as_str())
        }
    };
    let idem = idem(&store);
    let app = Router::new().route("/pay", post(handler)).layer(IdempotencyLayer::new(idem.clone(), GlobalScope));
    let url = format!("http://{}/pay", serve(app).await);
    let clients: Vec<_> = (0..CLIENTS)
        .map(|n| {
            let asking = reqwest::Client::new().post(&url).header("idempotency-key", format!("k{n}")).body("{}").send();
            tokio::spawn(asking)
        })
        .collect();
    let _all_run = soon(entered.acquire_many(CLIENTS as u32)).await.expect("never closed");
    for client in clients {
        client.abort();
        assert!(client.await.expect_err("aborted").is_cancelled());
    }
    gone.add_permits(CLIENTS);
    assert_eq!(soon(idem.drain(std::time::Duration::from_secs(30))).await, 0, "all of them ended");
    let client = reqwest::Client::new();
    for n in 0..CLIENTS {
        let key = format!("k{n}");
        assert_eq!(store.peek(&identity(&key)).map(|record| record.state), Some(State::Succeeded));
        let answer = client.post(&url).header("idempotency-key", &key).body("{}").send().await.expect("answered");
        assert_eq!(answer.headers()["idempotent-replayed"], "true");
        assert_eq!(answer.text().await.expect("a body"), format!("paid {key}"));
    }
    assert_eq!(runs.count(), CLIENTS as u32);
}

/// Dropped before the handler was polled, nothing ran and the key is free again; dropped after, it is recorded.
#[tokio::test]
async fn dropped_at_any_poll() {
    let mut ran = Vec::new();
    for polls in 0..12 {
        let (store, runs) = (Arc::new(MemoryStore::new()), Runs::default());
        let counted = runs.clone();
        let idem = idem(&store);
        let handler = async move || {
            counted.one_more();
            "paid"
        };
        let app = Router::new().route("/pay", post(handler)).layer(IdempotencyLayer::new(idem.clone(), GlobalScope));
        let mut asking = Box::pin(app.clone().oneshot(pay("k")));
        for _ in 0..polls {
            if futures::poll!(&mut asking).is_ready() {
                break;
            }
            tokio::task::yield_now().await;
        }
        drop(asking);
        soon(async {
            while idem.running() > 0 {
                tokio::task::yield_now().await;
            }
        })
        .await;
        let state = store.peek(&identity("k")).map(|record| record.state);
        ran.push(runs.count());
        match runs.count() {
            0 => assert!(matches!(state, None | Some(State::Released)), "{polls}: {state:?}"),
            _ => assert_eq!(state, Some(State::Succeeded), "{polls}"),
        }
        let again = send(&app, pay("k")).await;
        assert_eq!((&*again.body, runs.count()), (&b"paid"[..], 1), "{polls}");
    }
    assert!(ran.contains(&0) && ran.contains(&1), "both sides of the first poll were met: {ran:?}");
}

/// After a panic nobody knows; one takes over, and is told that it is the second.
#[tokio::test]
async fn a_panic_ends_as_unknown() {
    let guarded = guarded(|attempt| match attempt.previous() {
        None => panic!("on purpose"),
        Some(past) => format!("{:?} after {}", past.how, past.attempt),
    });
    assert_eq!(guarded.pay("k").await.problem(), "handler-failed");
    assert_eq!(guarded.state("k"), Some(State::Unknown));
    assert_eq!(guarded.pay("k").await.body, "Unknown after 1");
    assert!(guarded.pay("k").await.is_replay());
}

#[derive(PartialEq, Debug)]
struct Overloaded(u32);

/// The inner service's error reaches its first caller as it is, and the record ends as unknown.
#[tokio::test]
async fn an_error_of_the_inner_service() {
    let (store, runs) = (Arc::new(MemoryStore::new()), Runs::default());
    let counted = runs.clone();
    let service = IdempotencyLayer::new(idem(&store), GlobalScope).layer(service_fn(move |_: Request<Body>| {
        let run = counted.one_more();
        async move { if run == 1 { Err(Overloaded(run)) } else { Ok(Response::new(Body::from("paid"))) } }
    }));
    assert_eq!(service.clone().oneshot(pay("k")).await.map(|_| ()).expect_err("an error"), Overloaded(1));
    assert_eq!(store.peek(&identity("k")).map(|record| record.state), Some(State::Unknown));
    let answer: Response<ResponseBody<Body>> = service.oneshot(pay("k")).await.expect("the second one takes over");
    assert_eq!(read(answer.map(Body::new)).await.body, "paid");
    assert_eq!(runs.count(), 2);
}

/// A service that must be polled ready before each call, and panics otherwise (tower's contract).
struct Strict {
    ready: bool,
    polls: Runs,
    calls: Runs,
}

/// A clone has not been polled ready (as one of tower's `Buffer` or `ConcurrencyLimit`).
impl Clone for Strict {
    fn clone(&self) -> Strict {
        Strict { ready: false, polls: self.polls.clone(), calls: self.calls.clone() }
    }
}

impl Service<Request<Body>> for Strict {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = std::future::Ready<Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), Infallible>> {
        self.ready = true;
        self.polls.one_more();
        std::task::Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<Body>) -> Self::Future {
        assert!(std::mem::take(&mut self.ready), "called without being ready");
        self.calls.one_more();
        std::future::ready(Ok(Response::new(Body::from("paid"))))
    }
}

#[tokio::test]
async fn the_service_that_was_ready_is_the_one_that_is_called() {
    let strict = Strict { ready: false, polls: Runs::default(), calls: Runs::default() };
    let (polls, calls) = (strict.polls.clone(), strict.calls.clone());
    let mut service = IdempotencyLayer::new(idem(&Arc::new(MemoryStore::new())), GlobalScope).layer(strict);
    for (n, key) in ["a", "b", "a", "c"].into_iter().enumerate() {
        let ready = service.ready().await.expect("infallible");
        assert_eq!(polls.count() as usize, n + 1);
        let answer = ready.call(pay(key)).await.expect("infallible");
        assert_eq!(answer.status(), StatusCode::OK);
    }
    let passing =
        service.ready().await.expect("infallible").call(Request::get("/").body(Body::empty()).expect("valid"));
    assert_eq!(passing.await.expect("infallible").status(), StatusCode::OK);
    assert_eq!(calls.count(), 3 + 1);
}

/// A handler of many leases' length runs once: its lease is renewed, and later requests find it in flight.
#[tokio::test(start_paused = true)]
async fn a_handler_that_outlives_its_lease() {
    let start = tokio::time::Instant::now();
    let store = Arc::new(MemoryStore::with_clock(move || {
        let now = 1_700_000_000_000_000 + start.elapsed().as_micros();
        idem_core::StoreTime::from_micros(u64::try_from(now).expect("in range"))
    }));
    let mut config = Config::default();
    config.lease = Span::saturating_secs(3);
    let (runs, leave) = (Runs::default(), Arc::new(Notify::new()));
    let handler = {
        let (runs, leave) = (runs.clone(), Arc::clone(&leave));
        async move |attempt: Attempt| {
            runs.one_more();
            leave.notified().await;
            attempt.check().map_or("lost", |()| "held")
        }
    };
    let idem = Idem::with_config(Arc::clone(&store) as Arc<dyn Store>, config);
    let app = Router::new().route("/pay", post(handler)).layer(IdempotencyLayer::new(idem, GlobalScope));
    let first = tokio::spawn({
        let app = app.clone();
        async move { send(&app, pay("k")).await }
    });
    for _ in 0..10 {
        tokio::time::advance(std::time::Duration::from_secs(1)).await;
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
        assert_eq!(send(&app, pay("k")).await.problem(), "in-flight");
    }
    leave.notify_one();
    assert_eq!(first.await.expect("answered").body, "held");
    assert_eq!(runs.count(), 1);
}

/// A lapsed attempt is taken over, and its late end changes nothing: its client is told what the record says.
#[tokio::test]
async fn a_late_end_changes_nothing() {
    let (store, runs) = (Arc::new(MemoryStore::new()), Runs::default());
    let (entered, leave) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let handler = {
        let (runs, entered, leave) = (runs.clone(), Arc::clone(&entered), Arc::clone(&leave));
        async move |attempt: Attempt| {
            runs.one_more();
            if attempt.number() == 1 {
                entered.notify_one();
                leave.notified().await;
            }
            (StatusCode::CREATED, format!("paid by {}", attempt.number()))
        }
    };
    let app = Router::new().route("/pay", post(handler)).layer(IdempotencyLayer::new(idem(&store), GlobalScope));
    let first = tokio::spawn({
        let app = app.clone();
        async move { send(&app, pay("k")).await }
    });
    entered.notified().await;
    assert!(store.age(&identity("k"), Span::saturating_secs(60)));
    assert_eq!(send(&app, pay("k")).await.body, "paid by 2");
    leave.notify_one();
    let first = soon(first).await.expect("answered");
    assert_eq!((&*first.body, first.is_replay()), (&b"paid by 2"[..], true));
    assert_eq!(runs.count(), 2);
}

/// What the handler logs belongs to the request, although it runs in another task.
#[tokio::test]
async fn the_request_span_goes_with_the_handler() {
    use tracing::Instrument;
    let inside = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&inside);
    let _guard = tracing::subscriber::set_default(tracing_subscriber::registry());
    let handler = async move || {
        let name = tracing::Span::current().metadata().map(tracing::Metadata::name);
        seen.store(name == Some("the request"), Ordering::SeqCst);
    };
    let store = Arc::new(MemoryStore::new());
    let app = Router::new().route("/pay", post(handler)).layer(IdempotencyLayer::new(idem(&store), GlobalScope));
    send(&app, pay("k")).instrument(tracing::info_span!("the request")).await;
    assert!(inside.load(Ordering::SeqCst));
}
