//! A store that is away, loses replies, or refuses long answers.

use std::num::NonZeroU32;
use std::sync::Arc;

use async_trait::async_trait;
use idem_core::{
    Claim, Claimed, Complete, Completed, Confirm, End, Error, ErrorKind, Fault, Idem, Identity, MemoryStore, Outcome,
    Purged, Record, Recorded, Release, Released, Renew, Renewed, Response, Store,
};
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

/// The work is done and its owner lives: however long storing takes, nobody else runs it.
#[tokio::test(start_paused = true)]
async fn the_lease_is_kept_until_the_end_is_stored() {
    let effects = Effects::default();
    let (idem, store) = troubled(std::iter::repeat_n((Op::Complete, Trouble::Refuse), 100));
    assert_eq!(effects.pay(&idem, request("k")).await.unwrap(), Outcome::Unconfirmed(Ok("paid 1".into())));
    for _ in 0..20 {
        sleep(secs(10)).await;
        assert!(matches!(effects.pay(&idem, request("k")).await.unwrap(), Outcome::InFlight { .. }));
    }
    assert!(store.calls(Op::Renew) > 10);
    sleep(secs(600)).await;
    assert_eq!(effects.pay(&idem, request("k")).await.unwrap(), Outcome::Replayed(Ok("paid 1".into())));
    assert_eq!(effects.count(), 1);
}

/// A full disk: whatever is long is refused, for as long as it takes.
struct FullDisk(Arc<MemoryStore>);

#[async_trait]
impl Store for FullDisk {
    async fn claim(&self, claim: &Claim) -> Result<Claimed, Error> {
        self.0.claim(claim).await
    }

    async fn renew(&self, renew: &Renew) -> Result<Renewed, Error> {
        self.0.renew(renew).await
    }

    async fn complete(&self, complete: &Complete) -> Result<Completed, Error> {
        match complete.end().recorded() {
            Some(Recorded::Response(_)) => Err(Error::new(ErrorKind::Unavailable, "the disk is full")),
            _ => self.0.complete(complete).await,
        }
    }

    async fn release(&self, release: &Release) -> Result<Released, Error> {
        self.0.release(release).await
    }

    async fn get(&self, identity: &Identity) -> Result<Option<Record>, Error> {
        self.0.get(identity).await
    }

    async fn purge(&self, limit: NonZeroU32) -> Result<Purged, Error> {
        self.0.purge(limit).await
    }
}

/// A response that the store never takes is given up before the operation is.
#[tokio::test(start_paused = true)]
async fn at_the_end_of_the_budget_a_tombstone_is_left() {
    let effects = Effects::default();
    let idem = Idem::new(Arc::new(FullDisk(virtual_store())) as Arc<dyn Store>);
    assert_eq!(effects.pay(&idem, request("k")).await.unwrap(), Outcome::Unconfirmed(Ok("paid 1".into())));
    for _ in 0..14 {
        sleep(secs(60)).await;
        assert!(matches!(effects.pay(&idem, request("k")).await.unwrap(), Outcome::InFlight { .. }));
    }
    sleep(secs(60)).await;
    assert!(matches!(effects.pay(&idem, request("k")).await.unwrap(), Outcome::NotKept { .. }), "not run again");
    assert_eq!(effects.count(), 1);
}

/// An error that no waiting cures does not hold the executor's slot for the whole budget.
#[tokio::test(start_paused = true)]
async fn a_permanent_error_is_given_up_soon() {
    let effects = Effects::default();
    let store = Troubled::new(&virtual_store(), std::iter::repeat_n((Op::Complete, Trouble::RefuseForGood), 100));
    let idem = configured(Arc::clone(&store) as _, |config| config.max_running = 1);
    assert_eq!(effects.pay(&idem, request("k")).await.unwrap(), Outcome::Unconfirmed(Ok("paid 1".into())));
    sleep(secs(5)).await;
    assert_eq!(idem.running(), 0);
    assert!(store.calls(Op::Complete) < 10);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_panics_is_asked_again() {
    let effects = Effects::default();
    let (idem, store) = troubled([(Op::Complete, Trouble::Panic)]);
    assert_eq!(effects.pay(&idem, request("k")).await.unwrap(), Outcome::Executed(Ok("paid 1".into())));
    assert_eq!(store.calls(Op::Complete), 2);
}

/// The release was applied and its reply lost; meanwhile the key is used again. That nothing happened is still true.
#[tokio::test(start_paused = true)]
async fn a_release_whose_reply_was_lost_says_what_the_work_said() {
    let (idem, _) = troubled([(Op::Release, Trouble::LoseReply)]);
    let first = tokio::spawn({
        let idem = idem.clone();
        async move {
            let outcome: Text =
                idem.run(request("k"), |_| async { Err(Fault::NothingHappened("closed".to_owned())) }).await.unwrap();
            outcome
        }
    });
    settle_down().await;
    let second = tokio::spawn({
        let idem = idem.clone();
        async move {
            idem.run(request("k"), |_| async {
                sleep(secs(2)).await;
                Ok::<_, Fault>("paid".to_owned())
            })
            .await
        }
    });
    assert_eq!(first.await.unwrap(), Outcome::Executed(Err(Fault::NothingHappened("closed".into()))));
    assert_eq!(second.await.unwrap().unwrap(), Outcome::<String>::Executed(Ok("paid".into())));
}

/// Under `AtOnce`, too, work that ended its record itself is answered by the record.
#[tokio::test(start_paused = true)]
async fn at_once_does_not_make_two_truths_of_a_joint_end() {
    let memory = virtual_store();
    let idem = configured(Arc::clone(&memory) as _, |config| config.confirm = Confirm::AtOnce);
    let outcome: Text = idem
        .run(request("k"), |attempt| async move {
            let end = End::Succeeded(Response::new(0).with_body("settled").into());
            memory.complete(&Complete::new(attempt.lease().clone(), end)).await?;
            Ok("something else".to_owned())
        })
        .await
        .unwrap();
    assert_eq!(outcome, Outcome::Executed(Ok("settled".into())));
}
