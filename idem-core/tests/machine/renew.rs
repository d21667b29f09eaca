//! R1 to R5.

use idem_core::{Renew, Renewed, Span, Store};

use crate::bench::{Bench, Is, LEASE, TAKE_OVER};

const SECOND: u8 = 2;

#[tokio::test]
async fn r1_only_the_current_token_of_a_processing_record() {
    let (bench, lease) = Bench::that_is(Is::Running, TAKE_OVER).await;
    let lease = lease.unwrap();
    let before = bench.row();
    let mut forged = lease.clone();
    forged.token = idem_core::Token::from_bytes([SECOND; 16]);
    assert_eq!(bench.renew(&forged).await, Renewed::Lost);
    let mut older = lease.clone();
    older.fence = idem_core::Fence::new(lease.fence.get() - 1);
    assert_eq!(bench.renew(&older).await, Renewed::Lost);
    assert_eq!(bench.row(), before);
    assert_eq!(bench.renew(&lease).await, Renewed::Held);
}

#[tokio::test]
async fn r2_counts_from_now_and_never_shortens() {
    let (bench, lease) = Bench::that_is(Is::Running, TAKE_OVER).await;
    let lease = lease.unwrap();
    let before = bench.row().unwrap().lease_until;
    let shorter = Renew::new(lease.clone()).lasting(Span::MIN);
    assert_eq!(bench.store.renew(&shorter).await.unwrap(), Renewed::Held);
    assert_eq!(bench.row().unwrap().lease_until, before);
    bench.age(LEASE - 1);
    let aged = bench.row().unwrap().lease_until;
    assert_eq!(bench.renew(&lease).await, Renewed::Held);
    assert!(bench.row().unwrap().lease_until >= aged.plus(Span::saturating_secs(LEASE - 1)));
}

#[tokio::test]
async fn r3_a_lapsed_lease_that_nobody_took_is_held() {
    let (bench, lease) = Bench::that_is(Is::Lapsed, TAKE_OVER).await;
    bench.age(10 * LEASE);
    assert_eq!(bench.renew(&lease.unwrap()).await, Renewed::Held);
    assert!(matches!(bench.claim(bench.asking(SECOND)).await, idem_core::Claimed::InFlight { .. }));
}

#[tokio::test]
async fn r4_nothing_is_revived() {
    for is in [Is::Succeeded, Is::Failed, Is::Unknown, Is::Released] {
        let (bench, lease) = Bench::that_is(is, TAKE_OVER).await;
        let before = bench.row();
        assert_eq!(bench.renew(&lease.unwrap()).await, Renewed::Lost, "{is:?}");
        assert_eq!(bench.row(), before, "{is:?}");
    }
    let (bench, lease) = Bench::that_is(Is::Lapsed, TAKE_OVER).await;
    bench.acquire(bench.asking(SECOND)).await;
    let before = bench.row();
    assert_eq!(bench.renew(&lease.unwrap()).await, Renewed::Lost, "taken over");
    assert_eq!(bench.row(), before);
}

#[tokio::test]
async fn r5_a_checkpoint_replaces_an_older_one_and_survives_its_owner() {
    let (bench, lease) = Bench::that_is(Is::Running, TAKE_OVER).await;
    let lease = lease.unwrap();
    for (sent, kept) in [(2, 2), (1, 2), (2, 2), (3, 3)] {
        assert_eq!(bench.renew_leaving(&lease, sent).await, Renewed::Held);
        assert_eq!(bench.row().unwrap().checkpoint.map(|checkpoint| checkpoint.sequence), Some(kept));
    }
    assert_eq!(bench.renew(&lease).await, Renewed::Held);
    bench.age(LEASE);
    let checkpoint = bench.acquire(bench.asking(SECOND)).await.checkpoint.unwrap();
    assert_eq!((checkpoint.sequence, checkpoint.bytes.as_ref()), (3, b"3".as_slice()));
}
