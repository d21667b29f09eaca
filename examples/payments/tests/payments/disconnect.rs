//! Clients that go away while their payment runs.

use std::collections::HashSet;
use std::sync::Arc;

use reqwest::StatusCode;
use serde_json::json;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::place::{Place, on_every_store};
use crate::server::Server;

on_every_store!(what_was_begun_is_recorded_for_everybody);

async fn what_was_begun_is_recorded_for_everybody(place: &Place) {
    const CLIENTS: u64 = 100;
    let server = Arc::new(Server::start(place, &["--latency", "1s"]).await);
    let (charged, news) = watch::channel(HashSet::new());
    let mut clients = JoinSet::new();
    for amount in 1..=CLIENTS {
        let (server, mut news) = (Arc::clone(&server), news.clone());
        clients.spawn(async move {
            let payment = json!({"item": "shoes", "amount": amount, "card": "visa"});
            let pay = || server.pay(&format!("key-{amount}")).json(&payment).send();
            let leaving = tokio::spawn(pay());
            // The charge is half way through the handler. A key in flight would only show that it has been claimed: a
            // client that leaves before its handler begins leaves nothing behind.
            news.wait_for(|charged| charged.contains(&amount)).await.unwrap();
            leaving.abort();
            let _ = leaving.await;
            loop {
                let answer = pay().await.unwrap();
                if answer.status() != StatusCode::CONFLICT {
                    return (answer.status(), answer.headers().contains_key("idempotent-replayed"));
                }
                tokio::task::yield_now().await;
            }
        });
    }
    while charged.borrow().len() < clients.len() {
        let amounts = server.charges().await.iter().filter_map(|charge| charge["amount"].as_u64()).collect();
        charged.send_replace(amounts);
    }
    for answer in clients.join_all().await {
        assert_eq!(answer, (StatusCode::CREATED, true));
    }
    let charges = server.charges().await;
    assert_eq!(charges.len() as u64, CLIENTS);
    assert!(charges.iter().all(|charge| charge["requests"] == 1), "no handler ran twice");
    assert_eq!(server.orders().await.len() as u64, CLIENTS);
}
