//! What a healthy cache answers, and what it leaves to the database.

use idem_core::{Claimed, Complete, End, OnUncertain, Release, Renew, Renewed, Response, Store};

use crate::support::{Fixture, acquired, another, body, builder, claim, identity, secs};

#[tokio::test]
async fn a_finished_record_is_replayed_and_refused_without_the_database() {
    let Some(fixture) = Fixture::new().await else { return };
    let all: Vec<u8> = (0..=255).collect();
    let key = identity("done");
    fixture.finished(&key, &all).await;
    let second = fixture.second().await;
    let before = fixture.store.calls();
    assert_eq!(body(fixture.guard.claim(&claim(&key)).await), all);
    assert_eq!(body(second.claim(&claim(&key)).await), all, "another process reads the same");
    assert_eq!(fixture.guard.claim(&another(&key)).await.expect("an answer"), Claimed::Mismatch);
    assert_eq!(fixture.store.calls(), before);
    let counters = fixture.guard.counters();
    assert_eq!((counters.replays, counters.mismatches, second.counters().replays), (1, 1, 1));
}

#[tokio::test]
async fn a_hint_refuses_others_and_never_the_owner() {
    let Some(fixture) = Fixture::new().await else { return };
    let key = identity("running");
    let first = builder(&key).lease(secs(600)).build().expect("valid");
    let grant = acquired(fixture.guard.claim(&first).await);
    fixture.guard.flush().await;
    let before = fixture.store.calls();
    let Claimed::InFlight { retry_after } = fixture.guard.claim(&claim(&key)).await.expect("an answer") else {
        panic!("not in flight")
    };
    assert!(!retry_after.is_zero() && retry_after <= secs(1).as_duration(), "{retry_after:?}: the declared staleness");
    assert_eq!(fixture.store.calls(), before, "by the hint");
    assert_eq!(acquired(fixture.guard.claim(&first).await).lease, grant.lease, "clause C3, by the database");
    assert_eq!(fixture.guard.claim(&another(&key)).await.expect("an answer"), Claimed::Mismatch, "by the database");
    assert_eq!(fixture.store.calls(), before + 2);
}

#[tokio::test]
async fn a_hint_is_over_before_half_of_its_lease() {
    let Some(fixture) = Fixture::new().await else { return };
    let key = identity("short");
    let short = idem_core::Span::micros(2_000).expect("valid");
    acquired(fixture.guard.claim(&builder(&key).lease(short).build().expect("valid")).await);
    fixture.guard.flush().await;
    // However it falls, the answer is the database's or within the lease: never a wait for a hint that outlives it.
    match fixture.guard.claim(&claim(&key)).await.expect("an answer") {
        Claimed::InFlight { retry_after } => assert!(retry_after <= short.as_duration()),
        Claimed::Acquired(_) => {}
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn what_is_released_is_free_at_once() {
    let Some(fixture) = Fixture::new().await else { return };
    let key = identity("released");
    let grant = acquired(fixture.guard.claim(&claim(&key)).await);
    fixture.guard.flush().await;
    fixture.guard.release(&Release::new(grant.lease)).await.expect("released");
    fixture.guard.flush().await;
    acquired(fixture.guard.claim(&another(&key)).await);
}

#[tokio::test]
async fn a_renewed_lease_has_a_new_hint() {
    let Some(fixture) = Fixture::new().await else { return };
    let key = identity("renewed");
    let grant = acquired(fixture.guard.claim(&builder(&key).lease(secs(600)).build().expect("valid")).await);
    fixture.guard.flush().await;
    fixture.put(&key, b"gone").await;
    assert_eq!(fixture.guard.renew(&Renew::new(grant.lease)).await.expect("an answer"), Renewed::Held);
    fixture.guard.flush().await;
    let before = fixture.store.calls();
    assert!(matches!(fixture.guard.claim(&claim(&key)).await, Ok(Claimed::InFlight { .. })));
    assert_eq!(fixture.store.calls(), before);
}

#[tokio::test]
async fn nothing_is_replayed_a_moment_after_its_retention() {
    let Some(server) = crate::support::server().await else { return };
    let fixture = Fixture::on(&server, |builder| builder.life(idem_core::Span::MAX)).await;
    let key = identity("old");
    let asked = builder(&key).lease(secs(60)).retention(secs(86_400)).build().expect("valid");
    let grant = acquired(fixture.guard.claim(&asked).await);
    let end = End::Succeeded(Response::new(200).with_body("x").into());
    fixture.guard.complete(&Complete::new(grant.lease, end)).await.expect("completed");
    fixture.guard.flush().await;
    let age = secs(86_390);
    assert!(fixture.guard.age(&key, age).await && fixture.store.store.age(&key, age));
    assert_eq!(body(fixture.guard.claim(&claim(&key)).await), b"x");
    assert_eq!(fixture.guard.counters().replays, 1, "by the copy");
    let rest = secs(10);
    assert!(fixture.guard.age(&key, rest).await && fixture.store.store.age(&key, rest));
    assert!(!matches!(fixture.guard.claim(&claim(&key)).await, Ok(Claimed::Replay(_))));
    assert_eq!((fixture.guard.counters().replays, fixture.guard.counters().rejected), (1, 1));
}

#[tokio::test]
async fn unknown_ends_are_never_copied() {
    let Some(fixture) = Fixture::new().await else { return };
    let key = identity("unknown");
    let held = builder(&key).on_uncertain(OnUncertain::Hold).build().expect("valid");
    let grant = acquired(fixture.guard.claim(&held).await);
    let end = End::Unknown(Some(Response::new(504).into()));
    fixture.guard.complete(&Complete::new(grant.lease, end)).await.expect("completed");
    fixture.guard.flush().await;
    assert!(matches!(fixture.guard.claim(&held).await, Ok(Claimed::InFlight { .. } | Claimed::Uncertain(_))));
    let resolving = builder(&key).resolving().build().expect("valid");
    assert_eq!(acquired(fixture.guard.claim(&resolving).await).lease.attempt, 2, "a person's decision asks no cache");
}

#[tokio::test]
async fn a_completion_from_another_process_and_a_second_attempt_are_copied_as_the_record_says() {
    let Some(fixture) = Fixture::new().await else { return };
    let key = identity("handed over");
    let asked = builder(&key).lease(secs(60)).retention(secs(120)).build().expect("valid");
    acquired(fixture.guard.claim(&asked).await);
    fixture.guard.flush().await;
    assert!(fixture.guard.age(&key, secs(61)).await && fixture.store.store.age(&key, secs(61)));
    let long = builder(&key).lease(secs(60)).retention(secs(86_400)).build().expect("valid");
    let second = acquired(fixture.guard.claim(&long).await);
    assert_eq!(second.lease.attempt, 2);
    let worker = fixture.second().await;
    let end = End::Failed(Response::new(402).with_body("declined").into());
    worker.complete(&Complete::new(second.lease, end)).await.expect("completed");
    worker.flush().await;
    assert_eq!(body(worker.claim(&claim(&key)).await), b"declined");
    assert_eq!(worker.counters().replays, 1);
    // Clause C15: the retention is the first claim's, of which 61 seconds have gone.
    let floor_too = secs(3600);
    assert!(fixture.guard.age(&key, floor_too).await && fixture.store.store.age(&key, floor_too));
    assert!(!matches!(worker.claim(&claim(&key)).await, Ok(Claimed::Replay(_))));
}

#[tokio::test]
async fn settled_records_are_read_from_the_database() {
    let Some(fixture) = Fixture::new().await else { return };
    let key = identity("settled");
    let grant = acquired(fixture.guard.inner().claim(&claim(&key)).await);
    fixture.guard.settled(&key).await.expect("an answer");
    assert!(fixture.entry(&key).await.is_none(), "not finished: nothing is copied, whatever was said");
    let end = End::Succeeded(Response::new(201).with_body("order").into());
    fixture.guard.inner().complete(&Complete::new(grant.lease, end)).await.expect("completed");
    fixture.guard.settled(&key).await.expect("an answer");
    let before = fixture.store.calls();
    assert_eq!(body(fixture.guard.claim(&claim(&key)).await), b"order");
    assert_eq!(fixture.store.calls(), before);
}

#[tokio::test]
async fn large_responses_stay_in_the_database() {
    let Some(server) = crate::support::server().await else { return };
    let fixture = Fixture::on(&server, |builder| builder.largest(10)).await;
    let key = identity("large");
    fixture.finished(&key, &[7; 11]).await;
    assert_eq!(body(fixture.guard.claim(&claim(&key)).await), [7; 11]);
    assert_eq!(fixture.guard.counters().replays, 0);
}

#[tokio::test]
async fn redis_is_told_neither_scope_nor_key() {
    let Some(fixture) = Fixture::new().await else { return };
    let key = identity("very-secret-key");
    fixture.finished(&key, b"body").await;
    let (name, entry) = (fixture.name(&key), fixture.entry(&key).await.expect("copied"));
    for hidden in ["very-secret-key", "alice"] {
        assert!(!name.contains(hidden) && !entry.windows(hidden.len()).any(|part| part == hidden.as_bytes()));
    }
}
