//! RELEASE: nothing happened.

use idem_core::{HowEnded, Release, Released, State};

use crate::rules::{Profile, Rule, run};
use crate::trial::{Outcome, Stage, Trial, ensure, ensure_eq};

const CORE: Rule = Rule::of(Profile::Core);

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "RELEASE-001",
        slug: "release_frees_at_once",
        clause: "L1",
        text: "A release of the first attempt frees the identity at once, for any fingerprint.",
        why: "Nothing happened, so nobody has to wait for a lease to end.",
        check: run!(frees_at_once),
        ..CORE
    },
    Rule {
        id: "RELEASE-002",
        slug: "finished_record_is_not_released",
        clause: "L3",
        text: "A release of a finished record is Lost, and changes nothing: its claim is still replayed.",
        why: "A release on drop, after the effect, makes the retry run it again.",
        check: run!(finished),
        ..CORE
    },
    Rule {
        id: "RELEASE-003",
        slug: "repeated_release_never_frees_the_next_owner",
        clause: "L2",
        text: "Repeating a release is harmless, and never frees the next owner.",
        why: "A release whose reply was lost is sent again, when somebody else owns the identity.",
        check: run!(repeated),
        ..CORE
    },
    Rule {
        id: "RELEASE-004",
        slug: "released_record_keeps_its_fence",
        clause: "L1",
        text: "A released record stays with its fence, and the next grant's is greater.",
        why: "A fence that begins anew lets an older writer win.",
        check: run!(keeps_its_fence),
        ..CORE
    },
    Rule {
        id: "RELEASE-005",
        slug: "release_undoes_only_its_own_attempt",
        clause: "L1",
        text: "A release of a later attempt leaves the record UNKNOWN, with its evidence; only a release of every attempt frees it.",
        why: "What the earlier attempt did is still not known.",
        check: run!(only_its_own),
        ..CORE
    },
];

async fn frees_at_once(t: &Trial) -> Outcome {
    let store = t.store().await?;
    for stage in [Stage::Processing, Stage::Lapsed] {
        let (identity, grant) = t.staged(stage).await?;
        store.give_back(&grant.lease).await?;
        ensure_eq!(t.record(&identity).await?.state, State::Released, "the state after a release");
        let next = store.acquire(&t.other_request(&identity)?, "of a released identity, for another request").await?;
        ensure_eq!(next.lease.attempt, 1, "the attempt that begins a new life");
        let record = t.record(&identity).await?;
        ensure_eq!(record.fingerprint, *t.other_request(&identity)?.fingerprint(), "the fingerprint of the new life");
        ensure_eq!(record.created_at, record.claimed_at, "when the new life began");
    }
    Ok(())
}

async fn finished(t: &Trial) -> Outcome {
    let store = t.store().await?;
    for stage in [Stage::Succeeded, Stage::Failed, Stage::Unknown] {
        let (identity, grant) = t.staged(stage).await?;
        let before = t.record(&identity).await?;
        for release in [Release::new(grant.lease.clone()), Release::of_every_attempt(grant.lease.clone())] {
            ensure_eq!(store.release_so(&release).await?, Released::Lost, "a release of a record that is {stage:?}");
            t.unchanged(&before, "a release of a finished record").await?;
        }
        if stage != Stage::Unknown {
            store.replay(&t.usual(&identity)?, "of a finished record that somebody tried to release").await?;
        }
    }
    Ok(())
}

async fn repeated(t: &Trial) -> Outcome {
    let store = t.store().await?;
    let (identity, grant) = t.staged(Stage::Released).await?;
    let before = t.record(&identity).await?;
    for _ in 0..2 {
        ensure_eq!(store.release(&grant.lease).await?, Released::Released, "the same release again");
        t.unchanged(&before, "the same release again").await?;
    }
    let next = t.acquire(&identity).await?;
    let before = t.record(&identity).await?;
    ensure_eq!(store.release(&grant.lease).await?, Released::Lost, "the same release, after the next owner's claim");
    t.unchanged(&before, "the same release, after the next owner's claim,").await?;
    store.in_flight(&t.usual(&identity)?, "of the next owner's record").await?;
    store.store_end(&next.lease, t.succeeded()).await
}

async fn keeps_its_fence(t: &Trial) -> Outcome {
    let store = t.store().await?;
    let identity = t.identity()?;
    let mut last = None;
    for round in 0..6 {
        let grant = t.acquire(&identity).await?;
        ensure!(Some(grant.lease.fence) > last, "the fence after {round} releases is not above the one before");
        last = Some(grant.lease.fence);
        store.give_back(&grant.lease).await?;
        ensure_eq!(Some(t.record(&identity).await?.fence), last, "the fence of the released record");
    }
    Ok(())
}

async fn only_its_own(t: &Trial) -> Outcome {
    let store = t.store().await?;
    for stage in [Stage::Lapsed, Stage::Unknown] {
        let (identity, _) = t.staged(stage).await?;
        let evidence = t.record(&identity).await?.recorded;
        let second = store.acquire(&t.usual(&identity)?, "of an uncertain record").await?;
        store.give_back(&second.lease).await?;
        let record = t.record(&identity).await?;
        ensure_eq!(record.state, State::Unknown, "the state after a later attempt was released");
        ensure!(record.recorded == evidence, "the release of a later attempt lost the evidence of an earlier one");
        store.mismatch(&t.other_request(&identity)?, "for another request, after a later attempt was released").await?;
        ensure_eq!(store.release(&second.lease).await?, Released::Released, "the same release again");
        t.unchanged(&record, "the same release again").await?;

        let third = store.acquire(&t.usual(&identity)?, "after a later attempt was released").await?;
        ensure_eq!(third.lease.attempt, 3, "the number of the third attempt");
        let last = third.previous.map(|last| last.how);
        ensure_eq!(last, Some(HowEnded::Released), "how the released attempt ended");
        let every = store.release_so(&Release::of_every_attempt(third.lease)).await?;
        ensure_eq!(every, Released::Released, "a release of every attempt");
        store.acquire(&t.other_request(&identity)?, "for another request, after a release of every attempt").await?;
    }
    Ok(())
}
