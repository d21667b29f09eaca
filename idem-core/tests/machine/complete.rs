//! F1 to F7.

use idem_core::{
    Claimed, Complete, Completed, End, ErrorKind, Final, MemoryStore, Recorded, Released, Replay, Response, State,
    Store,
};

use crate::bench::{Bench, FLOOR, Is, LEASE, RETENTION, TAKE_OVER, failed, response, succeeded, unknown};

const SECOND: u8 = 2;

#[tokio::test]
async fn f1_the_current_token_completes_lapsed_or_not() {
    for is in [Is::Running, Is::Lapsed] {
        for (end, state) in
            [(succeeded(200), State::Succeeded), (failed(402), State::Failed), (unknown(500), State::Unknown)]
        {
            let (bench, lease) = Bench::that_is(is, TAKE_OVER).await;
            assert_eq!(bench.complete(&lease.unwrap(), end).await, Completed::Stored);
            assert_eq!(bench.row().unwrap().state, state);
        }
    }
}

#[tokio::test]
async fn f2_the_first_end_stays() {
    for is in [Is::Succeeded, Is::Failed, Is::Unknown, Is::OverAge, Is::Spent] {
        for second in [succeeded(201), failed(409), unknown(503)] {
            let (bench, lease) = Bench::that_is(is, TAKE_OVER).await;
            let before = bench.row();
            assert_eq!(bench.complete(&lease.unwrap(), second).await, Completed::AlreadyStored, "{is:?}");
            assert_eq!(bench.row(), before, "{is:?}");
        }
    }
}

#[tokio::test]
async fn f3_lost_after_a_takeover() {
    for is in [Is::Lapsed, Is::Unknown] {
        let (bench, lease) = Bench::that_is(is, TAKE_OVER).await;
        bench.acquire(bench.asking(SECOND)).await;
        let before = bench.row();
        assert_eq!(bench.complete(&lease.unwrap(), succeeded(200)).await, Completed::Lost, "{is:?}");
        assert_eq!(bench.row(), before, "{is:?}");
    }
}

#[tokio::test]
async fn f3_lost_after_a_release_and_in_the_next_life() {
    let (bench, lease) = Bench::that_is(Is::Released, TAKE_OVER).await;
    let lease = lease.unwrap();
    assert_eq!(bench.complete(&lease, succeeded(200)).await, Completed::Lost);
    bench.acquire(bench.asking(lease.token.as_bytes()[0])).await; // the same token: the fence tells the lives apart
    let before = bench.row();
    assert_eq!(bench.complete(&lease, succeeded(200)).await, Completed::Lost);
    assert_eq!(bench.row(), before);
}

#[tokio::test]
async fn f3_lost_after_a_release_of_a_later_attempt() {
    let (bench, _) = Bench::that_is(Is::Lapsed, TAKE_OVER).await;
    let later = bench.acquire(bench.asking(SECOND)).await.lease;
    assert_eq!(bench.release(&later).await, Released::Released);
    let before = bench.row();
    assert_eq!(bench.complete(&later, succeeded(200)).await, Completed::Lost);
    assert_eq!(bench.row(), before);
}

#[tokio::test]
async fn f3_nothing_is_created_after_purge() {
    let (bench, lease) = Bench::that_is(Is::Released, TAKE_OVER).await;
    bench.age(10 * RETENTION);
    assert_eq!(bench.purge().await.deleted, 1);
    assert_eq!(bench.complete(&lease.unwrap(), succeeded(200)).await, Completed::Lost);
    assert_eq!(bench.row(), None);
}

#[tokio::test]
async fn f5_no_other_record_changes() {
    let (bench, lease) = Bench::that_is(Is::Running, TAKE_OVER).await;
    let mut other = bench.identity.clone();
    other.scope = idem_core::Scope::new("another tenant").unwrap();
    let claim = idem_core::Claim::builder(
        other.clone(),
        idem_core::Operation::new("pay").unwrap(),
        idem_core::Fingerprint::from_bytes([1; 32]),
    );
    let same_token = claim.token(lease.clone().unwrap().token).build().unwrap();
    assert!(matches!(bench.store.claim(&same_token).await.unwrap(), Claimed::Acquired(_)));
    let before = bench.store.peek(&other);
    assert_eq!(bench.complete(&lease.unwrap(), succeeded(200)).await, Completed::Stored);
    assert_eq!(bench.store.peek(&other), before);
}

#[tokio::test]
async fn f6_the_response_comes_back_byte_for_byte() {
    let bodies = [None, Some(vec![]), Some(vec![0]), Some(vec![0xff, 0xfe, 0, b'"'])];
    for body in bodies {
        let (bench, lease) = Bench::that_is(Is::Running, TAKE_OVER).await;
        let mut response = Response::new(u16::MAX).with_meta(vec![0, 0x80]);
        response.body = body.map(Into::into);
        let recorded = Recorded::from(response);
        assert_eq!(bench.complete(&lease.unwrap(), End::Succeeded(recorded.clone())).await, Completed::Stored);
        let replay = Claimed::Replay(Replay { end: Final::Succeeded, recorded });
        assert_eq!(bench.claim(bench.asking(SECOND)).await, replay);
    }
}

#[tokio::test]
async fn f6b_a_slow_attempt_is_still_replayable_for_the_floor() {
    let (bench, lease) = Bench::that_is(Is::Lapsed, TAKE_OVER).await;
    bench.age(2 * RETENTION);
    assert_eq!(bench.complete(&lease.unwrap(), succeeded(200)).await, Completed::Stored);
    let replay = Claimed::Replay(Replay { end: Final::Succeeded, recorded: response(200) });
    bench.age(FLOOR - 1);
    assert_eq!(bench.claim(bench.asking(SECOND)).await, replay);
    bench.age(1);
    assert!(matches!(bench.claim(bench.asking(SECOND)).await, Claimed::Acquired(_)));
}

#[tokio::test]
async fn f7_a_response_over_the_limit_changes_nothing_and_a_tombstone_fits() {
    let bench = Bench { store: MemoryStore::new().response_limit(1), ..Bench::new() };
    let lease = bench.acquire(bench.asking(1)).await.lease;
    let before = bench.row();
    let too_long = succeeded(200);
    let error = bench.store.complete(&Complete::new(lease.clone(), too_long.clone())).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooLarge);
    assert_eq!(bench.row(), before);
    assert_eq!(bench.complete(&lease, too_long.without_response()).await, Completed::Stored);
    bench.age(LEASE);
    let replay = Replay { end: Final::Succeeded, recorded: Recorded::Tombstone { code: 200 } };
    assert_eq!(bench.claim(bench.asking(SECOND)).await, Claimed::Replay(replay));
}
