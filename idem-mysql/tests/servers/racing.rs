//! Many at once: one grant a key, and neither deadlocks nor serialization errors come out.

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::sync::Arc;

use futures::future::join_all;
use idem_core::{Claimed, OnUncertain, Release, Store};
use idem_mysql::mysql_async::TxOpts;
use idem_mysql::mysql_async::prelude::Queryable;
use tokio::sync::Barrier;

use crate::fixture::*;
use crate::{Run, trials};

pub(crate) const TRIALS: &[Run] = trials![
    c9_one_grant_a_key_at_read_committed,
    c9_one_grant_a_key_at_repeatable_read,
    c9_one_grant_a_key_at_serializable,
    c9_two_stores_and_one_lapsed_key,
    c9_two_stores_and_one_free_key,
    p6_claims_and_purges_at_once,
    the_deadlock_of_three_inserts_does_not_come_out,
];

const TASKS: usize = 64;
const KEYS: usize = 200;

async fn c9_one_grant_a_key_at_read_committed(fixture: Fixture) {
    one_grant_a_key(&fixture, "READ COMMITTED").await;
}

async fn c9_one_grant_a_key_at_repeatable_read(fixture: Fixture) {
    one_grant_a_key(&fixture, "REPEATABLE READ").await;
}

async fn c9_one_grant_a_key_at_serializable(fixture: Fixture) {
    one_grant_a_key(&fixture, "SERIALIZABLE").await;
}

async fn one_grant_a_key(fixture: &Fixture, isolation: &str) {
    let level = format!("SET SESSION TRANSACTION ISOLATION LEVEL {isolation}");
    let sixteen = NonZeroUsize::new(16).expect("above 0");
    let fixture = fixture.with(|builder| builder.connections(sixteen).on_connect(level)).await;
    let barrier = Arc::new(Barrier::new(TASKS));
    let tasks = (0..TASKS).map(|task| {
        let (fixture, barrier) = (fixture.clone(), Arc::clone(&barrier));
        tokio::spawn(async move {
            barrier.wait().await;
            let mut granted = Vec::new();
            for step in 0..KEYS {
                // Half of them go through the keys from the other end.
                let key = if task % 2 == 0 { step } else { KEYS - 1 - step };
                // Longer than the slowest machine takes: a lease that lapses would rightly be taken over.
                let asked = claiming(&format!("k{key}")).lease(secs(3_600)).build().expect("valid");
                match fixture.store.claim(&asked).await.expect("no error comes out") {
                    Claimed::Acquired(_) => granted.push(key),
                    Claimed::InFlight { .. } => {}
                    other => panic!("{other:?}"),
                }
            }
            granted
        })
    });
    let mut grants: HashMap<usize, usize> = HashMap::new();
    for granted in join_all(tasks).await {
        for key in granted.expect("ran") {
            *grants.entry(key).or_default() += 1;
        }
    }
    assert_eq!(grants.len(), KEYS, "every key has an owner");
    assert!(grants.values().all(|&times| times == 1), "and one only: {grants:?}");
    fixture.store.close().await;
}

/// Sixteen claims of "k" on each of two stores; how many were granted.
async fn storm(fixture: &Fixture) -> usize {
    let stores = [fixture.store.clone(), fixture.with(|builder| builder).await.store];
    let barrier = Arc::new(Barrier::new(32));
    let tasks = (0..32).map(|task| {
        let (store, barrier) = (stores[task % 2].clone(), Arc::clone(&barrier));
        tokio::spawn(async move {
            barrier.wait().await;
            store.claim(&claim("k")).await.expect("no error comes out")
        })
    });
    let answers = join_all(tasks).await;
    let granted = answers.into_iter().filter(|answer| matches!(answer, Ok(Claimed::Acquired(_)))).count();
    stores[1].close().await;
    granted
}

async fn c9_two_stores_and_one_lapsed_key(fixture: Fixture) {
    let within = OnUncertain::TakeOver { within: secs(80_000) };
    fixture.acquire(&claiming("k").on_uncertain(within).build().expect("valid")).await;
    for attempt in 2..12 {
        fixture.age(&identity("k"), secs(31)).await;
        assert_eq!(storm(&fixture).await, 1);
        assert_eq!(fixture.get(&identity("k")).await.map(|record| record.attempt), Some(attempt));
    }
}

async fn c9_two_stores_and_one_free_key(fixture: Fixture) {
    assert_eq!(storm(&fixture).await, 1, "absent");
    for _ in 0..10 {
        let record = fixture.get(&identity("k")).await.expect("there");
        let lease = idem_core::Lease {
            identity: record.identity,
            token: record.token,
            fence: record.fence,
            attempt: record.attempt,
            length: secs(30),
        };
        fixture.store.release(&Release::new(lease)).await.expect("released");
        assert_eq!(storm(&fixture).await, 1, "released");
        let again = fixture.get(&identity("k")).await.expect("there");
        assert!(again.fence > record.fence);
        assert_eq!(again.attempt, 1);
    }
}

async fn p6_claims_and_purges_at_once(fixture: Fixture) {
    for round in 0..10 {
        let grant = fixture.acquire(&claim("k")).await;
        fixture.complete(&grant, succeeded("x")).await;
        fixture.age(&identity("k"), secs(100_000)).await;
        let purging = join_all((0..4).map(|_| fixture.store.purge(std::num::NonZeroU32::MAX)));
        let (granted, purged) = futures::join!(storm(&fixture), purging);
        assert_eq!(granted, 1, "round {round}");
        let deleted: u64 = purged.into_iter().map(|purged| purged.expect("no error comes out").deleted).sum();
        assert!(deleted <= 1);
        fixture.run_sql("DELETE FROM idem_records").await;
    }
}

async fn the_deadlock_of_three_inserts_does_not_come_out(fixture: Fixture) {
    let patient = fixture.patient().await;
    for _ in 0..3 {
        let mut first = fixture.connection().await;
        let mut open = first.start_transaction(TxOpts::new()).await.expect("begun");
        open.query_drop(INSERT_BY_HAND).await.expect("inserted");
        let claims = [claim("k"), claim("k")];
        let waiters = join_all(claims.iter().map(|claim| patient.store.claim(claim)));
        let rolling_back = async {
            fixture.until_waiting(2).await;
            open.rollback().await.expect("rolled back");
        };
        let (answers, ()) = futures::join!(waiters, rolling_back);
        let answers: Vec<_> = answers.into_iter().map(|answer| answer.expect("no 1213 comes out")).collect();
        let granted = answers.iter().filter(|answer| matches!(answer, Claimed::Acquired(_))).count();
        let in_flight = answers.iter().filter(|answer| matches!(answer, Claimed::InFlight { .. })).count();
        assert_eq!((granted, in_flight), (1, 1), "{answers:?}");
        fixture.run_sql("DELETE FROM idem_records").await;
    }
    patient.store.close().await;
}
