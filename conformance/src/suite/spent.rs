//! SPENT: remembered past its retention, not replayed, not run again.

use idem_core::machine::Rules;
use idem_core::{Final, Recorded, Span, Spent, State};

use crate::rules::{Profile, Rule, run};
use crate::trial::{MARGIN, Outcome, RETENTION, Stage, Trial, ensure_eq, minus, plus};

const CORE: Rule = Rule { clause: "C8, G1", ..Rule::of(Profile::Core) };

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "SPENT-001",
        slug: "remembered_record_is_spent",
        text: "After retention and inside the remembered time a claim is Spent, with how it ended and its code, before purge and after.",
        why: "A webhook that is delivered again after weeks must not run again.",
        check: run!(remembered),
        ..CORE
    },
    Rule {
        id: "SPENT-002",
        slug: "other_request_of_a_spent_record_is_mismatch",
        clause: "C2, C8",
        text: "Another request under a SPENT identity is Mismatch, before purge and after.",
        why: "A key stays used for as long as it is remembered.",
        check: run!(other_request),
        ..CORE
    },
    Rule {
        id: "SPENT-003",
        slug: "forgotten_record_is_absent",
        clause: "C1, C8",
        text: "After the remembered time the identity is absent: Acquired, as attempt 1, for any request.",
        why: "Memory without an end is a table without an end.",
        check: run!(forgotten),
        ..CORE
    },
];

const REMEMBER: Span = Span::saturating_secs(30 * 86_400);

/// The rules of a store that remembers for a month.
pub(super) fn remembering() -> Rules {
    Rules { remember: Some(REMEMBER), ..Rules::default() }
}

async fn remembered(t: &Trial) -> Outcome {
    let store = t.store_keeping(remembering()).await?;
    for (stage, end, code) in [(Stage::Succeeded, Final::Succeeded, 201), (Stage::Failed, Final::Failed, 402)] {
        let (identity, _) = t.staged(stage).await?;
        t.age(&identity, minus(RETENTION, MARGIN)).await?;
        store.replay(&t.usual(&identity)?, "shortly before retention ends").await?;
        t.age(&identity, plus(MARGIN, MARGIN)).await?;
        let spent = Spent { end, code };
        let before = t.record(&identity).await?;
        ensure_eq!(store.spent(&t.usual(&identity)?, "of a remembered record").await?, spent, "the answer");
        t.unchanged(&before, "a claim of a remembered record").await?;
        let shown = store.get(&identity).await?;
        let shown = shown.map(|record| (record.state, record.recorded));
        let tombstone = Some(Recorded::Tombstone { code });
        ensure_eq!(shown, Some((State::Spent(end), tombstone)), "what `get` shows of a remembered record");
        if t.declaration().claims(Profile::Maintained) {
            store.purge_all(100).await?;
            ensure_eq!(store.spent(&t.usual(&identity)?, "after purge").await?, spent, "the answer after purge");
        }
        t.age(&identity, minus(REMEMBER, plus(MARGIN, MARGIN))).await?;
        store.spent(&t.usual(&identity)?, "shortly before the remembered time ends").await?;
    }
    Ok(())
}

async fn other_request(t: &Trial) -> Outcome {
    let store = t.store_keeping(remembering()).await?;
    let (identity, _) = t.staged(Stage::OverAge).await?;
    let before = t.record(&identity).await?;
    store.mismatch(&t.other_request(&identity)?, "for another request, of a remembered record").await?;
    t.unchanged(&before, "a claim for another request").await?;
    if t.declaration().claims(Profile::Maintained) {
        store.purge_all(100).await?;
        store.mismatch(&t.other_request(&identity)?, "for another request, after purge").await?;
    }
    store.spent(&t.usual(&identity)?, "for the same request, afterwards").await?;
    Ok(())
}

async fn forgotten(t: &Trial) -> Outcome {
    let store = t.store_keeping(remembering()).await?;
    for stage in [Stage::Succeeded, Stage::Failed] {
        let (identity, _) = t.staged(stage).await?;
        t.age(&identity, plus(plus(RETENTION, REMEMBER), MARGIN)).await?;
        ensure_eq!(store.get(&identity).await?, None, "what `get` shows after the remembered time");
        let grant = store.acquire(&t.other_request(&identity)?, "after the remembered time").await?;
        ensure_eq!(grant.lease.attempt, 1, "the attempt that begins a new life");
    }
    Ok(())
}
