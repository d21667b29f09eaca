//! T1: the server's clock alone decides, whatever the hosts' clocks show.

#![allow(clippy::expect_used)] // A test fails by panicking.

mod common;

use std::process::ExitCode;

use common::*;
use conformance::drill::clocks;
use idem_postgres::PostgresStore;
use idem_postgres::sqlx::postgres::PgConnectOptions;
use libtest_mimic::{Arguments, Trial};

fn main() -> ExitCode {
    if clocks::run_as_one(store_at) {
        return ExitCode::SUCCESS;
    }
    let trial = |name: &str, offset: &'static str| {
        Trial::test(name, move || {
            let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
            runtime.block_on(agree(offset));
            Ok(())
        })
    };
    let trials = vec![trial("a_host_an_hour_ahead_agrees", "+3600s"), trial("a_host_an_hour_behind_agrees", "-3600s")];
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

async fn agree(offset: &str) {
    let Some(fixture) = Fixture::new().await else { return };
    let there = format!("{} {}", fixture.place.schema, fixture.place.server.endpoint().url());
    let fixture = &fixture;
    let age = |identity, by| async move { fixture.age(&identity, by).await };
    clocks::an_hour_apart(&fixture.store, &there, offset, age).await;
}

/// The store in this schema at this URL.
async fn store_at(there: String) -> PostgresStore {
    let (schema, url) = there.split_once(' ').expect("a schema and a URL");
    let options: PgConnectOptions = url.parse().expect("a URL");
    PostgresStore::builder(options).schema(schema).open().await.expect("opened")
}
