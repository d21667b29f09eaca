//! A handler that takes longer than its lease.

use reqwest::StatusCode;

use crate::place::{Place, on_every_store};
use crate::server::Server;

on_every_store!(three_leases_long_it_runs_once);

async fn three_leases_long_it_runs_once(place: &Place) {
    let server = Server::start(place, &["--lease", "400ms", "--latency", "1200ms"]).await;
    let (one, other) = tokio::join!(server.pay_until_done("shoes"), server.pay_until_done("shoes"));
    assert_eq!((one.status(), other.status()), (StatusCode::CREATED, StatusCode::CREATED));
    let replayed = [&one, &other].map(|answer| answer.headers().contains_key("idempotent-replayed"));
    assert_ne!(replayed[0], replayed[1], "one of them ran it, the other was refused meanwhile and then told");
    assert_eq!(one.bytes().await.unwrap(), other.bytes().await.unwrap());
    let charges = server.charges().await;
    assert_eq!((charges.len(), &charges[0]["requests"]), (1, &1.into()), "the provider was asked once");
}
