//! Claims of what may have happened.

use idem_core::{End, HowEnded, OnUncertain, Release, Renew, Renewed};

use crate::trial::{LEASE, MARGIN, Outcome, RETENTION, Stage, Trial, built, ensure, ensure_eq, plus};

pub(super) async fn unknown_follows_policy(t: &Trial) -> Outcome {
    let store = t.store().await?;
    let (identity, first) = t.staged(Stage::Unknown).await?;
    let next = store.acquire(&t.usual(&identity)?, "of an UNKNOWN record under TakeOver").await?;
    ensure_eq!(next.lease.attempt, 2, "the number of the next attempt");
    ensure!(next.lease.fence > first.lease.fence, "the next attempt's fence is not above the first one's");
    ensure_eq!(next.previous.map(|last| last.how), Some(HowEnded::Unknown), "how the last attempt ended");
    store.in_flight(&t.usual(&identity)?, "of a record that was just taken over").await?;

    let (identity, _) = t.staged_held(Stage::Unknown).await?;
    let before = t.record(&identity).await?;
    for claim in [t.holding(&identity)?, t.usual(&identity)?] {
        let uncertain = store.uncertain(&claim, "of an UNKNOWN record under Hold").await?;
        ensure_eq!(uncertain.evidence, before.recorded, "the evidence of the uncertain record");
        ensure_eq!(uncertain.attempt, 1, "the attempt of the uncertain record");
        t.unchanged(&before, "a claim of a held record").await?;
    }

    let within = plus(LEASE, RETENTION);
    let impatient = OnUncertain::TakeOver { within };
    for (theirs, ours) in [(Some(impatient), None), (None, Some(impatient))] {
        let identity = t.identity()?;
        let claim = |policy: Option<OnUncertain>| {
            built(policy.into_iter().fold(t.claim(&identity)?, |builder, policy| builder.on_uncertain(policy)))
        };
        let grant = store.acquire(&claim(theirs)?, "of an absent identity").await?;
        store.store_end(&grant.lease, End::Unknown(None)).await?;
        t.age(&identity, plus(within, MARGIN)).await?;
        let before = t.record(&identity).await?;
        store.uncertain(&claim(ours)?, "past `within` of the record's policy or the claimant's own").await?;
        t.unchanged(&before, "a claim past `within`").await?;
    }
    Ok(())
}

pub(super) async fn unannounced_attempt(t: &Trial) -> Outcome {
    let store = t.store().await?;
    let identity = t.identity()?;
    let silent = store.acquire(&t.holding(&identity)?, "of an absent identity").await?;
    store.in_flight(&t.holding(&identity)?, "of a running attempt that has not announced itself").await?;
    t.age(&identity, plus(LEASE, MARGIN)).await?;
    let next = store.acquire(&t.holding(&identity)?, "of a lapsed attempt that never announced itself").await?;
    ensure!(next.lease.fence > silent.lease.fence, "the takeover's fence is not above the silent attempt's");
    let late = store.renew(&Renew::new(silent.lease)).await?;
    ensure_eq!(late, Renewed::Lost, "the silent attempt announced itself after it was taken over");

    store.hold(&Renew::new(next.lease)).await?;
    t.age(&identity, plus(LEASE, MARGIN)).await?;
    let before = t.record(&identity).await?;
    store.uncertain(&t.holding(&identity)?, "of a lapsed attempt that had announced itself, under Hold").await?;
    t.unchanged(&before, "a claim of a held record").await
}

pub(super) async fn record_keeps_its_policy(t: &Trial) -> Outcome {
    let store = t.store().await?;
    for stage in [Stage::Lapsed, Stage::Unknown] {
        let (identity, old) = t.staged_held(stage).await?;
        let before = t.record(&identity).await?;
        store.uncertain(&t.usual(&identity)?, "under TakeOver, of a record that was claimed with Hold").await?;
        t.unchanged(&before, "a claim of a held record").await?;

        let resolving = built(t.claim(&identity)?.resolving())?;
        let resolver = store.acquire(&resolving, "that resolves a held record").await?;
        ensure_eq!(resolver.lease.attempt, 2, "the resolver's attempt");
        let taken = t.record(&identity).await?;
        crate::suite::fence::refused_everywhere(t, &store, &old.lease, "the fenced owner").await?;
        t.unchanged(&taken, "the fenced owner").await?;
        ensure_eq!(taken.on_uncertain, OnUncertain::Hold, "the policy of a record that is being resolved");

        let released = store.release_so(&Release::of_every_attempt(resolver.lease)).await?;
        ensure_eq!(released, idem_core::Released::Released, "the resolver says that nothing happened in any attempt");
        store.acquire(&t.other_request(&identity)?, "of an identity that a resolver has freed").await?;
    }
    let (identity, _) = t.staged(Stage::Processing).await?;
    let resolving = built(t.claim(&identity)?.resolving())?;
    store.in_flight(&resolving, "that resolves, during a running lease").await?;
    Ok(())
}
