//! A bound on running attempts, draining, purging.

use std::sync::Arc;

use idem_core::{Begun, Busy, Fault, Idem, Outcome, PurgePlan, Store};
use tokio::sync::oneshot;
use tokio::time::sleep;

use crate::support::{
    Effects, Op, Text, Trouble, Troubled, configured, idem, request, request_of, secs, settle_down, virtual_store,
};

#[tokio::test(start_paused = true)]
async fn beyond_the_bound_nothing_runs_and_replays_still_answer() {
    let (store, effects) = (virtual_store(), Effects::default());
    let idem = configured(store, |config| config.max_running = 1);
    effects.pay(&idem, request("done")).await.unwrap();
    settle_down().await;
    let Begun::Granted(held) = idem.begin(request("held")).await.unwrap() else { panic!("not granted") };
    assert_eq!(effects.pay(&idem, request("new")).await.unwrap(), Outcome::Busy(Busy::Saturated));
    assert_eq!(effects.pay(&idem, request("held")).await.unwrap(), Outcome::Busy(Busy::Saturated));
    assert_eq!(effects.pay(&idem, request("done")).await.unwrap(), Outcome::Replayed(Ok("paid 1".into())));
    assert_eq!(effects.pay(&idem, request_of("done", "other")).await.unwrap(), Outcome::Mismatch);
    drop(held);
    settle_down().await;
    assert_eq!(effects.pay(&idem, request("new")).await.unwrap(), Outcome::Executed(Ok("paid 2".into())));
}

#[tokio::test(start_paused = true)]
async fn draining_waits_for_what_runs_and_starts_nothing() {
    let (idem, effects) = (idem(&virtual_store()), Effects::default());
    let (started, running) = oneshot::channel();
    let work = tokio::spawn({
        let idem = idem.clone();
        async move {
            idem.run(request("k"), |_| async move {
                started.send(()).unwrap();
                sleep(secs(20)).await;
                Ok::<_, Fault>("paid".to_owned())
            })
            .await
        }
    });
    running.await.unwrap();
    assert_eq!(idem.drain(secs(5)).await, 1);
    assert_eq!(effects.pay(&idem, request("new")).await.unwrap(), Outcome::Busy(Busy::Draining));
    assert_eq!(idem.drain(secs(60)).await, 0);
    assert_eq!(work.await.unwrap().unwrap(), Outcome::<String>::Executed(Ok("paid".into())));
    assert_eq!(effects.pay(&idem, request("k")).await.unwrap(), Outcome::Replayed(Ok("paid".into())));
}

#[tokio::test(start_paused = true)]
async fn draining_waits_for_what_is_being_stored() {
    let store = virtual_store();
    let troubled = Troubled::new(&store, [(Op::Complete, Trouble::Hang)]);
    let idem = Idem::new(Arc::clone(&troubled) as Arc<dyn Store>);
    let outcome: Text = Effects::default().pay(&idem, request("k")).await.unwrap();
    assert!(matches!(outcome, Outcome::Unconfirmed(Ok(_))));
    assert_eq!(idem.drain(secs(5)).await, 1);
    troubled.gate.add_permits(1);
    assert_eq!(idem.drain(secs(5)).await, 0);
}

#[tokio::test(start_paused = true)]
async fn no_error_and_no_panic_ends_the_purger() {
    let store = virtual_store();
    let troubled = Troubled::new(&store, [(Op::Purge, Trouble::Refuse), (Op::Purge, Trouble::Panic)]);
    let idem = Idem::new(Arc::clone(&troubled) as Arc<dyn Store>);
    let purger = idem.purge_in_background(PurgePlan::default());
    sleep(secs(3600)).await;
    let purges = troubled.calls(Op::Purge);
    assert!((40..=120).contains(&purges), "{purges} purges in an hour");
    drop(purger);
    sleep(secs(3600)).await;
    assert_eq!(troubled.calls(Op::Purge), purges);
}

#[tokio::test(start_paused = true)]
async fn the_purger_deletes_what_has_become_free() {
    let (store, effects) = (virtual_store(), Effects::default());
    let idem = idem(&store);
    let _purger = idem.purge_in_background(PurgePlan::default());
    for key in 0..1_200 {
        effects.pay(&idem, request(&format!("k{key}"))).await.unwrap();
    }
    sleep(secs(25 * 3600 - 120)).await;
    assert!(store.peek(&crate::support::identity("k7")).is_some(), "inside retention and quarantine");
    sleep(secs(300)).await;
    for key in 0..1_200 {
        assert!(store.peek(&crate::support::identity(&format!("k{key}"))).is_none());
    }
}

/// "Without end" is a budget like any other.
#[tokio::test(start_paused = true)]
async fn budgets_without_end_are_budgets() {
    let (store, effects) = (virtual_store(), Effects::default());
    let for_ever = std::time::Duration::MAX;
    let idem = configured(store, |config| {
        config.run_ceiling = for_ever;
        config.store_budget = for_ever;
        config.claim_budget = for_ever;
        config.confirm = idem_core::Confirm::Within(for_ever);
        config.wait = idem_core::Wait::UpTo(for_ever);
    });
    let mut plan = PurgePlan::default();
    plan.every = for_ever;
    let _purger = idem.purge_in_background(plan);
    let work = tokio::spawn({
        let idem = idem.clone();
        async move {
            idem.run(request("k"), |_| async move {
                sleep(secs(100)).await;
                Ok::<_, Fault>("paid".to_owned())
            })
            .await
        }
    });
    sleep(secs(60)).await;
    let second = effects.pay(&idem, request("k")).await.unwrap();
    assert_eq!(second, Outcome::Replayed(Ok("paid".into())), "it waited for the owner, whose lease was kept");
    assert_eq!(work.await.unwrap().unwrap(), Outcome::<String>::Executed(Ok("paid".into())));
}

#[tokio::test(start_paused = true)]
async fn a_busy_executor_looks_inside_its_budget() {
    let effects = Effects::default();
    let troubled = Troubled::new(&virtual_store(), [(Op::Get, Trouble::Hang)]);
    let idem = configured(Arc::clone(&troubled) as Arc<dyn Store>, |config| config.max_running = 0);
    let before = tokio::time::Instant::now();
    assert_eq!(effects.pay(&idem, request("k")).await.unwrap(), Outcome::Busy(Busy::Saturated));
    assert!(before.elapsed() <= secs(11));
}

/// Nothing begins after a drain has said that nothing runs.
#[test]
fn nothing_begins_after_a_drain() {
    use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build().unwrap();
    for round in 0..4_000 {
        runtime.block_on(async {
            let idem = Idem::new(Arc::new(idem_core::MemoryStore::new()));
            let (drained, late) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
            let gate = Arc::new(tokio::sync::Barrier::new(4));
            let mut callers = tokio::task::JoinSet::new();
            for key in ["a", "b", "c"] {
                let (idem, gate) = (idem.clone(), Arc::clone(&gate));
                let (drained, late) = (Arc::clone(&drained), Arc::clone(&late));
                callers.spawn(async move {
                    gate.wait().await;
                    let work = move |_| async move {
                        late.fetch_add(u32::from(drained.load(Ordering::SeqCst)), Ordering::SeqCst);
                        Ok::<_, Fault>(String::new())
                    };
                    idem.run(request(key), work).await.unwrap();
                });
            }
            gate.wait().await;
            assert_eq!(idem.drain(secs(60)).await, 0, "round {round}: it returned before its deadline");
            drained.store(true, Ordering::SeqCst);
            callers.join_all().await;
            assert_eq!(late.load(Ordering::SeqCst), 0, "round {round}");
        });
    }
}
