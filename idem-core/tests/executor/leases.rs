//! Heartbeat, deadline and loss, in virtual time.

use std::sync::Arc;
use std::sync::Mutex;

use idem_core::{
    Claimed, ErrorKind, Fault, HowEnded, Idem, OnUncertain, Outcome, Release, Renewed, Request, State, Store,
};
use tokio::time::{Instant, sleep};

use crate::support::{
    Effects, Op, Text, Trouble, Troubled, configured, idem, identity, request, request_of, secs, settle_down, span,
    virtual_store,
};

/// The work takes three leases; rivals ask all along.
#[tokio::test(start_paused = true)]
async fn long_work_runs_once() {
    let (idem, effects) = (idem(&virtual_store()), Effects::default());
    let counted = effects.clone();
    let first = tokio::spawn({
        let idem = idem.clone();
        async move {
            idem.run(request("k"), |attempt| async move {
                sleep(secs(90)).await;
                assert!(attempt.check().is_ok());
                Ok::<_, Fault>(format!("paid {}", counted.happen()))
            })
            .await
        }
    });
    settle_down().await;
    for _ in 0..17 {
        sleep(secs(5)).await;
        let Outcome::InFlight { retry_after } = effects.pay(&idem, request("k")).await.unwrap() else {
            panic!("not in flight")
        };
        assert!(retry_after > secs(19) && retry_after <= secs(30), "{retry_after:?}: renewed at a third of the lease");
    }
    assert_eq!(first.await.unwrap().unwrap(), Outcome::<String>::Executed(Ok("paid 1".into())));
    assert_eq!(effects.pay(&idem, request("k")).await.unwrap(), Outcome::Replayed(Ok("paid 1".into())));
}

/// Beyond the run ceiling the lease is left to lapse. The work learns it, and its late end changes nothing.
#[tokio::test(start_paused = true)]
async fn work_beyond_its_ceiling_is_taken_over() {
    let (store, effects) = (virtual_store(), Effects::default());
    let idem = configured(Arc::clone(&store) as _, |config| config.run_ceiling = secs(60));
    let told = Arc::new(Mutex::new(None));
    let telling = Arc::clone(&told);
    let first = tokio::spawn({
        let idem = idem.clone();
        async move {
            idem.run(request("k"), |attempt| async move {
                let begun = Instant::now();
                attempt.lost().await;
                *telling.lock().unwrap() = Some(begun.elapsed());
                assert!(attempt.check().is_err());
                sleep(secs(60)).await; // a paused owner that wakes late
                Ok::<_, Fault>("late".to_owned())
            })
            .await
        }
    });
    settle_down().await;
    sleep(secs(91)).await;
    assert_eq!(effects.pay(&idem, request("k")).await.unwrap(), Outcome::Executed(Ok("paid 1".into())));
    // The first caller is told what the record says, not what its own work said.
    assert_eq!(first.await.unwrap().unwrap(), Outcome::Replayed(Ok("paid 1".into())));
    let told = told.lock().unwrap().unwrap();
    assert!(told > secs(60) && told < secs(90), "{told:?}: before the lease was over, by the local clock");
}

#[tokio::test(start_paused = true)]
async fn a_failed_renewal_is_not_a_loss() {
    let store = virtual_store();
    let troubled = Troubled::new(&store, [(Op::Renew, Trouble::Refuse), (Op::Renew, Trouble::LoseReply)]);
    let idem = Idem::new(Arc::clone(&troubled) as Arc<dyn Store>);
    let outcome: Text = idem
        .run(request("k"), |attempt| async move {
            tokio::select! {
                _ = attempt.lost() => Err(Fault::Unknown("lost".to_owned())),
                () = sleep(secs(100)) => Ok("paid".to_owned()),
            }
        })
        .await
        .unwrap();
    assert_eq!(outcome, Outcome::Executed(Ok("paid".into())));
    assert!(troubled.calls(Op::Renew) >= 9);
}

#[tokio::test(start_paused = true)]
async fn a_refused_renewal_is_a_loss() {
    let (store, effects) = (virtual_store(), Effects::default());
    let idem = idem(&store);
    let first = tokio::spawn({
        let idem = idem.clone();
        async move {
            idem.run(request("k"), |attempt| async move {
                let begun = Instant::now();
                attempt.lost().await;
                assert!(begun.elapsed() < secs(11), "learnt at the first renewal");
                assert_eq!(attempt.deadline(), None);
                Err::<String, _>(Fault::Unknown("stopped".to_owned()))
            })
            .await
        }
    });
    settle_down().await;
    // The record's times move as if this owner had been paused for a lease; then somebody takes over.
    store.age(&identity("k"), span(31));
    let second = effects.pay(&idem, request("k")).await.unwrap();
    assert_eq!(second, Outcome::Executed(Ok("paid 1".into())));
    assert_eq!(first.await.unwrap().unwrap(), Outcome::Replayed(Ok("paid 1".into())));
}

#[tokio::test(start_paused = true)]
async fn a_store_that_hangs_brings_the_local_deadline() {
    let store = virtual_store();
    let troubled = Troubled::new(&store, std::iter::repeat_n((Op::Renew, Trouble::Hang), 100));
    let idem = Idem::new(Arc::clone(&troubled) as Arc<dyn Store>);
    let outcome: Text = idem
        .run(request("k"), |attempt| async move {
            let begun = Instant::now();
            attempt.lost().await;
            Err(Fault::Final(format!("{}", begun.elapsed().as_secs())))
        })
        .await
        .unwrap();
    assert_eq!(outcome, Outcome::Executed(Err(Fault::Final("27".into()))), "the lease less a tenth");
}

fn hold(key: &str) -> Request {
    request(key).on_uncertain(OnUncertain::Hold)
}

#[tokio::test(start_paused = true)]
async fn under_hold_the_start_is_announced() {
    let (store, effects) = (virtual_store(), Effects::default());
    let troubled = Troubled::new(&store, []);
    let idem = Idem::new(Arc::clone(&troubled) as Arc<dyn Store>);
    assert!(matches!(effects.pay(&idem, hold("k")).await.unwrap(), Outcome::Executed(Ok(_))));
    assert_eq!(troubled.calls(Op::Renew), 1, "before the work began");
    assert!(matches!(effects.pay(&idem, request("j")).await.unwrap(), Outcome::Executed(Ok(_))));
    assert_eq!(troubled.calls(Op::Renew), 1, "a takeover policy needs none");
}

#[tokio::test(start_paused = true)]
async fn under_hold_an_unannounced_attempt_wakes_nobody() {
    let (store, effects) = (virtual_store(), Effects::default());
    // The claim is granted and its owner dies before the work begins.
    let claim = hold("k").claim(&idem_core::Config::default()).unwrap();
    store.claim(&claim).await.unwrap();
    store.age(&identity("k"), span(31));
    assert_eq!(effects.pay(&idem(&store), hold("k")).await.unwrap(), Outcome::Executed(Ok("paid 1".into())));
}

#[tokio::test(start_paused = true)]
async fn under_hold_an_announcement_that_fails_starts_nothing() {
    let (store, effects) = (virtual_store(), Effects::default());
    let troubled = Troubled::new(&store, std::iter::repeat_n((Op::Renew, Trouble::Refuse), 1_000));
    let idem = Idem::new(Arc::clone(&troubled) as Arc<dyn Store>);
    assert!(effects.pay(&idem, hold("k")).await.is_err());
    sleep(secs(60)).await;
    assert_eq!(effects.count(), 0);
    assert_eq!(store.get(&identity("k")).await.unwrap().unwrap().state, State::Released);
    troubled.heal();
    assert_eq!(effects.pay(&idem, hold("k")).await.unwrap(), Outcome::Executed(Ok("paid 1".into())));
}

#[tokio::test(start_paused = true)]
async fn a_checkpoint_reaches_the_next_attempt() {
    let store = virtual_store();
    let idem = configured(Arc::clone(&store) as _, |config| config.run_ceiling = secs(1));
    for attempt in 1..=3 {
        let outcome: Text = idem
            .run(request("k"), move |a| async move {
                assert_eq!(a.number(), attempt);
                let last = a.last_checkpoint().map(|checkpoint| (checkpoint.sequence, checkpoint.bytes.to_vec()));
                let expected = (attempt > 1).then(|| (u64::from(attempt - 1) * 2, format!("b{}", attempt - 1).into()));
                assert_eq!(last, expected);
                assert_eq!(a.checkpoint(format!("a{attempt}")).await?, Renewed::Held);
                assert_eq!(a.checkpoint(format!("b{attempt}")).await?, Renewed::Held);
                Err(Fault::Unknown("crash".to_owned()))
            })
            .await
            .unwrap();
        assert!(matches!(outcome, Outcome::Executed(Err(Fault::Unknown(_)))));
    }
    let history = store.get(&identity("k")).await.unwrap().unwrap().history;
    assert!(history.iter().all(|past| past.how == HowEnded::Unknown) && history.len() == 2);
}

/// While a joint transaction is open the heartbeat leaves the record alone.
#[tokio::test(start_paused = true)]
async fn the_heartbeat_pauses_while_settling() {
    let store = virtual_store();
    let troubled = Troubled::new(&store, []);
    let idem = Idem::new(Arc::clone(&troubled) as Arc<dyn Store>);
    let counted = Arc::clone(&troubled);
    let outcome: Text = idem
        .run(request("k"), |attempt| async move {
            let settling =
                attempt.settling(span(120)).await?.ok_or("lost").map_err(|_| Fault::Unknown(String::new()))?;
            sleep(secs(100)).await;
            assert_eq!(counted.calls(Op::Renew), 1, "one renewal for the whole transaction");
            assert!(attempt.check().is_ok());
            drop(settling);
            sleep(secs(100)).await;
            assert!(counted.calls(Op::Renew) > 1);
            Ok("paid".to_owned())
        })
        .await
        .unwrap();
    assert_eq!(outcome, Outcome::Executed(Ok("paid".into())));
}

/// The owner was paused; its key was taken over, freed, and used for another request. Its late word changes nothing, and
/// the other request's answer is not its caller's.
#[tokio::test(start_paused = true)]
async fn a_late_owner_is_not_told_another_requests_answer() {
    let (store, effects) = (virtual_store(), Effects::default());
    let idem = idem(&store);
    let (started, running) = tokio::sync::oneshot::channel();
    let (go, gone) = tokio::sync::oneshot::channel::<()>();
    let first = tokio::spawn({
        let idem = idem.clone();
        async move {
            idem.run(request("k"), |_| async move {
                started.send(()).unwrap();
                gone.await.unwrap();
                Ok::<_, Fault>("late".to_owned())
            })
            .await
        }
    });
    running.await.unwrap();
    store.age(&identity("k"), span(31));
    let resolver = request("k").claim(&idem_core::Config::default()).unwrap();
    let Claimed::Acquired(grant) = store.claim(&resolver).await.unwrap() else { panic!("not taken over") };
    store.release(&Release::of_every_attempt(grant.lease)).await.unwrap();
    assert_eq!(effects.pay(&idem, request_of("k", "other")).await.unwrap(), Outcome::Executed(Ok("paid 1".into())));
    go.send(()).unwrap();
    assert_eq!(first.await.unwrap().unwrap(), Outcome::Unconfirmed(Ok("late".into())));
}

#[tokio::test(start_paused = true)]
async fn under_hold_a_lost_reply_of_the_announcement_is_asked_again() {
    let effects = Effects::default();
    let troubled = Troubled::new(&virtual_store(), [(Op::Renew, Trouble::LoseReply)]);
    let idem = Idem::new(Arc::clone(&troubled) as Arc<dyn Store>);
    assert_eq!(effects.pay(&idem, hold("k")).await.unwrap(), Outcome::Executed(Ok("paid 1".into())));
}

#[tokio::test(start_paused = true)]
async fn under_hold_an_announcement_that_hangs_fails_inside_the_claims_budget() {
    let effects = Effects::default();
    let troubled = Troubled::new(&virtual_store(), [(Op::Renew, Trouble::Hang)]);
    let idem = Idem::new(Arc::clone(&troubled) as Arc<dyn Store>);
    let before = Instant::now();
    assert!(effects.pay(&idem, hold("k")).await.is_err());
    assert!(before.elapsed() <= secs(11));
    settle_down().await;
    assert_eq!((effects.count(), idem.running()), (0, 0));
}

/// Whatever the work left running is told that the attempt is over, before the next one can begin.
#[tokio::test(start_paused = true)]
async fn an_ended_attempt_holds_nothing() {
    let idem = idem(&virtual_store());
    let (give, given) = tokio::sync::oneshot::channel();
    let _: Text = idem
        .run(request("k"), |attempt| async move {
            assert!(attempt.check().is_ok());
            let _ = give.send(attempt);
            Err(Fault::Unknown("timed out".to_owned()))
        })
        .await
        .unwrap();
    let left_running = given.await.unwrap();
    assert!(left_running.check().is_err());
    assert_eq!(left_running.deadline(), None);
    left_running.lost().await;
}

#[tokio::test(start_paused = true)]
async fn no_checkpoint_while_settling() {
    let idem = idem(&virtual_store());
    let outcome: Text = idem
        .run(request("k"), |attempt| async move {
            let settling = attempt.settling(span(10)).await?;
            assert_eq!(attempt.checkpoint("x").await.unwrap_err().kind(), ErrorKind::Unsupported);
            drop(settling);
            assert_eq!(attempt.checkpoint("x").await?, Renewed::Held);
            Ok("paid".to_owned())
        })
        .await
        .unwrap();
    assert_eq!(outcome, Outcome::Executed(Ok("paid".into())));
}
