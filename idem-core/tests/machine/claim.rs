//! C1 to C8, C13 to C15.

use std::time::Duration;

use idem_core::{
    Claimed, ErrorKind, Final, HowEnded, OnUncertain, Released, Renewed, Replay, Span, Spent, State, StoreTime, machine,
};

use crate::bench::{Bench, FIRST, Is, LEASE, OTHER_REQUEST, REQUEST, RETENTION, TAKE_OVER, WITHIN, response};

const SECOND: u8 = 2;
const THIRD: u8 = 3;

#[tokio::test]
async fn c1_what_is_free_begins_a_new_life() {
    for is in [Is::Absent, Is::Released, Is::OverAge] {
        for request in [REQUEST, OTHER_REQUEST] {
            let (bench, old) = Bench::that_is(is, TAKE_OVER).await;
            let grant = bench.acquire(bench.asking_for(request, SECOND)).await;
            assert_eq!((grant.lease.attempt, &grant.previous, &grant.checkpoint), (1, &None, &None), "{is:?}");
            assert!(old.is_none_or(|old| old.fence < grant.lease.fence), "{is:?}");
            let row = bench.row().unwrap();
            assert_eq!((row.state, row.fingerprint.as_bytes()[0]), (State::Processing, request), "{is:?}");
            assert_eq!((row.token, row.recorded, row.history.len()), (grant.lease.token, None, 0), "{is:?}");
        }
    }
}

#[tokio::test]
async fn c2_another_request_is_a_mismatch_and_changes_nothing() {
    for is in [Is::Running, Is::Lapsed, Is::Unknown, Is::Succeeded, Is::Failed, Is::Spent] {
        for token in [FIRST, SECOND] {
            let (bench, _) = Bench::that_is(is, TAKE_OVER).await;
            let before = bench.row();
            assert_eq!(bench.claim(bench.asking_for(OTHER_REQUEST, token)).await, Claimed::Mismatch, "{is:?}");
            assert_eq!(bench.row(), before, "{is:?}");
        }
    }
}

#[tokio::test]
async fn c3_our_own_claim_again_is_the_same_grant() {
    for is in [Is::Running, Is::Lapsed] {
        for on_uncertain in [TAKE_OVER, OnUncertain::Hold] {
            let (bench, lease) = Bench::that_is(is, on_uncertain).await;
            let before = bench.row().unwrap();
            let grant = bench.acquire(bench.asking(FIRST).on_uncertain(on_uncertain)).await;
            assert_eq!(Some(grant.lease), lease, "{is:?}");
            let after = bench.row().unwrap();
            assert!(after.lease_until >= before.lease_until);
            assert_eq!(is == Is::Lapsed, after.lease_until.since(before.lease_until) >= Duration::from_secs(LEASE));
        }
    }
}

#[tokio::test]
async fn c3_a_late_repeat_cuts_no_lease() {
    let (bench, _) = Bench::that_is(Is::Running, TAKE_OVER).await;
    let before = bench.row().unwrap();
    bench.acquire(bench.asking(FIRST).lease(Span::MIN)).await;
    assert_eq!(bench.row().unwrap(), before);
}

#[tokio::test]
async fn c4_what_is_finished_is_replayed() {
    for (is, end, code) in [(Is::Succeeded, Final::Succeeded, 200), (Is::Failed, Final::Failed, 402)] {
        for token in [FIRST, SECOND] {
            let (bench, _) = Bench::that_is(is, TAKE_OVER).await;
            let before = bench.row();
            let replay = Claimed::Replay(Replay { end, recorded: response(code) });
            assert_eq!(bench.claim(bench.asking(token)).await, replay);
            bench.age(RETENTION - 1);
            assert_eq!(bench.claim(bench.asking(token)).await, replay);
            assert_eq!(bench.row().map(|row| row.token), before.map(|row| row.token));
        }
    }
}

#[tokio::test]
async fn c5_a_running_lease_is_waited_for_and_not_lengthened() {
    for on_uncertain in [TAKE_OVER, OnUncertain::Hold] {
        let (bench, _) = Bench::that_is(Is::Running, on_uncertain).await;
        bench.age(LEASE - 2);
        let before = bench.row();
        let Claimed::InFlight { retry_after } = bench.claim(bench.asking(SECOND)).await else {
            panic!("not in flight")
        };
        assert!(!retry_after.is_zero() && retry_after <= Duration::from_secs(2), "{retry_after:?}");
        assert_eq!(bench.row(), before);
    }
}

#[tokio::test]
async fn c6_the_uncertain_is_taken_over_once() {
    for (is, how) in [(Is::Lapsed, HowEnded::Lapsed), (Is::Unknown, HowEnded::Unknown)] {
        let (bench, old) = Bench::that_is(is, TAKE_OVER).await;
        let grant = bench.acquire(bench.asking(SECOND)).await;
        assert_eq!(grant.lease.attempt, 2);
        assert!(grant.lease.fence > old.unwrap().fence);
        assert_eq!(grant.previous.map(|past| (past.attempt, past.how)), Some((1, how)));
        assert!(matches!(bench.claim(bench.asking(THIRD)).await, Claimed::InFlight { .. }));
    }
}

#[tokio::test]
async fn c6_within_is_the_shorter_of_both() {
    let longer = OnUncertain::TakeOver { within: Span::saturating_secs(2 * WITHIN) };
    for (theirs, ours) in [(TAKE_OVER, longer), (longer, TAKE_OVER)] {
        for (age, taken) in [(WITHIN - 1, true), (WITHIN, false)] {
            let (bench, _) = Bench::that_is(Is::Unknown, theirs).await;
            bench.age(age);
            let answer = bench.claim(bench.asking(SECOND).on_uncertain(ours)).await;
            assert_eq!(matches!(answer, Claimed::Acquired(_)), taken, "{age} s");
        }
    }
}

#[tokio::test]
async fn c7_the_uncertain_is_held_otherwise() {
    for is in [Is::Lapsed, Is::Unknown] {
        for (theirs, ours, age) in [
            (OnUncertain::Hold, OnUncertain::Hold, 0),
            (OnUncertain::Hold, TAKE_OVER, 0),
            (TAKE_OVER, OnUncertain::Hold, 0),
            (TAKE_OVER, TAKE_OVER, WITHIN),
        ] {
            let (bench, _) = Bench::that_is(is, theirs).await;
            bench.age(age.max(1));
            let before = bench.row().unwrap();
            let Claimed::Uncertain(uncertain) = bench.claim(bench.asking(SECOND).on_uncertain(ours)).await else {
                panic!("not held: {is:?}, {theirs:?}, {ours:?}")
            };
            assert_eq!(uncertain.attempt, 1);
            assert_eq!(uncertain.since, before.ended_at.unwrap_or(before.lease_until));
            assert_eq!(uncertain.evidence, (is == Is::Unknown).then(|| response(500)));
            assert_eq!(bench.row(), Some(before));
        }
    }
}

#[tokio::test]
async fn c8_what_is_remembered_is_spent() {
    let (bench, _) = Bench::that_is(Is::Spent, TAKE_OVER).await;
    let before = bench.row();
    let spent = Claimed::Spent(Spent { end: Final::Succeeded, code: 200 });
    assert_eq!(bench.claim(bench.asking(SECOND)).await, spent);
    assert_eq!(bench.row(), before);
}

#[tokio::test]
async fn c13_a_rewrite_stands_only_on_what_was_seen_and_by_its_own_clock() {
    let (bench, lease) = Bench::that_is(Is::Lapsed, TAKE_OVER).await;
    let (seen, rules) = (bench.row().unwrap(), machine::Rules::default());
    let claim = bench.asking(SECOND).build().unwrap();
    let stands =
        |row, now| machine::stands(machine::Rewrite::TakeOver, &machine::Seen::of(&seen), row, &claim, now, &rules);
    let lapsed = seen.lease_until;
    assert!(stands(&seen, lapsed));
    assert!(!stands(&seen, StoreTime::from_micros(lapsed.as_micros() - 1)), "the clock stepped back");
    assert!(!stands(&seen, seen.created_at.plus(Span::saturating_secs(WITHIN))), "past within");
    assert_eq!(bench.renew(&lease.unwrap()).await, Renewed::Held);
    let renewed = bench.row().unwrap();
    assert!(!stands(&renewed, renewed.lease_until), "renewed since, although it has lapsed again");
}

#[tokio::test]
async fn c14_a_lapsed_attempt_that_never_began_is_taken_over_under_hold() {
    for (begins, taken) in [(false, true), (true, false)] {
        let (bench, lease) = Bench::that_is(Is::Running, OnUncertain::Hold).await;
        if begins {
            assert_eq!(bench.renew(&lease.unwrap()).await, Renewed::Held);
        }
        bench.age(LEASE + 1);
        let answer = bench.claim(bench.asking(SECOND).on_uncertain(OnUncertain::Hold)).await;
        assert_eq!(matches!(answer, Claimed::Acquired(_)), taken);
    }
}

#[tokio::test]
async fn c15_a_retention_below_the_lease_is_refused() {
    let builder = Bench::new().asking(FIRST).retention(Span::saturating_secs(LEASE - 1));
    assert_eq!(builder.build().unwrap_err().kind(), ErrorKind::InvalidInput);
}

#[tokio::test]
async fn c15_only_a_resolver_takes_over_what_is_held() {
    for is in [Is::Lapsed, Is::Unknown] {
        let (bench, old) = Bench::that_is(is, OnUncertain::Hold).await;
        let grant = bench.acquire(bench.asking(SECOND).resolving()).await;
        assert_eq!(grant.lease.attempt, 2);
        assert_eq!(bench.renew(&old.unwrap()).await, Renewed::Lost, "its owner is fenced");
        assert_eq!(bench.release(&grant.lease).await, Released::Released);
        assert!(matches!(bench.claim(bench.asking(THIRD)).await, Claimed::Uncertain(_)), "and it stays held");
    }
    let (bench, _) = Bench::that_is(Is::Running, OnUncertain::Hold).await;
    assert!(matches!(bench.claim(bench.asking(SECOND).resolving()).await, Claimed::InFlight { .. }));
}
