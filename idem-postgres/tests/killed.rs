//! The server is killed under load, again and again.

#![allow(clippy::expect_used)] // A test fails by panicking.

mod common;

use common::*;
use conformance::drill::killed_twenty_times;
use conformance::fault::Proxy;
use conformance::provider::{Kind, Policy, Server, Way, available, start};
use idem_postgres::PostgresStore;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_kills_lose_nothing_that_was_answered() {
    let policy = Policy::from_env().expect("the variables are understood");
    let mut ran = 0;
    // The image and the program of this machine are of different versions.
    for way in [Way::Container, Way::Local].into_iter().filter(|way| policy.ways.contains(way)) {
        match available(Kind::Postgres, way).await {
            Ok(()) => {
                let server = start(Kind::Postgres, &Policy::default().only(way)).await.expect("started");
                twenty_kills(server).await;
                ran += 1;
            }
            Err(reason) => eprintln!("not run: postgres, {way}: {reason}"),
        }
    }
    assert!(ran > 0 || !policy.required.contains(&Kind::Postgres), "PostgreSQL is required and not run");
}

async fn twenty_kills(server: Server) {
    let place = Place::on(server.clone()).await;
    let proxy = Proxy::before(place.address()).await.expect("a port");
    let address = proxy.address();
    let options = place.options().host(&address.ip().to_string()).port(address.port());
    let store = PostgresStore::builder(options).schema(&place.schema).open().await.expect("opened");
    killed_twenty_times(&server, &proxy, &store).await;
    store.close().await;
}
