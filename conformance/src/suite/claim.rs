//! CLAIM: who runs an operation, and who is told what.

mod uncertain;

use std::time::Instant;

use idem_core::{Fence, Lease, OnUncertain, Owner, Span, State};

use crate::rules::{Profile, Rule, run};
use crate::trial::{LEASE, MARGIN, Outcome, RETENTION, Stage, Stop, Trial, built, ensure, ensure_eq, minus, plus};

const CORE: Rule = Rule::of(Profile::Core);

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "CLAIM-001",
        slug: "first_claim_is_acquired",
        clause: "C1",
        text: "The first claim of an absent identity is Acquired as attempt 1, and an independent read shows it PROCESSING.",
        why: "Without the record nobody else can know that the operation runs.",
        check: run!(first_claim),
        ..CORE
    },
    Rule {
        id: "CLAIM-002",
        slug: "second_claim_is_in_flight",
        clause: "C5",
        text: "A claim during a running lease is InFlight, and changes nothing: fence, lease end and fingerprint stay.",
        why: "A second grant runs the effect twice.",
        check: run!(second_claim),
        ..CORE
    },
    Rule {
        id: "CLAIM-003",
        slug: "finished_is_replayed_until_retention_ends",
        clause: "C4",
        text: "A claim of a finished identity is Replay until its retention ends, however often.",
        why: "A retry that arrives late still must not run the effect again.",
        check: run!(finished_is_replayed),
        ..CORE
    },
    Rule {
        id: "CLAIM-004",
        slug: "other_request_is_mismatch",
        clause: "C2",
        text: "Another fingerprint is Mismatch while PROCESSING, lapsed, UNKNOWN, SUCCEEDED, FAILED and SPENT, and changes nothing.",
        why: "A key that is used for two requests answers one of them with the other's response.",
        check: run!(other_request),
        ..CORE
    },
    Rule {
        id: "CLAIM-005",
        slug: "refused_claim_never_lengthens_lease",
        clause: "C5",
        text: "A refused claim never lengthens the lease, whatever lease it asks for.",
        why: "Impatient clients would keep a dead owner's key locked for ever.",
        check: run!(refused_claim_lengthens_nothing),
        ..CORE
    },
    Rule {
        id: "CLAIM-006",
        slug: "owner_with_new_token_is_in_flight",
        clause: "C5",
        text: "The same worker claiming again with a new token is InFlight.",
        why: "A worker that runs two requests at once is still two attempts: the token names the attempt, never the worker.",
        check: run!(owner_with_new_token),
        ..CORE
    },
    Rule {
        id: "CLAIM-007",
        slug: "retry_after_is_within_the_lease",
        clause: "C5",
        text: "`retry_after` is above zero and at most what is left of the lease.",
        why: "Zero makes clients spin; more than is left makes them wait for nothing.",
        check: run!(retry_after),
        ..CORE
    },
    Rule {
        id: "CLAIM-008",
        slug: "grant_is_seen_by_another_handle",
        clause: "C10",
        text: "Acquired is answered only after commit: a second handle sees it at once.",
        why: "A grant that is not committed can vanish after its work began.",
        check: run!(grant_is_committed),
        ..Rule::of(Profile::Shared)
    },
    Rule {
        id: "CLAIM-009",
        slug: "lease_is_good_for_its_own_identity",
        clause: "X1",
        text: "A lease is good for its own identity, token and fence only.",
        why: "A mixed-up lease would end somebody else's operation.",
        check: run!(foreign_lease),
        ..CORE
    },
    Rule {
        id: "CLAIM-010",
        slug: "same_token_is_the_same_grant",
        clause: "C3",
        text: "The same token again, while PROCESSING, is Acquired with the same fence and attempt, and never shortens the lease.",
        why: "A claim whose reply was lost has to be repeatable, without a second grant and without locking its owner out.",
        check: run!(same_token),
        ..CORE
    },
    Rule {
        id: "CLAIM-011",
        slug: "unknown_follows_on_uncertain",
        clause: "C6, C7",
        text: "UNKNOWN follows `on_uncertain`: exactly one next attempt, or Uncertain; past `within`, Uncertain.",
        why: "What may have happened must not happen again unless the outside world refuses a second time.",
        check: run!(uncertain::unknown_follows_policy),
        ..CORE
    },
    Rule {
        id: "CLAIM-012",
        slug: "over_age_is_absent_without_purge",
        clause: "C1, P5",
        text: "Over-age finished and released records behave as absent although purge never ran; lapsed and UNKNOWN ones never do.",
        why: "Behaviour must not depend on when a cleaner runs, and evidence must not age away.",
        check: run!(over_age),
        ..CORE
    },
    Rule {
        id: "CLAIM-013",
        slug: "late_duplicate_grants_nothing",
        clause: "C13",
        text: "An old claim that arrives again grants nothing after completion and after takeover; after release it revives no old lease.",
        why: "Networks deliver late and twice.",
        check: run!(late_duplicate),
        ..CORE
    },
    Rule {
        id: "CLAIM-014",
        slug: "unannounced_attempt_is_taken_over_under_hold",
        clause: "C14",
        text: "Under Hold, a lapsed attempt that never announced itself is taken over; one that did is held.",
        why: "An attempt that never began needs no person to decide about it.",
        check: run!(uncertain::unannounced_attempt),
        ..CORE
    },
    Rule {
        id: "CLAIM-015",
        slug: "record_keeps_its_policy",
        clause: "C15",
        text: "A record claimed with Hold is held for every later claimant, until a resolving claim takes it over and fences its owner.",
        why: "A later deployment's laxer policy must not run again what was promised to be held.",
        check: run!(uncertain::record_keeps_its_policy),
        ..CORE
    },
];

async fn first_claim(t: &Trial) -> Outcome {
    t.reads_independently().await?;
    let store = t.store().await?;
    let identity = t.identity()?;
    ensure_eq!(t.read(&identity).await?, None, "an independent read before the first claim");
    let owner = Owner::new("worker-1").map_err(|error| Stop::Error(error.to_string()))?;
    let claim = built(t.claim(&identity)?.owner(owner.clone()))?;
    let began = Instant::now();
    let grant = store.acquire(&claim, "of an absent identity").await?;
    let took = began.elapsed();
    ensure_eq!(grant.lease.attempt, 1, "the first attempt's number");
    ensure_eq!(grant.lease.length, LEASE, "the length of the granted lease");
    ensure_eq!(grant.previous, None, "how the attempt before the first ended");
    ensure_eq!(grant.checkpoint, None, "the checkpoint before the first attempt");

    let record = t.record(&identity).await?;
    ensure_eq!(record.state, State::Processing, "the state after the grant");
    ensure_eq!(record.identity, identity, "the identity in the record");
    ensure_eq!(record.operation, *claim.operation(), "the operation in the record");
    ensure_eq!(record.fingerprint, *claim.fingerprint(), "the fingerprint in the record");
    ensure_eq!(record.token, claim.token(), "the token in the record");
    ensure_eq!(record.fence, grant.lease.fence, "the fence in the record");
    ensure_eq!(record.attempt, 1, "the attempt in the record");
    ensure_eq!(record.owner, Some(owner), "the owner in the record");
    ensure_eq!(record.on_uncertain, claim.on_uncertain(), "the policy in the record");
    ensure_eq!(record.recorded, None, "the response in the record");
    t.lasts(&record, LEASE, took)?;
    let retention = record.expires_at.since(record.created_at);
    ensure!(
        retention.abs_diff(RETENTION.as_duration()) < t.declaration().resolution.as_duration(),
        "the retention in the record is {retention:?}, expected {RETENTION:?}"
    );
    Ok(())
}

async fn second_claim(t: &Trial) -> Outcome {
    let store = t.store().await?;
    let (identity, grant) = t.staged(Stage::Processing).await?;
    let before = t.record(&identity).await?;
    ensure_eq!(before.fence, grant.lease.fence, "the fence in the record");
    for _ in 0..3 {
        store.in_flight(&t.usual(&identity)?, "during a running lease").await?;
        t.unchanged(&before, "a claim during a running lease").await?;
    }
    Ok(())
}

async fn finished_is_replayed(t: &Trial) -> Outcome {
    let store = t.store().await?;
    for stage in [Stage::Succeeded, Stage::Failed] {
        let (identity, _) = t.staged(stage).await?;
        let before = t.record(&identity).await?;
        for _ in 0..3 {
            let replay = store.replay(&t.usual(&identity)?, "of a finished identity").await?;
            ensure_eq!(Some(&replay.recorded), before.recorded.as_ref(), "the replayed response");
        }
        t.unchanged(&before, "a claim of a finished identity").await?;
        t.age(&identity, minus(RETENTION, MARGIN)).await?;
        store.replay(&t.usual(&identity)?, "shortly before retention ends").await?;
        t.age(&identity, plus(MARGIN, MARGIN)).await?;
        store.acquire(&t.usual(&identity)?, "after retention has ended").await?;
    }
    Ok(())
}

async fn other_request(t: &Trial) -> Outcome {
    let store = t.store_keeping(super::spent::remembering()).await?;
    for stage in Stage::KEPT.into_iter().chain([Stage::OverAge]) {
        let (identity, grant) = t.staged(stage).await?;
        let before = t.record(&identity).await?;
        let when = format!("for another request, of a record that is {stage:?}");
        store.mismatch(&t.other_request(&identity)?, &when).await?;
        let held = t.claim_for(&identity, "another request")?.on_uncertain(OnUncertain::Hold);
        store.mismatch(&built(held)?, &when).await?;
        let same_token = t.claim_for(&identity, "another request")?.token(grant.lease.token);
        store.mismatch(&built(same_token)?, &when).await?;
        t.unchanged(&before, "a claim for another request").await?;
    }
    Ok(())
}

async fn refused_claim_lengthens_nothing(t: &Trial) -> Outcome {
    let store = t.store().await?;
    let (identity, _) = t.staged(Stage::Processing).await?;
    let before = t.record(&identity).await?;
    let greedy = || built(t.claim(&identity)?.lease(RETENTION));
    store.in_flight(&greedy()?, "with a longer lease, during a running one").await?;
    t.unchanged(&before, "a refused claim").await?;
    t.age(&identity, minus(LEASE, MARGIN)).await?;
    store.in_flight(&greedy()?, "with a longer lease, at the end of a running one").await?;
    t.age(&identity, plus(MARGIN, MARGIN)).await?;
    store.acquire(&t.usual(&identity)?, "after the lease has ended").await?;
    Ok(())
}

async fn owner_with_new_token(t: &Trial) -> Outcome {
    let store = t.store().await?;
    let identity = t.identity()?;
    let owner = Owner::new("worker-1").map_err(|error| Stop::Error(error.to_string()))?;
    let claim = || built(t.claim(&identity)?.owner(owner.clone()));
    store.acquire(&claim()?, "of an absent identity").await?;
    let before = t.record(&identity).await?;
    store.in_flight(&claim()?, "by the same worker with a new token").await?;
    t.unchanged(&before, "a second claim by the same worker").await
}

async fn retry_after(t: &Trial) -> Outcome {
    let store = t.store().await?;
    let (identity, _) = t.staged(Stage::Processing).await?;
    for left in [LEASE, MARGIN] {
        t.age(&identity, minus(LEASE, left)).await?;
        let retry_after = store.in_flight(&t.usual(&identity)?, "during a running lease").await?;
        ensure!(!retry_after.is_zero(), "`retry_after` is zero");
        let left = left.as_duration() + t.declaration().resolution.as_duration();
        ensure!(retry_after <= left, "`retry_after` is {retry_after:?}, although only {left:?} of the lease is left");
    }
    Ok(())
}

async fn grant_is_committed(t: &Trial) -> Outcome {
    let (first, second) = (t.store().await?, t.second().await?);
    for _ in 0..8 {
        let identity = t.identity()?;
        let grant = first.acquire(&t.usual(&identity)?, "of an absent identity").await?;
        let seen = second.get(&identity).await?.map(|record| record.fence);
        ensure_eq!(seen, Some(grant.lease.fence), "the fence that a second handle sees right after the grant");
        second.in_flight(&t.usual(&identity)?, "through a second handle, right after the grant").await?;
    }
    Ok(())
}

async fn foreign_lease(t: &Trial) -> Outcome {
    let store = t.store().await?;
    let ((_, one), (identity, other)) = (t.staged(Stage::Processing).await?, t.staged(Stage::Processing).await?);
    let before = t.record(&identity).await?;
    let (a, b) = (&one.lease, &other.lease);
    for (what, token, fence) in [
        ("another identity's lease", a.token, a.fence),
        // Two identities may have the same fence, so another one is made up.
        ("the right token with another fence", b.token, Fence::new(b.fence.get() + 1)),
        ("the right fence with another token", a.token, b.fence),
    ] {
        let forged = Lease { identity: identity.clone(), token, fence, attempt: b.attempt, length: b.length };
        super::fence::refused_everywhere(t, &store, &forged, what).await?;
        t.unchanged(&before, what).await?;
    }
    store.store_end(b, t.succeeded()).await
}

async fn same_token(t: &Trial) -> Outcome {
    let store = t.store().await?;
    for on_uncertain in [None, Some(OnUncertain::Hold)] {
        let identity = t.identity()?;
        let builder =
            on_uncertain.into_iter().fold(t.claim(&identity)?, |builder, policy| builder.on_uncertain(policy));
        let claim = built(builder.clone())?;
        // `build` keeps the builder's token, so every one of these names the same attempt.
        let again = |lease| built(builder.clone().lease(lease));
        let first = store.acquire(&claim, "of an absent identity").await?;
        let before = t.record(&identity).await?;

        let short = store.acquire(&again(MARGIN)?, "with the same token and a shorter lease").await?;
        t.same_grant(&first.lease, &short.lease)?;
        t.unchanged(&before, "the same claim with a shorter lease").await?;

        let long = store.acquire(&again(RETENTION)?, "with the same token and a longer lease").await?;
        t.same_grant(&first.lease, &long.lease)?;
        let after = t.record(&identity).await?;
        ensure!(
            after.lease_until > before.lease_until,
            "the same claim with a longer lease did not lengthen the lease"
        );
        store.in_flight(&t.usual(&identity)?, "with another token").await?;

        t.age(&identity, plus(RETENTION, MARGIN)).await?;
        let late = store.acquire(&claim, "with the same token, of its own lapsed attempt").await?;
        t.same_grant(&first.lease, &late.lease)?;
        ensure!(t.record(&identity).await?.history.is_empty(), "the same claim again was recorded as another attempt");
        store.store_end(&first.lease, t.succeeded()).await?;
    }
    Ok(())
}

impl Trial {
    fn same_grant(&self, first: &Lease, again: &Lease) -> Outcome {
        ensure_eq!(again.fence, first.fence, "the fence of the same claim again");
        ensure_eq!(again.attempt, first.attempt, "the attempt of the same claim again");
        Ok(())
    }
}

async fn over_age(t: &Trial) -> Outcome {
    let store = t.store().await?;
    for stage in [Stage::Succeeded, Stage::Failed, Stage::Released] {
        let (identity, old) = t.staged(stage).await?;
        t.age(&identity, plus(RETENTION, MARGIN)).await?;
        ensure_eq!(store.get(&identity).await?, None, "what `get` shows of a record over age ({stage:?})");
        let grant = store.acquire(&t.other_request(&identity)?, "of a record over age, for another request").await?;
        ensure_eq!(grant.lease.attempt, 1, "the attempt that begins a new life");
        ensure_eq!(grant.previous, None, "the attempt before a new life");
        ensure!(grant.lease.fence > old.lease.fence, "a new life's fence is not above the old one's");
        let record = t.record(&identity).await?;
        ensure!(record.recorded.is_none() && record.history.is_empty(), "a new life began with the old one's response");
    }
    let years = Span::saturating_secs(3 * 365 * 86_400);
    for stage in [Stage::Lapsed, Stage::Unknown] {
        let (identity, old) = t.staged(stage).await?;
        t.age(&identity, years).await?;
        let when = format!("of a record that has been {stage:?} for three years");
        store.mismatch(&t.other_request(&identity)?, &when).await?;
        let grant = store.acquire(&t.usual(&identity)?, &when).await?;
        ensure_eq!(grant.lease.attempt, 2, "the next attempt, however old the record is");
        ensure!(grant.lease.fence > old.lease.fence, "the next attempt's fence is not above the old one's");
    }
    Ok(())
}

async fn late_duplicate(t: &Trial) -> Outcome {
    let store = t.store().await?;
    let identity = t.identity()?;
    let claim = t.usual(&identity)?;
    let grant = store.acquire(&claim, "of an absent identity").await?;
    store.store_end(&grant.lease, t.succeeded()).await?;
    let before = t.record(&identity).await?;
    store.replay(&claim, "that is a late duplicate of the finished attempt's").await?;
    t.unchanged(&before, "a late duplicate after completion").await?;

    let identity = t.identity()?;
    let claim = t.usual(&identity)?;
    store.acquire(&claim, "of an absent identity").await?;
    t.age(&identity, plus(LEASE, MARGIN)).await?;
    store.acquire(&t.usual(&identity)?, "of a lapsed record").await?;
    let before = t.record(&identity).await?;
    store.in_flight(&claim, "that is a late duplicate of the attempt that was taken over").await?;
    t.unchanged(&before, "a late duplicate after a takeover").await?;

    let identity = t.identity()?;
    let claim = t.usual(&identity)?;
    let old = store.acquire(&claim, "of an absent identity").await?;
    store.give_back(&old.lease).await?;
    let new = store.acquire(&claim, "of a released identity").await?;
    ensure!(new.lease.fence > old.lease.fence, "after release, the same claim gave the old fence again");
    let before = t.record(&identity).await?;
    super::fence::refused_everywhere(t, &store, &old.lease, "the released lease").await?;
    t.unchanged(&before, "the released lease").await
}
