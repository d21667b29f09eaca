//! LEASE: how long an attempt owns its identity.

use std::sync::Arc;
use std::time::Instant;

use futures::future::join_all;
use idem_core::{Claim, Claimed, ErrorKind, HowEnded, Renew, Span, State};
use tokio::sync::Barrier;

use crate::rules::{Profile, Rule, run};
use crate::trial::{
    Handle, LEASE, MARGIN, Outcome, RETENTION, Stage, Stop, Trial, built, ensure, ensure_eq, minus, plus,
};

const CORE: Rule = Rule::of(Profile::Core);

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "LEASE-001",
        slug: "running_lease_is_not_taken_over",
        clause: "C5",
        text: "Shortly before its lease ends, a record is still InFlight.",
        why: "Taking over a living owner runs the effect twice.",
        check: run!(before_the_end),
        ..CORE
    },
    Rule {
        id: "LEASE-002",
        slug: "lapsed_lease_is_taken_over",
        clause: "C6",
        text: "Shortly after its lease has ended, a record is Acquired as the next attempt, with a greater fence.",
        why: "A crashed owner would lock its key for ever.",
        check: run!(after_the_end),
        ..CORE
    },
    Rule {
        id: "LEASE-003",
        slug: "one_contender_takes_over",
        clause: "C6, C9",
        text: "Of many simultaneous contenders for a lapsed lease exactly one wins; the others are InFlight.",
        why: "A takeover that does not check again when it writes has two winners.",
        check: run!(contenders),
        ..CORE
    },
    Rule {
        id: "LEASE-004",
        slug: "expiry_frees_no_finished_record",
        clause: "C4",
        text: "The end of the lease frees no finished record, and changes none.",
        why: "One time for lock and answer makes the retry after the lease run again.",
        check: run!(expiry_of_finished),
        ..CORE
    },
    Rule {
        id: "LEASE-005",
        slug: "resolution_is_honoured",
        clause: "T2",
        text: "A lease ends when it was asked to, to the declared resolution.",
        why: "Seconds read as milliseconds, or cut to whole seconds, end leases under their owners.",
        check: run!(resolution),
        ..CORE
    },
    Rule {
        id: "LEASE-006",
        slug: "impossible_durations_are_refused",
        clause: "T4, C15",
        text: "Zero, overflowing and contradictory durations are typed refusals; the longest lease is one that runs.",
        why: "A lease that overflows lies in the past, and everybody takes it over.",
        check: run!(durations),
        ..CORE
    },
    Rule {
        id: "LEASE-007",
        slug: "dead_owner_leaves_a_claimable_identity",
        clause: "C6, X2",
        text: "An owner that goes away with its handle leaves an identity that can be claimed once the lease is over.",
        why: "A lock that outlives its client, or its session, needs a person to free it.",
        check: run!(dead_owner),
        ..CORE
    },
    Rule {
        id: "LEASE-008",
        slug: "lapsed_and_held_is_uncertain",
        clause: "C7, P5",
        text: "Lapsed under Hold is Uncertain with attempt, since and checkpoint; nothing changes, and no age frees it.",
        why: "Hold is for effects that nobody may repeat without looking.",
        check: run!(lapsed_and_held),
        ..CORE
    },
];

async fn before_the_end(t: &Trial) -> Outcome {
    let store = t.store().await?;
    let (identity, _) = t.staged(Stage::Processing).await?;
    t.age(&identity, minus(LEASE, MARGIN)).await?;
    let before = t.record(&identity).await?;
    store.in_flight(&t.usual(&identity)?, "shortly before the lease ends").await?;
    t.unchanged(&before, "a claim shortly before the lease ends").await
}

async fn after_the_end(t: &Trial) -> Outcome {
    let store = t.store().await?;
    let (identity, first) = t.staged(Stage::Processing).await?;
    t.age(&identity, plus(LEASE, MARGIN)).await?;
    let before = t.record(&identity).await?;
    let next = store.acquire(&t.usual(&identity)?, "shortly after the lease has ended").await?;
    ensure_eq!(next.lease.attempt, 2, "the number of the next attempt");
    ensure!(next.lease.fence > first.lease.fence, "the next attempt's fence is not above the first one's");
    ensure_eq!(next.previous.as_ref().map(|last| last.how), Some(HowEnded::Lapsed), "how the last attempt ended");
    let record = t.record(&identity).await?;
    ensure_eq!(record.token, next.lease.token, "the token in the record after the takeover");
    ensure_eq!(record.fence, next.lease.fence, "the fence in the record after the takeover");
    ensure_eq!(record.created_at, before.created_at, "when the record began, after the takeover");
    ensure_eq!(record.expires_at, before.expires_at, "the retention of the record, after the takeover");
    ensure!(record.lease_until > before.lease_until, "the takeover did not begin a new lease");
    Ok(())
}

/// How many contend at once.
const CONTENDERS: usize = 8;

/// Claims at once through these handles, in turn, behind a barrier; every answer is in the order of the claims.
pub(super) async fn at_once(handles: &[Handle], claims: Vec<Claim>) -> Result<Vec<Claimed>, Stop> {
    let barrier = Arc::new(Barrier::new(claims.len()));
    let tasks: Vec<_> = claims
        .into_iter()
        .enumerate()
        .map(|(number, claim)| {
            let (barrier, handle) = (Arc::clone(&barrier), handles[number % handles.len()].clone());
            tokio::spawn(async move {
                barrier.wait().await;
                handle.claim(&claim).await
            })
        })
        .collect();
    let mut answers = Vec::new();
    for ended in join_all(tasks).await {
        answers.push(ended.map_err(|error| Stop::Error(format!("a contender did not come back: {error}")))??);
    }
    Ok(answers)
}

/// All handles that contenders come through: two where the store is shared.
pub(super) async fn handles(t: &Trial) -> Result<Vec<Handle>, Stop> {
    let mut handles = vec![t.store().await?];
    if t.declaration().claims(Profile::Shared) {
        handles.push(t.second().await?);
    }
    Ok(handles)
}

async fn contenders(t: &Trial) -> Outcome {
    let handles = handles(t).await?;
    for _ in 0..4 {
        let (identity, first) = t.staged(Stage::Lapsed).await?;
        let claims: Result<Vec<_>, _> = (0..CONTENDERS).map(|_| t.usual(&identity)).collect();
        let answers = at_once(&handles, claims?).await?;
        let (won, lost): (Vec<_>, Vec<_>) =
            answers.into_iter().partition(|answer| matches!(answer, Claimed::Acquired(_)));
        ensure_eq!(won.len(), 1, "how many of {CONTENDERS} contenders took over one lapsed lease");
        ensure!(
            lost.iter().all(|answer| matches!(answer, Claimed::InFlight { .. })),
            "a contender that lost was not told InFlight: {lost:?}"
        );
        let record = t.record(&identity).await?;
        ensure_eq!(record.attempt, 2, "the attempt after one takeover");
        ensure!(record.fence > first.lease.fence, "the winner's fence is not above the first attempt's");
        let token = won.into_iter().find_map(|answer| match answer {
            Claimed::Acquired(grant) => Some(grant.lease.token),
            _ => None,
        });
        ensure_eq!(Some(record.token), token, "the token in the record, which has to be the winner's");
    }
    Ok(())
}

async fn expiry_of_finished(t: &Trial) -> Outcome {
    let store = t.store().await?;
    for stage in [Stage::Succeeded, Stage::Failed] {
        let (identity, _) = t.staged(stage).await?;
        t.age(&identity, plus(LEASE, MARGIN)).await?;
        let before = t.record(&identity).await?;
        store.replay(&t.usual(&identity)?, "of a finished record whose lease has ended").await?;
        store.mismatch(&t.other_request(&identity)?, "of a finished record whose lease has ended").await?;
        t.unchanged(&before, "a claim of a finished record whose lease has ended").await?;
    }
    Ok(())
}

async fn resolution(t: &Trial) -> Outcome {
    let store = t.store().await?;
    for micros in [61_000_000, 61_500_000, 61_123_000, 61_123_456, 3_599_999_999] {
        let lease = Span::micros(micros).map_err(|error| Stop::Error(error.to_string()))?;
        let identity = t.identity()?;
        let began = Instant::now();
        let grant = store.acquire(&built(t.claim(&identity)?.lease(lease))?, "of an absent identity").await?;
        t.lasts(&t.record(&identity).await?, lease, began.elapsed())?;
        ensure_eq!(grant.lease.length, lease, "the length of the granted lease");
    }
    Ok(())
}

async fn durations(t: &Trial) -> Outcome {
    let store = t.store().await?;
    let refused =
        |made: Result<Span, idem_core::Error>| made.is_err_and(|error| error.kind() == ErrorKind::InvalidInput);
    ensure!(refused(Span::micros(0)), "a duration of zero was taken");
    ensure!(refused(Span::micros(u64::MAX)), "a duration that overflows was taken");
    let identity = t.identity()?;
    let contradictory = t.claim(&identity)?.lease(RETENTION).retention(LEASE).build();
    ensure!(
        contradictory.is_err_and(|error| error.kind() == ErrorKind::InvalidInput),
        "a claim with a retention below its lease was taken"
    );

    let longest = || built(t.claim(&identity)?.lease(Span::MAX).retention(Span::MAX));
    let began = Instant::now();
    let grant = store.acquire(&longest()?, "with the longest lease").await?;
    t.lasts(&t.record(&identity).await?, Span::MAX, began.elapsed())?;
    store.in_flight(&t.usual(&identity)?, "during the longest lease").await?;
    store.hold(&Renew::new(grant.lease.clone()).lasting(Span::MAX)).await?;
    store.in_flight(&t.usual(&identity)?, "during the longest lease, renewed").await?;
    store.store_end(&grant.lease, t.succeeded()).await?;

    let shortest = t.identity()?;
    store.acquire(&built(t.claim(&shortest)?.lease(Span::MIN))?, "with the shortest lease").await?;
    let record = t.record(&shortest).await?;
    ensure!(record.lease_until >= record.claimed_at, "the shortest lease ends before it begins");
    Ok(())
}

async fn dead_owner(t: &Trial) -> Outcome {
    let identity = t.identity()?;
    let claim = t.usual(&identity)?;
    if t.declaration().claims(Profile::Shared) {
        let dying = t.second().await?;
        dying.acquire(&claim, "of an absent identity").await?;
        drop(dying);
    } else {
        t.store().await?.acquire(&claim, "of an absent identity").await?;
    }
    let store = t.store().await?;
    store.in_flight(&t.usual(&identity)?, "of an identity whose owner died, during its lease").await?;
    t.age(&identity, plus(LEASE, MARGIN)).await?;
    let next = store.acquire(&t.usual(&identity)?, "of an identity whose owner died, after its lease").await?;
    store.store_end(&next.lease, t.succeeded()).await?;
    store.replay(&t.usual(&identity)?, "of an identity that was finished by the second owner").await?;
    Ok(())
}

async fn lapsed_and_held(t: &Trial) -> Outcome {
    let store = t.store().await?;
    let identity = t.identity()?;
    let grant = store.acquire(&t.holding(&identity)?, "of an absent identity").await?;
    let marked = Renew::new(grant.lease).checkpoint(7, t.bytes(40)).map_err(|error| Stop::Error(error.to_string()))?;
    store.hold(&marked).await?;
    for by in [plus(LEASE, MARGIN), Span::saturating_secs(3 * 365 * 86_400)] {
        t.age(&identity, by).await?;
        let before = t.record(&identity).await?;
        ensure_eq!(before.state, State::Processing, "the state of a lapsed record");
        for claim in [t.holding(&identity)?, t.usual(&identity)?] {
            let uncertain = store.uncertain(&claim, "of a lapsed record under Hold").await?;
            ensure_eq!(uncertain.attempt, 1, "the attempt of a held record");
            ensure_eq!(uncertain.since, before.lease_until, "since when nothing is known: the end of the lease");
            ensure_eq!(uncertain.checkpoint.as_ref(), marked.checkpoint_left(), "the checkpoint of a held record");
            ensure_eq!(uncertain.evidence, None, "the evidence of an attempt that said nothing");
        }
        t.unchanged(&before, "a claim of a lapsed record under Hold").await?;
    }
    Ok(())
}
