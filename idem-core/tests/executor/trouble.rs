//! A store that is away, loses replies, or refuses long answers.

use std::sync::Arc;

use idem_core::{Confirm, ErrorKind, Fault, Idem, Outcome, Response, Store};
use tokio::time::{Instant, sleep};

use crate::support::{
    Effects, Op, Text, Trouble, Troubled, configured, idem, request, secs, settle_down, virtual_store,
};

fn troubled(troubles: impl IntoIterator<Item = (Op, Trouble)>) -> (Idem, Arc<Troubled>) {
    let troubled = Troubled::new(&virtual_store(), troubles);
    (Idem::new(Arc::clone(&troubled) as Arc<dyn Store>), troubled)
}

#[tokio::test(start_paused = true)]
async fn a_lost_reply_of_the_claim_is_asked_again() {
    let effects = Effects::default();
    let (idem, store) = troubled([(Op::Claim, Trouble::LoseReply), (Op::Claim, Trouble::LoseReply)]);
    assert_eq!(effects.pay(&idem, request("k")).await.unwrap(), Outcome::Executed(Ok("paid 1".into())));
    assert_eq!(store.calls(Op::Claim), 3);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_away_fails_closed_inside_the_budget() {
    let effects = Effects::default();
    let (idem, store) = troubled(std::iter::repeat_n((Op::Claim, Trouble::Refuse), 10_000));
    let before = Instant::now();
    let error = effects.pay(&idem, request("k")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.is_retryable());
    assert!(before.elapsed() <= secs(10));
    let asked = store.calls(Op::Claim);
    sleep(secs(60)).await;
    assert!(store.calls(Op::Claim) <= asked + 1, "nobody cares any more, so nothing is sent");
    assert_eq!((effects.count(), idem.running()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_store_that_hangs_fails_closed_inside_the_budget() {
    let effects = Effects::default();
    let (idem, store) = troubled([(Op::Claim, Trouble::Hang)]);
    let before = Instant::now();
    assert_eq!(effects.pay(&idem, request("k")).await.unwrap_err().kind(), ErrorKind::Unavailable);
    assert!(before.elapsed() <= secs(11));
    // The claim comes through late, and its grant is released.
    store.gate.add_permits(1);
    settle_down().await;
    assert_eq!(effects.pay(&idem, request("k")).await.unwrap(), Outcome::Executed(Ok("paid 1".into())));
    assert_eq!(effects.count(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_lost_reply_of_the_completion_is_asked_again() {
    let effects = Effects::default();
    let (idem, store) = troubled([(Op::Complete, Trouble::LoseReply)]);
    assert_eq!(effects.pay(&idem, request("k")).await.unwrap(), Outcome::Executed(Ok("paid 1".into())));
    assert_eq!(store.calls(Op::Complete), 2);
    assert_eq!(effects.pay(&idem, request("k")).await.unwrap(), Outcome::Replayed(Ok("paid 1".into())));
}

/// The caller is told that nothing is confirmed; storing goes on for as long as the store is away.
#[tokio::test(start_paused = true)]
async fn what_is_not_stored_in_time_is_unconfirmed_and_stored_later() {
    let effects = Effects::default();
    let (idem, store) = troubled(std::iter::repeat_n((Op::Complete, Trouble::Refuse), 12));
    let before = Instant::now();
    assert_eq!(effects.pay(&idem, request("k")).await.unwrap(), Outcome::Unconfirmed(Ok("paid 1".into())));
    assert!(before.elapsed() >= secs(5) && before.elapsed() < secs(6));
    assert!(matches!(effects.pay(&idem, request("k")).await.unwrap(), Outcome::InFlight { .. }));
    sleep(secs(120)).await;
    assert_eq!(store.calls(Op::Complete), 13);
    assert_eq!(effects.pay(&idem, request("k")).await.unwrap(), Outcome::Replayed(Ok("paid 1".into())));
    assert_eq!(effects.count(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_answer_at_once_is_stored_behind() {
    let effects = Effects::default();
    let store = Troubled::new(&virtual_store(), [(Op::Complete, Trouble::Hang)]);
    let idem = configured(Arc::clone(&store) as _, |config| config.confirm = Confirm::AtOnce);
    assert_eq!(effects.pay(&idem, request("k")).await.unwrap(), Outcome::Executed(Ok("paid 1".into())));
    assert!(matches!(effects.pay(&idem, request("k")).await.unwrap(), Outcome::InFlight { .. }));
    store.gate.add_permits(1);
    settle_down().await;
    assert_eq!(effects.pay(&idem, request("k")).await.unwrap(), Outcome::Replayed(Ok("paid 1".into())));
}

#[tokio::test(start_paused = true)]
async fn a_response_that_is_too_long_leaves_a_tombstone() {
    let (idem, effects) = (idem(&virtual_store()), Effects::default());
    let run = || {
        let effects = effects.clone();
        idem.run(request("k"), |_| async move {
            effects.happen();
            Ok::<_, Fault>(Response::new(201).with_body(vec![0; 2 * 1024 * 1024]))
        })
    };
    let Outcome::Executed(Ok(whole)) = run().await.unwrap() else { panic!("not executed") };
    assert_eq!(whole.size(), 2 * 1024 * 1024, "the first caller gets it whole");
    let Outcome::NotKept { code: 201, .. } = run().await.unwrap() else { panic!("not a tombstone") };
    assert_eq!(effects.count(), 1);
}

/// What the record says is our own word, so the caller gets its answer and not a tombstone or "nobody knows".
#[tokio::test(start_paused = true)]
async fn a_lost_reply_of_the_completion_costs_the_caller_nothing() {
    let (idem, store) = troubled([
        (Op::Complete, Trouble::None),
        (Op::Complete, Trouble::LoseReply),
        (Op::Complete, Trouble::LoseReply),
    ]);
    let long =
        idem.run(request("long"), |_| async { Ok::<_, Fault>(Response::new(201).with_body(vec![0; 2 * 1024 * 1024])) });
    let Outcome::Executed(Ok(whole)) = long.await.unwrap() else { panic!("the first caller gets it whole") };
    assert_eq!(whole.size(), 2 * 1024 * 1024);
    let unknown = idem.run(request("unknown"), |_| async { Err::<String, _>(Fault::Unknown("timeout".to_owned())) });
    assert_eq!(unknown.await.unwrap(), Outcome::Executed(Err(Fault::Unknown("timeout".to_owned()))));
    // The long one was refused as it was, then its tombstone was sent twice.
    assert_eq!(store.calls(Op::Complete), 3 + 2);
}

#[tokio::test(start_paused = true)]
async fn a_release_is_tried_again_too() {
    let effects = Effects::default();
    let (idem, store) = troubled([(Op::Release, Trouble::Refuse), (Op::Release, Trouble::LoseReply)]);
    let outcome: Text =
        idem.run(request("k"), |_| async { Err(Fault::NothingHappened("closed".to_owned())) }).await.unwrap();
    assert_eq!(outcome, Outcome::Executed(Err(Fault::NothingHappened("closed".into()))));
    assert_eq!(store.calls(Op::Release), 3);
    assert_eq!(effects.pay(&idem, request("k")).await.unwrap(), Outcome::Executed(Ok("paid 1".into())));
}
