//! To be replaced.
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use axum::{Router, http::StatusCode, routing::post};
use idem_core::{Idem, MemoryStore};
use idem_http::{Attempt, GlobalScope, IdempotencyLayer};

#[tokio::test]
async fn smoke() {
    let runs = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&runs);
    let app: Router = Router::new()
        .route(
            "/p",
            post(move |attempt: Attempt, body: String| async move {
                counted.fetch_add(1, Ordering::SeqCst);
                (StatusCode::CREATED, format!("{} {body}", attempt.number()))
            }),
        )
        .layer(
            tower::ServiceBuilder::new()
                .layer(IdempotencyLayer::new(Idem::new(Arc::new(MemoryStore::new())), GlobalScope))
                .layer(axum::middleware::from_fn(|r: axum::extract::Request, n: axum::middleware::Next| n.run(r))),
        );
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("binds");
    let url = format!("http://{}/p", listener.local_addr().expect("bound"));
    tokio::spawn(async move { axum::serve(listener, app).await });
    let client = reqwest::Client::new();
    for i in 0..2 {
        let r = client.post(&url).header("Idempotency-Key", "k").body("x").send().await.expect("answered");
        eprintln!("{r:?}");
        assert_eq!(r.status(), 201);
        assert_eq!(r.headers().contains_key("idempotent-replayed"), i == 1);
        assert_eq!(r.text().await.expect("text"), "1 x");
    }
    let r = client.post(&url).body("x").send().await.expect("answered");
    eprintln!("{r:?}");
    eprintln!("{}", r.text().await.expect("text"));
    assert_eq!(runs.load(Ordering::SeqCst), 1);
}
