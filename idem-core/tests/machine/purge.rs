//! P1 to P7, and G1.

use std::num::NonZeroU32;

use idem_core::{Claimed, Final, OnUncertain, Purged, Recorded, Span, State, Store};

use crate::bench::{Bench, EVIDENCE, Is, LEASE, QUARANTINE, REMEMBER, RETENTION, TAKE_OVER};

const SECOND: u8 = 2;
const EVER: u64 = 1_000_000;

#[tokio::test]
async fn p1_never_a_running_lease() {
    let bench = Bench::new();
    let long = Span::saturating_secs(2 * EVER);
    bench.acquire(bench.asking(1).lease(long).retention(long)).await;
    bench.age(EVER);
    assert_eq!(bench.purge().await, Purged::default());
    let (bench, lease) = Bench::that_is(Is::Lapsed, TAKE_OVER).await;
    bench.age(EVER);
    bench.renew(&lease.unwrap()).await;
    assert_eq!(bench.purge().await, Purged::default(), "renewed after its retention");
}

#[tokio::test]
async fn p2_and_p7_what_is_free_goes_after_its_quarantine() {
    for is in [Is::Succeeded, Is::Failed, Is::Released] {
        let (bench, _) = Bench::that_is(is, TAKE_OVER).await;
        bench.age(RETENTION + QUARANTINE - 1);
        assert_eq!(bench.purge().await, Purged::default(), "{is:?}");
        bench.age(1);
        assert_eq!(bench.purge().await, Purged { deleted: 1, dropped: 0 }, "{is:?}");
        assert_eq!(bench.row(), None);
    }
}

#[tokio::test]
async fn p2_inside_remembered_time_only_the_response_goes() {
    let (bench, _) = Bench::that_is(Is::Spent, TAKE_OVER).await;
    assert_eq!(bench.purge().await, Purged { deleted: 0, dropped: 1 });
    assert_eq!(bench.row().unwrap().recorded, Some(Recorded::Tombstone { code: 200 }));
    assert_eq!(bench.purge().await, Purged::default());
    bench.age(REMEMBER + QUARANTINE - 1);
    assert_eq!(bench.purge().await, Purged::default());
    bench.age(1);
    assert_eq!(bench.purge().await, Purged { deleted: 1, dropped: 0 });
}

#[tokio::test]
async fn p3_at_most_the_limit_and_a_true_count() {
    let bench = Bench::new();
    for number in 0..5 {
        let mut identity = bench.identity.clone();
        identity.key = idem_core::Key::new(format!("key {number}")).unwrap();
        let one = Bench { identity, store: idem_core::MemoryStore::new() };
        let claim = one.asking(1).build().unwrap();
        let Claimed::Acquired(grant) = bench.store.claim(&claim).await.unwrap() else { panic!("not acquired") };
        bench.release(&grant.lease).await;
        assert!(bench.store.age(&one.identity, Span::saturating_secs(RETENTION + QUARANTINE)));
    }
    let limit = NonZeroU32::new(2).unwrap();
    for left in [2, 2, 1, 0] {
        assert_eq!(bench.store.purge(limit).await.unwrap(), Purged { deleted: left, dropped: 0 });
    }
}

#[tokio::test]
async fn p5_evidence_stays_for_its_time() {
    for is in [Is::Lapsed, Is::Unknown] {
        let (bench, _) = Bench::that_is(is, TAKE_OVER).await;
        let age = RETENTION + EVIDENCE + QUARANTINE;
        bench.age(age - LEASE - 1);
        assert_eq!(bench.purge().await, Purged::default(), "{is:?}");
        assert!(matches!(bench.claim(bench.asking(SECOND)).await, Claimed::Uncertain(_)), "no age frees it: {is:?}");
        bench.age(LEASE + 1);
        assert_eq!(bench.purge().await, Purged { deleted: 1, dropped: 0 }, "{is:?}");
    }
}

#[tokio::test]
async fn p5_held_evidence_stays_until_somebody_decides() {
    for is in [Is::Lapsed, Is::Unknown] {
        let (bench, _) = Bench::that_is(is, OnUncertain::Hold).await;
        bench.age(EVER);
        assert_eq!(bench.purge().await, Purged::default(), "{is:?}");
    }
    let (bench, _) = Bench::that_is(Is::Running, OnUncertain::Hold).await;
    bench.age(EVER);
    assert_eq!(bench.purge().await, Purged { deleted: 1, dropped: 0 }, "what never began is no evidence");
}

#[tokio::test]
async fn p6_the_next_life_after_a_purge_has_one_owner_and_a_higher_fence() {
    let (bench, old) = Bench::that_is(Is::Succeeded, TAKE_OVER).await;
    bench.age(RETENTION + QUARANTINE);
    assert_eq!(bench.purge().await.deleted, 1);
    let next = bench.acquire(bench.asking(SECOND)).await.lease;
    assert!(next.fence > old.unwrap().fence);
    assert!(matches!(bench.claim(bench.asking(3)).await, Claimed::InFlight { .. }));
}

#[tokio::test]
async fn g1_shows_what_is_there_and_changes_nothing() {
    for (is, shown) in [
        (Is::Absent, None),
        (Is::Running, Some(State::Processing)),
        (Is::Lapsed, Some(State::Processing)),
        (Is::Unknown, Some(State::Unknown)),
        (Is::Succeeded, Some(State::Succeeded)),
        (Is::Failed, Some(State::Failed)),
        (Is::Released, Some(State::Released)),
        (Is::OverAge, None),
        (Is::Spent, Some(State::Spent(Final::Succeeded))),
    ] {
        let (bench, _) = Bench::that_is(is, TAKE_OVER).await;
        let before = bench.row();
        assert_eq!(bench.get().await.map(|record| record.state), shown, "{is:?}");
        assert_eq!(bench.row(), before, "{is:?}");
    }
    let (bench, _) = Bench::that_is(Is::Spent, TAKE_OVER).await;
    assert_eq!(bench.get().await.unwrap().recorded, Some(Recorded::Tombstone { code: 200 }));
}
