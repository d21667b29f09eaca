//! Clients that go away while their payment runs.

use std::sync::Arc;

use reqwest::StatusCode;
use tempfile::TempDir;
use tokio::task::JoinSet;

use crate::server::Server;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_begun_is_recorded_for_everybody() {
    const CLIENTS: usize = 100;
    let folder = TempDir::new().unwrap();
    let server = Arc::new(Server::start(folder.path(), &["--latency", "1s"]).await);
    let mut clients = JoinSet::new();
    for client in 0..CLIENTS {
        let server = Arc::clone(&server);
        clients.spawn(async move {
            let item = format!("item-{client}");
            let leaving = tokio::spawn(server.pay(&item).send());
            // A second request that finds the first in flight shows that its handler has begun. (When the second came
            // first, it is the one that ran and is answered, and the first finds it so.)
            let second = server.pay(&item).send().await.unwrap().status();
            assert!(second == StatusCode::CONFLICT || second == StatusCode::CREATED, "{second}");
            leaving.abort();
            let _ = leaving.await;
            let answer = server.pay_until_done(&item).await;
            (answer.status(), answer.headers().contains_key("idempotent-replayed"))
        });
    }
    for answer in clients.join_all().await {
        assert_eq!(answer, (StatusCode::CREATED, true));
    }
    let charges = server.charges().await;
    assert_eq!(charges.len(), CLIENTS);
    assert!(charges.iter().all(|charge| charge["requests"] == 1), "no handler ran twice");
    assert_eq!(server.orders().await.len(), CLIENTS);
}
