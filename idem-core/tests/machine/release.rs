//! L1 to L3.

use idem_core::{Claimed, HowEnded, Release, Released, State, Store};

use crate::bench::{Bench, Is, LEASE, OTHER_REQUEST, TAKE_OVER, response};

const SECOND: u8 = 2;
const THIRD: u8 = 3;

#[tokio::test]
async fn l1_the_first_attempt_frees_the_identity_for_any_request() {
    for is in [Is::Running, Is::Lapsed] {
        let (bench, lease) = Bench::that_is(is, TAKE_OVER).await;
        let lease = lease.unwrap();
        assert_eq!(bench.release(&lease).await, Released::Released);
        let row = bench.row().unwrap();
        assert_eq!((row.state, row.fence), (State::Released, lease.fence));
        let next = bench.acquire(bench.asking_for(OTHER_REQUEST, SECOND)).await.lease;
        assert!(next.fence > lease.fence);
        assert_eq!(next.attempt, 1);
    }
}

#[tokio::test]
async fn l1_a_later_attempt_undoes_only_its_own_grant() {
    let (bench, _) = Bench::that_is(Is::Unknown, TAKE_OVER).await;
    let later = bench.acquire(bench.asking(SECOND)).await.lease;
    assert_eq!(bench.release(&later).await, Released::Released);
    assert_eq!(bench.row().unwrap().state, State::Unknown);
    assert_eq!(bench.row().unwrap().recorded, Some(response(500)), "the evidence stays");
    assert_eq!(bench.claim(bench.asking_for(OTHER_REQUEST, THIRD)).await, Claimed::Mismatch);
    let third = bench.acquire(bench.asking(THIRD)).await;
    assert_eq!((third.lease.attempt, third.previous.map(|past| past.how)), (3, Some(HowEnded::Released)));
}

#[tokio::test]
async fn l1_a_resolver_frees_it_for_every_attempt() {
    let (bench, _) = Bench::that_is(Is::Lapsed, idem_core::OnUncertain::Hold).await;
    let lease = bench.acquire(bench.asking(SECOND).resolving()).await.lease;
    let released = bench.store.release(&Release::of_every_attempt(lease)).await.unwrap();
    assert_eq!(released, Released::Released);
    assert_eq!(bench.acquire(bench.asking_for(OTHER_REQUEST, THIRD)).await.lease.attempt, 1);
}

#[tokio::test]
async fn l1_a_takeover_of_what_never_began_frees_it_too() {
    let (bench, _) = Bench::that_is(Is::Running, idem_core::OnUncertain::Hold).await;
    bench.age(LEASE);
    let second = bench.acquire(bench.asking(SECOND).on_uncertain(idem_core::OnUncertain::Hold)).await.lease;
    assert_eq!((second.attempt, bench.release(&second).await), (2, Released::Released));
    assert_eq!(bench.row().unwrap().state, State::Released);
}

#[tokio::test]
async fn l2_a_repeat_is_harmless_and_frees_no_other_owner() {
    let (bench, lease) = Bench::that_is(Is::Released, TAKE_OVER).await;
    let lease = lease.unwrap();
    let before = bench.row();
    assert_eq!(bench.release(&lease).await, Released::Released);
    assert_eq!(bench.row(), before);
    for token in [lease.token.as_bytes()[0], SECOND] {
        let next = bench.acquire(bench.asking(token)).await.lease;
        let owned = bench.row();
        assert_eq!(bench.release(&lease).await, Released::Lost);
        assert_eq!(bench.row(), owned);
        assert_eq!(bench.release(&next).await, Released::Released);
    }
}

#[tokio::test]
async fn l2_a_repeat_for_a_later_attempt_is_harmless() {
    let (bench, _) = Bench::that_is(Is::Lapsed, TAKE_OVER).await;
    let later = bench.acquire(bench.asking(SECOND)).await.lease;
    assert_eq!(bench.release(&later).await, Released::Released);
    let before = bench.row();
    assert_eq!(bench.release(&later).await, Released::Released);
    assert_eq!(bench.row(), before);
}

#[tokio::test]
async fn l3_never_on_what_has_ended() {
    for is in [Is::Succeeded, Is::Failed, Is::Unknown, Is::OverAge, Is::Spent] {
        let (bench, lease) = Bench::that_is(is, TAKE_OVER).await;
        let before = bench.row();
        assert_eq!(bench.release(&lease.unwrap()).await, Released::Lost, "{is:?}");
        assert_eq!(bench.row(), before, "{is:?}");
    }
}
