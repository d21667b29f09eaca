//! Many duplicates of few keys: what the guard saves.

use idem_core::{Claimed, Store};

use crate::support::{Fixture, body, claim, identity};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn duplicates_do_not_reach_the_database() {
    let Some(fixture) = Fixture::new().await else { return };
    let (keys, duplicates) = (100_u32, 10_000_u32);
    let before = fixture.store.calls();
    for number in 0..keys {
        fixture.finished(&identity(&format!("k{number}")), format!("{number}").as_bytes()).await;
    }
    let mut tasks = tokio::task::JoinSet::new();
    for task in 0..16 {
        let guard = fixture.guard.clone();
        tasks.spawn(async move {
            for at in (task..duplicates).step_by(16) {
                let number = at % keys;
                let answer = guard.claim(&claim(&identity(&format!("k{number}")))).await;
                assert!(matches!(answer, Ok(Claimed::Replay(_))));
                assert_eq!(body(answer), format!("{number}").as_bytes());
            }
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended.expect("no task failed");
    }
    let with = fixture.store.calls() - before;
    let without = u64::from(keys) * 2 + u64::from(duplicates);
    assert!(with * 100 <= without * 2, "{with} calls with the guard, {without} without");
}
