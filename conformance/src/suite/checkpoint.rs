//! CHECKPOINT: what an attempt leaves for the next one.

use idem_core::{Checkpoint, HowEnded, MAX_CHECKPOINT, Renew, Renewed, State};

use crate::rules::{Profile, Rule, run};
use crate::trial::{LEASE, MARGIN, Outcome, Stage, Stop, Trial, ensure, ensure_eq, plus};

const CORE: Rule = Rule { clause: "R5", ..Rule::of(Profile::Core) };

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "CHECKPOINT-001",
        slug: "checkpoint_is_handed_on",
        text: "The last checkpoint survives its owner and is handed to the next attempt, byte for byte, with how the last one ended.",
        why: "Whoever takes over has to know how far the work came.",
        check: run!(handed_on),
        ..CORE
    },
    Rule {
        id: "CHECKPOINT-002",
        slug: "only_the_owner_moves_the_checkpoint_forward",
        text: "Only the current token writes the checkpoint, and only a greater number replaces it.",
        why: "A heartbeat that was overtaken must not undo progress.",
        check: run!(only_forward),
        ..CORE
    },
];

async fn handed_on(t: &Trial) -> Outcome {
    let store = t.store().await?;
    for (how, bytes) in [
        (HowEnded::Lapsed, t.bytes(300)),
        (HowEnded::Unknown, Vec::new()),
        (HowEnded::Lapsed, vec![0x00, 0xff, 0xfe, 0x80]),
        (HowEnded::Unknown, t.bytes(MAX_CHECKPOINT)),
    ] {
        let (identity, grant) = t.staged(Stage::Processing).await?;
        let left = Checkpoint { sequence: 41, bytes: bytes.into() };
        let renew = Renew::new(grant.lease.clone())
            .checkpoint(left.sequence, left.bytes.clone())
            .map_err(|error| Stop::Error(error.to_string()))?;
        store.hold(&renew).await?;
        match how {
            HowEnded::Unknown => store.store_end(&grant.lease, t.unknown()).await?,
            _ => t.age(&identity, plus(LEASE, MARGIN)).await?,
        }
        let next = store.acquire(&t.usual(&identity)?, "of an uncertain record").await?;
        ensure!(
            next.checkpoint.as_ref() == Some(&left),
            "the next attempt was handed {:?}, the last one had left {left:?}",
            next.checkpoint
        );
        ensure_eq!(next.previous.map(|last| (last.attempt, last.how)), Some((1, how)), "how the last attempt ended");

        store.give_back(&next.lease).await?;
        let third = store.acquire(&t.usual(&identity)?, "after the second attempt was released").await?;
        ensure_eq!(third.lease.attempt, 3, "the number of the third attempt");
        ensure!(third.checkpoint.as_ref() == Some(&left), "a released attempt lost the checkpoint of an earlier one");
        let last = third.previous.map(|last| (last.attempt, last.how));
        ensure_eq!(last, Some((2, HowEnded::Released)), "how the released attempt ended");
    }
    Ok(())
}

async fn only_forward(t: &Trial) -> Outcome {
    let store = t.store().await?;
    let (identity, grant) = t.staged(Stage::Processing).await?;
    let sequence = |record: idem_core::Record| record.checkpoint.map(|checkpoint| checkpoint.sequence);
    for (number, kept) in [(5, 5), (3, 5), (5, 5), (6, 6), (0, 6), (i64::MAX.unsigned_abs(), i64::MAX.unsigned_abs())] {
        store.hold(&super::fence::marking(&grant.lease, number)?).await?;
        let record = t.record(&identity).await?;
        ensure_eq!(sequence(record), Some(kept), "the checkpoint after number {number} was left");
    }
    let same_number = Renew::new(grant.lease.clone())
        .checkpoint(i64::MAX.unsigned_abs(), "other bytes")
        .map_err(|error| Stop::Error(error.to_string()))?;
    let before = t.record(&identity).await?;
    store.hold(&same_number).await?;
    let after = t.record(&identity).await?;
    ensure!(after.checkpoint == before.checkpoint, "a checkpoint was replaced by one of the same number");
    store.hold(&Renew::new(grant.lease.clone())).await?;
    ensure!(t.record(&identity).await?.checkpoint == before.checkpoint, "a plain renewal changed the checkpoint");

    let mut forged = grant.lease;
    forged.token = t.token();
    let before = t.record(&identity).await?;
    let answer = store.renew(&super::fence::marking(&forged, i64::MAX.unsigned_abs())?).await?;
    ensure_eq!(answer, Renewed::Lost, "a checkpoint with a forged token");
    t.unchanged(&before, "a checkpoint with a forged token").await?;
    ensure_eq!(before.state, State::Processing, "the state of the record all along");
    Ok(())
}
