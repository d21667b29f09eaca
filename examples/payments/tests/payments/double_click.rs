//! Many clicks at once.

use std::sync::Arc;

use reqwest::StatusCode;
use tokio::sync::Barrier;
use tokio::task::JoinSet;

use crate::place::{Place, on_every_store};
use crate::server::Server;

on_every_store!(sixty_four_at_once_are_charged_once);

async fn sixty_four_at_once_are_charged_once(place: &Place) {
    const CLICKS: usize = 64;
    let server = Arc::new(Server::start(place, &[]).await);
    let (gate, mut clicks) = (Arc::new(Barrier::new(CLICKS)), JoinSet::new());
    for _ in 0..CLICKS {
        let (server, gate) = (Arc::clone(&server), Arc::clone(&gate));
        clicks.spawn(async move {
            gate.wait().await;
            let answer = server.pay("shoes").send().await.unwrap();
            (answer.status(), answer.headers().contains_key("idempotent-replayed"), answer.bytes().await.unwrap())
        });
    }
    let answers = clicks.join_all().await;
    let first: Vec<_> =
        answers.iter().filter(|(status, replayed, _)| *status == StatusCode::CREATED && !replayed).collect();
    assert_eq!(first.len(), 1, "one ran");
    for (status, replayed, body) in &answers {
        assert!(*status == StatusCode::CONFLICT || *status == StatusCode::CREATED, "{status}");
        assert!(!replayed || *body == first[0].2, "replayed byte for byte");
    }
    let charges = server.charges().await;
    assert_eq!(charges.len(), 1, "{charges:?}");
    assert_eq!(charges[0]["requests"], 1, "the provider was asked once");
    assert_eq!(server.orders().await.len(), 1);
}
