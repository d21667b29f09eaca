//! The clauses of the contract, each by a trial that names it. Time moves through the data.

use std::num::NonZeroU32;

use idem_core::machine::Rules;
use idem_core::{
    Claimed, Completed, End, Final, HowEnded, OnUncertain, Recorded, Release, Released, Renew, Renewed, Response, Span,
    State, Store, Token,
};

use crate::fixture::*;
use crate::{Run, trials};

const LIMIT: NonZeroU32 = NonZeroU32::new(100).unwrap();

pub(crate) const TRIALS: &[Run] = trials![
    c1_an_absent_key_is_acquired,
    c1_a_released_key_is_free_for_any_fingerprint_and_its_fence_grows,
    c1_a_finished_key_over_age_is_free_although_nothing_purged,
    c2_another_fingerprint_is_a_mismatch_in_every_state,
    c3_the_same_token_again_is_the_same_grant_and_never_cuts_the_lease,
    c4_f6_a_response_is_replayed_byte_for_byte,
    c5_a_running_lease_is_in_flight_and_not_lengthened,
    c6_a_lapsed_key_is_taken_over_with_checkpoint_and_history,
    c7_a_held_key_is_uncertain_once_its_attempt_began_and_resolving_takes_it,
    c7_take_over_ends_with_its_time,
    c8_p2_a_remembered_key_is_spent_and_only_its_response_goes,
    r1_to_r5_renewing,
    f2_f3_the_first_end_stays,
    f5_exactly_one_record_changes,
    f6b_a_late_end_is_replayable_for_the_floor,
    f7_a_response_over_the_limit_changes_nothing,
    f7_a_tombstone_keeps_the_code,
    l1_l2_l3_releasing,
    p1_to_p7_purging,
    p1_a_lease_that_runs_is_never_purged,
    p3_at_most_the_limit_and_a_true_count,
    keys_are_compared_byte_for_byte,
];

async fn c1_an_absent_key_is_acquired(fixture: Fixture) {
    let asked = claim("k");
    let grant = fixture.acquire(&asked).await;
    assert_eq!((grant.lease.attempt, grant.lease.token), (1, asked.token()));
    let record = fixture.get(asked.identity()).await.expect("there");
    assert_eq!((record.state, record.fence), (State::Processing, grant.lease.fence));
    assert_eq!(record.lease_until.since(record.claimed_at), asked.lease().as_duration());
    assert_eq!(record.expires_at.since(record.created_at), asked.retention().as_duration());
}

async fn c1_a_released_key_is_free_for_any_fingerprint_and_its_fence_grows(fixture: Fixture) {
    let first = fixture.acquire(&claim("k")).await;
    assert_eq!(fixture.store.release(&Release::new(first.lease.clone())).await.ok(), Some(Released::Released));
    // As if the clock stepped back: the fence still grows.
    let far = i64::try_from(first.lease.fence.get()).expect("fits") + 1_000_000_000_000;
    fixture.run_sql(format!("UPDATE idem_records SET fence = {far}")).await;
    let other = idem_core::Claim::builder(identity("k"), operation(), fingerprint("other")).build().expect("valid");
    let second = fixture.acquire(&other).await;
    assert_eq!(second.lease.fence.get(), far.unsigned_abs() + 1);
    assert_eq!(second.lease.attempt, 1);
    assert_eq!(second.previous, None);
}

async fn c1_a_finished_key_over_age_is_free_although_nothing_purged(fixture: Fixture) {
    let asked = claim("k");
    let grant = fixture.acquire(&asked).await;
    fixture.complete(&grant, succeeded("first")).await;
    fixture.age(asked.identity(), secs(86_401)).await;
    assert_eq!(fixture.get(asked.identity()).await, None);
    let again = fixture.acquire(&claim("k")).await;
    assert!(again.lease.fence > grant.lease.fence);
    let record = fixture.get(asked.identity()).await.expect("there");
    assert_eq!((record.recorded, record.ended_at), (None, None));
}

async fn c2_another_fingerprint_is_a_mismatch_in_every_state(fixture: Fixture) {
    let other = idem_core::Claim::builder(identity("k"), operation(), fingerprint("other")).build().expect("valid");
    let grant = fixture.acquire(&claim("k")).await;
    assert_eq!(fixture.claim(&other).await, Claimed::Mismatch);
    fixture.age(&identity("k"), secs(31)).await;
    assert_eq!(fixture.claim(&other).await, Claimed::Mismatch, "lapsed");
    fixture.complete(&grant, End::Unknown(None)).await;
    assert_eq!(fixture.claim(&other).await, Claimed::Mismatch, "unknown");
    let second = fixture.acquire(&claim("k")).await;
    fixture.complete(&second, succeeded("done")).await;
    assert_eq!(fixture.claim(&other).await, Claimed::Mismatch, "succeeded");
}

async fn c3_the_same_token_again_is_the_same_grant_and_never_cuts_the_lease(fixture: Fixture) {
    let asked = claim("k");
    let first = fixture.acquire(&asked).await;
    let renew = Renew::new(first.lease.clone()).lasting(secs(600));
    assert_eq!(fixture.store.renew(&renew).await.ok(), Some(Renewed::Held));
    let end = fixture.get(asked.identity()).await.map(|record| record.lease_until);
    assert_eq!(fixture.acquire(&asked).await, first);
    assert_eq!(fixture.get(asked.identity()).await.map(|record| record.lease_until), end);
    fixture.age(asked.identity(), secs(601)).await;
    assert_eq!(fixture.acquire(&asked).await, first, "lapsed, and still ours");
    let record = fixture.get(asked.identity()).await.expect("there");
    assert!(record.lease_until > record.claimed_at.plus(secs(29)), "and running again");
}

async fn c4_f6_a_response_is_replayed_byte_for_byte(fixture: Fixture) {
    let every_byte: Vec<u8> = (0..=255).collect();
    let responses = [
        Response::new(0),
        Response::new(u16::MAX).with_body(""),
        Response::new(200).with_meta("").with_body(every_byte.clone()),
        Response::new(204).with_meta(every_byte).with_body(vec![0, 0xff, 0xfe, 0x80, 0]),
        Response::new(200).with_body(vec![7; 300_000]),
    ];
    for (number, response) in responses.into_iter().enumerate() {
        for failed in [false, true] {
            let asked = claim(&format!("k{number}{failed}"));
            let grant = fixture.acquire(&asked).await;
            let recorded = Recorded::Response(response.clone());
            let (end, expected) = match failed {
                true => (End::Failed(recorded.clone()), Final::Failed),
                false => (End::Succeeded(recorded.clone()), Final::Succeeded),
            };
            assert_eq!(fixture.complete(&grant, end).await, Completed::Stored);
            let again = claim(&format!("k{number}{failed}"));
            let Claimed::Replay(replay) = fixture.claim(&again).await else { panic!("not replayed") };
            assert_eq!((replay.end, replay.recorded), (expected, recorded));
        }
    }
}

async fn c5_a_running_lease_is_in_flight_and_not_lengthened(fixture: Fixture) {
    fixture.acquire(&claim("k")).await;
    fixture.age(&identity("k"), secs(20)).await;
    let before = fixture.get(&identity("k")).await;
    let Claimed::InFlight { retry_after } = fixture.claim(&claim("k")).await else { panic!("not in flight") };
    assert!(!retry_after.is_zero() && retry_after <= secs(10).as_duration(), "{retry_after:?}");
    assert_eq!(fixture.get(&identity("k")).await, before);
}

async fn c6_a_lapsed_key_is_taken_over_with_checkpoint_and_history(fixture: Fixture) {
    let first = fixture.acquire(&claim("k")).await;
    let renew = Renew::new(first.lease.clone()).checkpoint(3, "page 3").expect("valid");
    fixture.store.renew(&renew).await.expect("renewed");
    fixture.age(&identity("k"), secs(31)).await;
    let second = fixture.acquire(&claim("k")).await;
    assert_eq!(second.lease.attempt, 2);
    assert!(second.lease.fence > first.lease.fence);
    assert_eq!(second.checkpoint.map(|checkpoint| checkpoint.sequence), Some(3));
    assert_eq!(second.previous.map(|past| (past.attempt, past.how)), Some((1, HowEnded::Lapsed)));
    fixture.complete(&first, succeeded("late")).await;
    let record = fixture.get(&identity("k")).await.expect("there");
    assert_eq!((record.state, record.token), (State::Processing, second.lease.token), "F3: the late one is lost");
}

async fn c7_a_held_key_is_uncertain_once_its_attempt_began_and_resolving_takes_it(fixture: Fixture) {
    let hold = |key| claiming(key).on_uncertain(OnUncertain::Hold);
    let first = fixture.acquire(&hold("k").build().expect("valid")).await;
    fixture.age(&identity("k"), secs(31)).await;
    // C14: it announced nothing, so nothing ran.
    let second = fixture.acquire(&hold("k").build().expect("valid")).await;
    assert_eq!(second.lease.attempt, 2);
    assert_eq!(fixture.store.renew(&Renew::new(first.lease)).await.ok(), Some(Renewed::Lost));
    fixture.store.renew(&Renew::new(second.lease.clone())).await.expect("announced");
    fixture.age(&identity("k"), secs(31)).await;
    let evidence = Recorded::from(response("?"));
    fixture.complete(&second, End::Unknown(Some(evidence.clone()))).await;
    // C15: another's TakeOver does not undo Hold.
    let Claimed::Uncertain(uncertain) = fixture.claim(&claim("k")).await else { panic!("not held") };
    assert_eq!((uncertain.attempt, uncertain.evidence), (2, Some(evidence)));
    let third = fixture.acquire(&claiming("k").resolving().build().expect("valid")).await;
    assert_eq!(third.previous.map(|past| past.how), Some(HowEnded::Unknown));
}

async fn c7_take_over_ends_with_its_time(fixture: Fixture) {
    let within = OnUncertain::TakeOver { within: secs(60) };
    let asked = || claiming("k").on_uncertain(within).build().expect("valid");
    fixture.acquire(&asked()).await;
    fixture.age(&identity("k"), secs(61)).await;
    assert!(matches!(fixture.claim(&asked()).await, Claimed::Uncertain(_)));
}

async fn c8_p2_a_remembered_key_is_spent_and_only_its_response_goes(fixture: Fixture) {
    let rules = Rules { remember: Some(secs(1_000_000)), ..Rules::default() };
    let fixture = fixture.with(|builder| builder.rules(rules)).await;
    let grant = fixture.acquire(&claim("k")).await;
    fixture.complete(&grant, End::Failed(response("declined").into())).await;
    fixture.age(&identity("k"), secs(86_401)).await;
    let spent = Claimed::Spent(idem_core::Spent { end: Final::Failed, code: 201 });
    assert_eq!(fixture.claim(&claim("k")).await, spent);
    let purged = fixture.store.purge(LIMIT).await.expect("purged");
    assert_eq!((purged.deleted, purged.dropped), (0, 1));
    assert_eq!(fixture.claim(&claim("k")).await, spent);
    let record = fixture.get(&identity("k")).await.expect("there");
    assert_eq!(record.state, State::Spent(Final::Failed));
    assert_eq!(fixture.store.purge(LIMIT).await.ok(), Some(idem_core::Purged::default()), "nothing twice");
    fixture.age(&identity("k"), secs(1_003_601)).await;
    assert_eq!(fixture.store.purge(LIMIT).await.map(|purged| purged.deleted).ok(), Some(1));
}

async fn r1_to_r5_renewing(fixture: Fixture) {
    let asked = claim("k");
    let grant = fixture.acquire(&asked).await;
    let lease_end = async || fixture.get(asked.identity()).await.map(|record| record.lease_until);
    let before = lease_end().await;
    let short = Renew::new(grant.lease.clone()).lasting(secs(1)).checkpoint(5, "five").expect("valid");
    assert_eq!(fixture.store.renew(&short).await.ok(), Some(Renewed::Held));
    assert_eq!(lease_end().await, before, "R2: never shorter");
    let older = Renew::new(grant.lease.clone()).checkpoint(5, "again").expect("valid");
    fixture.store.renew(&older).await.expect("renewed");
    let checkpoint = fixture.get(asked.identity()).await.and_then(|record| record.checkpoint);
    assert_eq!(checkpoint.map(|checkpoint| checkpoint.bytes), Some("five".into()), "R5: only a higher number");
    fixture.age(asked.identity(), secs(3_600)).await;
    assert_eq!(fixture.store.renew(&Renew::new(grant.lease.clone())).await.ok(), Some(Renewed::Held), "R3");
    let mut forged = grant.lease.clone();
    forged.token = Token::random();
    assert_eq!(fixture.store.renew(&Renew::new(forged)).await.ok(), Some(Renewed::Lost), "R1");
    let mut stale = grant.lease.clone();
    stale.fence = idem_core::Fence::new(stale.fence.get() - 1);
    assert_eq!(fixture.store.renew(&Renew::new(stale)).await.ok(), Some(Renewed::Lost), "X1");
    fixture.complete(&grant, succeeded("done")).await;
    let done = fixture.get(asked.identity()).await;
    assert_eq!(fixture.store.renew(&Renew::new(grant.lease)).await.ok(), Some(Renewed::Lost), "R4");
    assert_eq!(fixture.get(asked.identity()).await, done);
}

async fn f2_f3_the_first_end_stays(fixture: Fixture) {
    let grant = fixture.acquire(&claim("k")).await;
    assert_eq!(fixture.complete(&grant, succeeded("first")).await, Completed::Stored);
    let record = fixture.get(&identity("k")).await;
    assert_eq!(fixture.complete(&grant, End::Unknown(None)).await, Completed::AlreadyStored);
    assert_eq!(fixture.get(&identity("k")).await, record);
    fixture.run_sql("DELETE FROM idem_records").await;
    assert_eq!(fixture.complete(&grant, succeeded("late")).await, Completed::Lost);
    assert_eq!(fixture.rows().await, 0, "nothing is created");
}

async fn f5_exactly_one_record_changes(fixture: Fixture) {
    let mut grants = Vec::new();
    for key in ["a", "b", "c"] {
        grants.push(fixture.acquire(&claim(key)).await);
    }
    let before = (fixture.get(&identity("a")).await, fixture.get(&identity("c")).await);
    fixture.complete(&grants[1], succeeded("b")).await;
    assert_eq!((fixture.get(&identity("a")).await, fixture.get(&identity("c")).await), before);
}

async fn f6b_a_late_end_is_replayable_for_the_floor(fixture: Fixture) {
    let grant = fixture.acquire(&claim("k")).await;
    fixture.age(&identity("k"), secs(86_390)).await;
    fixture.complete(&grant, succeeded("late")).await;
    fixture.age(&identity("k"), secs(3_590)).await;
    assert!(matches!(fixture.claim(&claim("k")).await, Claimed::Replay(_)));
    fixture.age(&identity("k"), secs(20)).await;
    assert!(matches!(fixture.claim(&claim("k")).await, Claimed::Acquired(_)));
}

async fn f7_a_response_over_the_limit_changes_nothing(fixture: Fixture) {
    let fixture = fixture.with(|builder| builder.response_limit(10)).await;
    let grant = fixture.acquire(&claim("k")).await;
    let before = fixture.get(&identity("k")).await;
    let long = idem_core::Complete::new(grant.lease.clone(), succeeded("eleven byte"));
    let refusal = fixture.store.complete(&long).await.expect_err("refused");
    assert_eq!(refusal.kind(), idem_core::ErrorKind::TooLarge);
    assert_eq!(fixture.get(&identity("k")).await, before);
    let exact = End::Succeeded(Response::new(200).with_meta("12345").with_body("67890").into());
    assert_eq!(fixture.complete(&grant, exact).await, Completed::Stored);
}

async fn f7_a_tombstone_keeps_the_code(fixture: Fixture) {
    let grant = fixture.acquire(&claim("k")).await;
    fixture.complete(&grant, succeeded("x").without_response()).await;
    let Claimed::Replay(replay) = fixture.claim(&claim("k")).await else { panic!("not replayed") };
    assert_eq!(replay.recorded, Recorded::Tombstone { code: 201 });
}

async fn l1_l2_l3_releasing(fixture: Fixture) {
    let first = fixture.acquire(&claim("k")).await;
    fixture.age(&identity("k"), secs(31)).await;
    let second = fixture.acquire(&claim("k")).await;
    assert_eq!(fixture.store.release(&Release::new(first.lease)).await.ok(), Some(Released::Lost), "not current");
    let release = Release::new(second.lease.clone());
    assert_eq!(fixture.store.release(&release).await.ok(), Some(Released::Released));
    let record = fixture.get(&identity("k")).await.expect("there");
    assert_eq!((record.state, record.undone), (State::Unknown, true), "what attempt 1 did is not known");
    let third = fixture.acquire(&claim("k")).await;
    assert_eq!(fixture.store.release(&release).await.ok(), Some(Released::Lost), "L2: never the next owner's");
    assert_eq!(
        fixture.store.release(&Release::of_every_attempt(third.lease.clone())).await.ok(),
        Some(Released::Released)
    );
    assert_eq!(fixture.get(&identity("k")).await.map(|record| record.state), Some(State::Released));
    let fourth = fixture.acquire(&claim("k")).await;
    fixture.complete(&fourth, succeeded("done")).await;
    assert_eq!(fixture.store.release(&Release::new(fourth.lease)).await.ok(), Some(Released::Lost), "L3");
    assert!(matches!(fixture.claim(&claim("k")).await, Claimed::Replay(_)));
}

async fn p1_to_p7_purging(fixture: Fixture) {
    let rules = Rules { evidence: Some(secs(10_000)), ..Rules::default() };
    let fixture = fixture.with(|builder| builder.rules(rules)).await;
    let grants = [
        fixture.acquire(&claim("succeeded")).await,
        fixture.acquire(&claim("released")).await,
        fixture.acquire(&claim("lapsed")).await,
        fixture.acquire(&claim("unknown")).await,
    ];
    let held = fixture.acquire(&claiming("held").on_uncertain(OnUncertain::Hold).build().expect("valid")).await;
    fixture.store.renew(&Renew::new(held.lease)).await.expect("announced");
    fixture.acquire(&claiming("idle").on_uncertain(OnUncertain::Hold).build().expect("valid")).await;
    fixture.complete(&grants[0], succeeded("x")).await;
    fixture.store.release(&Release::new(grants[1].lease.clone())).await.expect("released");
    fixture.complete(&grants[3], End::Unknown(None)).await;
    let all = ["succeeded", "released", "lapsed", "unknown", "held", "idle"];
    let age_all = async |by: Span| {
        for key in all {
            fixture.age(&identity(key), by).await;
        }
    };
    let purge = async || fixture.store.purge(LIMIT).await.expect("purged").rows();

    assert_eq!(purge().await, 0, "P1, P2");
    age_all(secs(86_401)).await;
    assert_eq!(purge().await, 0, "P7: the quarantine of free records");
    age_all(secs(3_600)).await;
    assert_eq!(purge().await, 3, "succeeded, released, and idle, where nothing ran");
    assert_eq!(fixture.rows().await, 3, "P5: lapsed, unknown and held are evidence");
    for key in ["lapsed", "unknown", "held"] {
        fixture.age(&identity(key), secs(10_000)).await;
    }
    assert_eq!(purge().await, 2, "past the evidence time");
    assert!(matches!(fixture.claim(&claim("held")).await, Claimed::Uncertain(_)), "held until somebody decides");
}

async fn p1_a_lease_that_runs_is_never_purged(fixture: Fixture) {
    let grant = fixture.acquire(&claim("k")).await;
    fixture.age(&identity("k"), secs(100 * 86_400)).await;
    fixture.store.renew(&Renew::new(grant.lease.clone())).await.expect("renewed");
    assert_eq!(fixture.store.purge(LIMIT).await.map(|purged| purged.rows()).ok(), Some(0));
    assert_eq!(fixture.complete(&grant, succeeded("x")).await, Completed::Stored);
}

async fn p3_at_most_the_limit_and_a_true_count(fixture: Fixture) {
    let rules = Rules { remember: Some(secs(50_000)), ..Rules::default() };
    let fixture = fixture.with(|builder| builder.rules(rules)).await;
    for number in 0..10 {
        let key = format!("k{number}");
        let grant = fixture.acquire(&claim(&key)).await;
        fixture.complete(&grant, succeeded("x")).await;
        // Five to forget, five to remember without their response.
        fixture.age(&identity(&key), secs(if number < 5 { 300_000 } else { 90_000 })).await;
    }
    let purge = async |limit: u32| fixture.store.purge(NonZeroU32::new(limit).expect("above 0")).await.expect("purged");
    let (a, b, c) = (purge(3).await, purge(4).await, purge(100).await);
    assert_eq!((a.deleted, a.dropped), (3, 0));
    assert_eq!((b.deleted, b.dropped), (2, 2), "the limit bounds both together");
    assert_eq!((c.deleted, c.dropped), (0, 3));
    assert_eq!(fixture.rows().await, 5);
}

async fn keys_are_compared_byte_for_byte(fixture: Fixture) {
    let keys =
        ["k", "K", "k ", " k", "k\t", "é", "e\u{301}", "ß", "ss", "SS", "%", "_", "'; --", "1", "01", "1.0", "🦀"];
    for key in keys {
        fixture.acquire(&claim(key)).await;
    }
    let longest = "é".repeat(127) + "x";
    fixture.acquire(&claim(&longest)).await;
    assert!(matches!(fixture.claim(&claim(&longest)).await, Claimed::InFlight { .. }));
    assert_eq!(fixture.rows().await, keys.len() as i64 + 1);
    let scopes = ["a", "A", "a/b"].map(|scope| idem_core::Scope::new(scope).expect("valid"));
    for scope in scopes {
        let same_key = idem_core::Identity::new(scope, idem_core::Key::new("k").expect("valid"));
        let asked = idem_core::Claim::builder(same_key, operation(), fingerprint("a")).build().expect("valid");
        assert!(matches!(fixture.claim(&asked).await, Claimed::Acquired(_)));
    }
}
