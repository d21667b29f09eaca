//! Many claimants at once, at every isolation level that a role or database may have as its default.

#![allow(clippy::expect_used)] // A test fails by panicking.

mod common;

use std::collections::HashMap;
use std::sync::Arc;

use common::*;
use idem_core::{Claimed, Store};
use idem_postgres::PostgresStore;
use tokio::sync::Barrier;

const TASKS: usize = 64;
const KEYS: usize = 200;

async fn one_grant_a_key(store: PostgresStore, what: &str) {
    let barrier = Arc::new(Barrier::new(TASKS));
    let tasks = (0..TASKS).map(|_| {
        let (store, barrier) = (store.clone(), Arc::clone(&barrier));
        tokio::spawn(async move {
            let mut granted = Vec::new();
            for key in 0..KEYS {
                if key % 20 == 0 {
                    barrier.wait().await; // All are at the same key again.
                }
                match store.claim(&claim(&format!("k{key}"))).await.expect("no error surfaces") {
                    Claimed::Acquired(_) => granted.push(key),
                    Claimed::InFlight { .. } => {}
                    other => panic!("{other:?}"),
                }
            }
            granted
        })
    });
    let mut grants: HashMap<usize, u32> = HashMap::new();
    for granted in futures::future::join_all(tasks).await {
        for key in granted.expect("ran") {
            *grants.entry(key).or_default() += 1;
        }
    }
    assert_eq!(grants.len(), KEYS, "{what}");
    assert!(grants.values().all(|grants| *grants == 1), "{what}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c9_one_grant_a_key_at_every_isolation() {
    let Some(place) = Place::new().await else { return };
    let own = place.builder().connections(std::num::NonZeroU32::new(16).expect("above 0"));
    one_grant_a_key(own.open().await.expect("opened"), "own pool").await;
    for isolation in ["read committed", "repeatable read", "serializable"] {
        place.sql("TRUNCATE idem_records").await;
        let pool = place.pool_with(16, isolation);
        let store = PostgresStore::on_pool(pool).schema(&place.schema).open().await.expect("opened");
        one_grant_a_key(store.clone(), isolation).await;
        store.close().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c6_one_takes_a_lapsed_key_over_at_every_isolation() {
    let Some(place) = Place::new().await else { return };
    for isolation in ["read committed", "repeatable read", "serializable"] {
        let store = PostgresStore::on_pool(place.pool_with(16, isolation)).schema(&place.schema);
        let store = store.open().await.expect("opened");
        for key in 0..10 {
            let key = format!("{isolation} {key}");
            acquired(store.claim(&claim(&key)).await.expect("claimed"));
            place.age(&identity(&key), secs(31)).await;
            let barrier = Arc::new(Barrier::new(16));
            let claimants = (0..16).map(|_| {
                let (store, key, barrier) = (store.clone(), key.clone(), Arc::clone(&barrier));
                tokio::spawn(async move {
                    barrier.wait().await;
                    match store.claim(&claim(&key)).await.expect("no error surfaces") {
                        Claimed::Acquired(grant) => Some(grant.lease.attempt),
                        Claimed::InFlight { .. } => None,
                        other => panic!("{other:?}"),
                    }
                })
            });
            let attempts = futures::future::join_all(claimants).await;
            let attempts: Vec<u32> = attempts.into_iter().filter_map(|attempt| attempt.expect("ran")).collect();
            assert_eq!(attempts, [2], "{key}");
        }
        store.close().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn p4_p6_purging_beside_claims_blocks_none_and_frees_nobodys() {
    let Some(fixture) = Fixture::new().await else { return };
    for key in 0..20 {
        let grant = fixture.acquire(&claim(&format!("k{key}"))).await;
        fixture.complete(&grant, succeeded("old")).await;
        fixture.age(&identity(&format!("k{key}")), secs(100_000)).await;
    }
    // One row is somebody's: purge passes it by.
    let mut tx = fixture.place.pool(1).begin().await.expect("begun");
    let locked = "SELECT 1 FROM idem_records WHERE key = 'k7' FOR UPDATE";
    idem_postgres::sqlx::query(locked).execute(&mut *tx).await.expect("locked");
    let limit = std::num::NonZeroU32::new(100).expect("above 0");
    assert_eq!(fixture.store.purge(limit).await.map(|purged| purged.deleted).ok(), Some(19));
    tx.rollback().await.expect("unlocked");

    for round in 0..20 {
        let key = "k7";
        fixture.age(&identity(key), secs(100_000)).await;
        let barrier = Arc::new(Barrier::new(10));
        let mut tasks = Vec::new();
        for claimant in 0..10 {
            let (store, barrier) = (fixture.store.clone(), Arc::clone(&barrier));
            tasks.push(tokio::spawn(async move {
                barrier.wait().await;
                if claimant < 2 {
                    store.purge(limit).await.expect("purged");
                    return None;
                }
                match store.claim(&claim(key)).await.expect("no error surfaces") {
                    Claimed::Acquired(grant) => Some(grant),
                    Claimed::InFlight { .. } => None,
                    other => panic!("{other:?}"),
                }
            }));
        }
        let grants = futures::future::join_all(tasks).await;
        let grants: Vec<_> = grants.into_iter().filter_map(|grant| grant.expect("ran")).collect();
        assert_eq!(grants.len(), 1, "round {round}");
        fixture.complete(&grants[0], succeeded("again")).await;
    }
}
