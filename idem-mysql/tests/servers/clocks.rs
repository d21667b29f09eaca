//! T1: the server's clock alone decides, whatever the hosts' clocks show.

use conformance::drill::clocks;
use idem_mysql::MySqlStore;

use crate::fixture::*;
use crate::{Run, trials};

pub(crate) const TRIALS: &[Run] = trials![t1_a_host_an_hour_ahead_agrees, t1_a_host_an_hour_behind_agrees];

/// Is this process the one whose clock is off?
pub(crate) fn run_as_one() -> bool {
    clocks::run_as_one(async |url| MySqlStore::open(&url).await.expect("opened"))
}

async fn t1_a_host_an_hour_ahead_agrees(fixture: Fixture) {
    agree(&fixture, "+3600s").await;
}

async fn t1_a_host_an_hour_behind_agrees(fixture: Fixture) {
    agree(&fixture, "-3600s").await;
}

async fn agree(fixture: &Fixture, offset: &str) {
    let age = |identity, by| async move { fixture.age(&identity, by).await };
    clocks::an_hour_apart(&fixture.store, &fixture.url, offset, age).await;
}
