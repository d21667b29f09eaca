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
