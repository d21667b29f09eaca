//! FENCE: a stale owner changes nothing, and its number says that it is stale.

use std::collections::BTreeSet;

use idem_core::{Claimed, Completed, Lease, Release, Released, Renew, Renewed, Span};

use crate::rules::{Profile, Rule, run};
use crate::trial::{Handle, LEASE, MARGIN, Outcome, RETENTION, Stage, Stop, Trial, ensure, ensure_eq, plus};

const CORE: Rule = Rule::of(Profile::Core);

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "FENCE-001",
        slug: "fences_grow_in_real_time_order",
        clause: "fence",
        text: "The fences of one identity grow with every grant: after release, takeover, an unknown end and a new life.",
        why: "The caller's own tables refuse an older writer by this number.",
        check: run!(fences_grow),
        ..CORE
    },
    Rule {
        id: "FENCE-002",
        slug: "stale_complete_is_lost",
        clause: "F3, X1",
        text: "After a takeover the old owner's completion is Lost, and changes nothing.",
        why: "A paused owner that wakes would overwrite the new owner's record.",
        check: run!(stale_complete),
        ..CORE
    },
    Rule {
        id: "FENCE-003",
        slug: "stale_renew_is_lost",
        clause: "R1, R5, X1",
        text: "After a takeover the old owner's renewal is Lost, with a checkpoint and without one, and changes nothing.",
        why: "A stale heartbeat must not keep the new owner's lease, nor move its checkpoint.",
        check: run!(stale_renew),
        ..CORE
    },
    Rule {
        id: "FENCE-004",
        slug: "stale_release_is_lost",
        clause: "L1, X1",
        text: "After a takeover the old owner's release is Lost, and changes nothing.",
        why: "A stale unlock lets a third owner in beside the second.",
        check: run!(stale_release),
        ..CORE
    },
    Rule {
        id: "FENCE-005",
        slug: "stale_owner_after_the_end_is_lost",
        clause: "F3, R4, L3",
        text: "The old owner is Lost also after the new owner has finished, and the new owner's end stays.",
        why: "The answer that clients have read must not change.",
        check: run!(after_the_end),
        ..CORE
    },
    Rule {
        id: "FENCE-006",
        slug: "stale_owner_after_purge_is_lost",
        clause: "F3, P7",
        text: "The owner of a record that was purged is Lost, before the identity is claimed again and after; the new fence is greater.",
        why: "A completion that resurrects a purged row, or a fence that restarts, lets an older writer win.",
        check: run!(after_purge),
        ..Rule::of(Profile::Maintained)
    },
    Rule {
        id: "FENCE-007",
        slug: "no_two_grants_share_a_fence",
        clause: "fence, C9",
        text: "No two grants of one identity share a fence, however fast they follow and however many contend.",
        why: "Two writers with one number cannot be told apart.",
        check: run!(no_shared_fence),
        ..CORE
    },
];

/// Everything that a lease can be used for is Lost.
pub(super) async fn refused_everywhere(t: &Trial, store: &Handle, lease: &Lease, what: &str) -> Outcome {
    for end in [t.succeeded(), t.failed(), t.unknown()] {
        ensure_eq!(store.complete(lease, end).await?, Completed::Lost, "complete with {what}");
    }
    ensure_eq!(store.renew(&Renew::new(lease.clone())).await?, Renewed::Lost, "renew with {what}");
    let marked = marking(lease, 1_000_000)?;
    ensure_eq!(store.renew(&marked).await?, Renewed::Lost, "renew and leave a checkpoint with {what}");
    ensure_eq!(store.release(lease).await?, Released::Lost, "release with {what}");
    let every = Release::of_every_attempt(lease.clone());
    ensure_eq!(store.release_so(&every).await?, Released::Lost, "release of every attempt with {what}");
    Ok(())
}

/// A renewal that leaves a checkpoint with this number.
pub(super) fn marking(lease: &Lease, number: u64) -> Result<Renew, Stop> {
    Renew::new(lease.clone())
        .checkpoint(number, format!("step {number}"))
        .map_err(|error| Stop::Error(format!("the suite made a bad checkpoint: {error}")))
}

/// An identity that was taken over: the stale lease and the current one.
async fn taken_over(t: &Trial) -> Result<(Lease, Lease), Stop> {
    let (identity, old) = t.staged(Stage::Lapsed).await?;
    let store = t.store().await?;
    let new = store.acquire(&t.usual(&identity)?, "of a lapsed record").await?;
    Ok((old.lease, new.lease))
}

async fn fences_grow(t: &Trial) -> Outcome {
    let store = t.store().await?;
    let identity = t.identity()?;
    let mut fences = Vec::new();
    for stage in [Stage::Released, Stage::Lapsed, Stage::Unknown, Stage::OverAge, Stage::Released] {
        let claim = t.usual(&identity)?;
        let grant = store.acquire(&claim, &format!("before the record is {stage:?}")).await?;
        fences.push(grant.lease.fence);
        match stage {
            Stage::Released => store.give_back(&grant.lease).await?,
            Stage::Lapsed => t.age(&identity, plus(LEASE, MARGIN)).await?,
            Stage::Unknown => store.store_end(&grant.lease, t.unknown()).await?,
            _ => {
                store.store_end(&grant.lease, t.succeeded()).await?;
                t.age(&identity, plus(RETENTION, RETENTION)).await?;
            }
        }
    }
    ensure!(fences.windows(2).all(|pair| pair[0] < pair[1]), "the fences of one identity do not grow: {fences:?}");
    Ok(())
}

async fn stale_complete(t: &Trial) -> Outcome {
    let store = t.store().await?;
    let (stale, current) = taken_over(t).await?;
    let before = t.record(&stale.identity).await?;
    for end in [t.succeeded(), t.failed(), t.unknown()] {
        ensure_eq!(store.complete(&stale, end).await?, Completed::Lost, "the stale owner's completion");
        t.unchanged(&before, "the stale owner's completion").await?;
    }
    store.store_end(&current, t.succeeded()).await
}

async fn stale_renew(t: &Trial) -> Outcome {
    let store = t.store().await?;
    let (stale, current) = taken_over(t).await?;
    store.hold(&marking(&current, 3)?).await?;
    let before = t.record(&stale.identity).await?;
    for renew in [Renew::new(stale.clone()), Renew::new(stale.clone()).lasting(RETENTION), marking(&stale, 9)?] {
        ensure_eq!(store.renew(&renew).await?, Renewed::Lost, "the stale owner's renewal");
        t.unchanged(&before, "the stale owner's renewal").await?;
    }
    store.hold(&Renew::new(current)).await
}

async fn stale_release(t: &Trial) -> Outcome {
    let store = t.store().await?;
    let (stale, current) = taken_over(t).await?;
    let before = t.record(&stale.identity).await?;
    for release in [Release::new(stale.clone()), Release::of_every_attempt(stale.clone())] {
        ensure_eq!(store.release_so(&release).await?, Released::Lost, "the stale owner's release");
        t.unchanged(&before, "the stale owner's release").await?;
    }
    store.in_flight(&t.usual(&stale.identity)?, "after the stale owner's release").await?;
    store.hold(&Renew::new(current)).await
}

async fn after_the_end(t: &Trial) -> Outcome {
    let store = t.store().await?;
    for end in [t.succeeded(), t.failed(), t.unknown()] {
        let (stale, current) = taken_over(t).await?;
        store.store_end(&current, end).await?;
        let before = t.record(&stale.identity).await?;
        refused_everywhere(t, &store, &stale, "the stale owner's lease, after the new owner's end").await?;
        t.unchanged(&before, "the stale owner, after the new owner's end").await?;
    }
    Ok(())
}

async fn after_purge(t: &Trial) -> Outcome {
    let store = t.store().await?;
    let (identity, old) = t.staged(Stage::Succeeded).await?;
    t.age(&identity, super::purge::gone(RETENTION)).await?;
    store.purge_all(100).await?;
    ensure_eq!(t.read(&identity).await?, None, "the record after retention, quarantine and purge");
    refused_everywhere(t, &store, &old.lease, "the lease of a purged record").await?;
    ensure_eq!(t.read(&identity).await?, None, "the record that the lease of a purged one has created");

    let new = t.acquire(&identity).await?;
    ensure!(new.lease.fence > old.lease.fence, "after purge the fence begins anew, below an older writer's");
    let before = t.record(&identity).await?;
    refused_everywhere(t, &store, &old.lease, "the lease of an earlier life").await?;
    t.unchanged(&before, "the lease of an earlier life").await
}

async fn no_shared_fence(t: &Trial) -> Outcome {
    let handles = super::lease::handles(t).await?;
    let store = t.store().await?;
    let identity = t.identity()?;
    let mut fences = BTreeSet::new();
    for round in 0..24 {
        let claims: Result<Vec<_>, _> = (0..3).map(|_| t.usual(&identity)).collect();
        let grants: Vec<_> = super::lease::at_once(&handles, claims?)
            .await?
            .into_iter()
            .filter_map(|answer| match answer {
                Claimed::Acquired(grant) => Some(grant),
                _ => None,
            })
            .collect();
        for grant in &grants {
            ensure!(fences.insert(grant.lease.fence), "two grants of one identity have fence {:?}", grant.lease.fence);
        }
        ensure_eq!(grants.len(), 1, "how many of three simultaneous claims were granted");
        for grant in grants {
            match round % 3 {
                0 | 1 => store.give_back(&grant.lease).await?,
                _ => {
                    store.store_end(&grant.lease, t.succeeded()).await?;
                    t.age(&identity, Span::saturating_secs(2 * 86_400)).await?;
                }
            }
        }
    }
    Ok(())
}
