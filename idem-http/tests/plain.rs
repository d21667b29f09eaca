//! Without axum: any tower service, with bodies of its own.

#![allow(clippy::expect_used)] // Helpers of tests may panic as tests do.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body::{Body, Frame};
use http_body_util::{BodyExt, Empty, Full};
use idem_core::{Idem, MemoryStore, Store};
use idem_http::{Attempt, GlobalScope, IdempotencyLayer, RequestBody};
use tower::{Layer, ServiceExt, service_fn};

fn layer() -> IdempotencyLayer<GlobalScope> {
    IdempotencyLayer::new(Idem::new(Arc::new(MemoryStore::new()) as Arc<dyn Store>), GlobalScope)
}

/// A body as hyper's is: it cannot be made of bytes, and it is not `Sync`.
struct Incoming(Option<Bytes>, std::marker::PhantomData<std::cell::Cell<()>>);

impl Body for Incoming {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
        Poll::Ready(self.0.take().map(|bytes| Ok(Frame::data(bytes))))
    }
}

fn incoming(body: &'static str) -> RequestBody<Incoming> {
    RequestBody::new(Incoming(Some(Bytes::from_static(body.as_bytes())), std::marker::PhantomData))
}

#[tokio::test]
async fn a_body_that_cannot_be_made_of_bytes() {
    let runs = Arc::new(AtomicU32::new(0));
    let service = layer().layer(service_fn(move |request: Request<RequestBody<Incoming>>| {
        let run = runs.fetch_add(1, Ordering::SeqCst) + 1;
        async move {
            let attempt = Attempt::of(request.extensions()).map(|attempt| attempt.number());
            let length = request.body().size_hint().exact();
            let body = request.into_body().collect().await.expect("whole").to_bytes();
            let said = format!("run {run}, attempt {attempt:?}, length {length:?}: {}", String::from_utf8_lossy(&body));
            Ok::<_, Infallible>(Response::new(Full::new(Bytes::from(said))))
        }
    }));
    let ask = |method: &str| {
        let request = Request::builder().method(method).header("idempotency-key", "k").body(incoming("pay"));
        service.clone().oneshot(request.expect("valid"))
    };
    for replay in [false, true] {
        let response = ask("POST").await.expect("infallible");
        assert_eq!(response.headers().contains_key("idempotent-replayed"), replay);
        let body = response.into_body().collect().await.expect("whole").to_bytes();
        assert_eq!(body, "run 1, attempt Some(1), length Some(3): pay");
    }
    let passed = ask("GET").await.expect("infallible").into_body().collect().await.expect("whole").to_bytes();
    assert_eq!(passed, "run 2, attempt None, length None: pay");
}

/// The layer answers by itself with any type of response body.
#[tokio::test]
async fn problems_with_any_body() {
    let service = layer()
        .layer(service_fn(async |_: Request<Full<Bytes>>| Ok::<_, Infallible>(Response::new(Empty::<Bytes>::new()))));
    let request = Request::post("/").body(Full::default()).expect("valid");
    let response = service.oneshot(request).await.expect("infallible");
    assert_eq!(response.status(), StatusCode::BAD_REQUEST);
    assert_eq!(
        response.body().size_hint().exact(),
        response.into_body().collect().await.ok().map(|whole| whole.to_bytes().len() as u64)
    );
}
