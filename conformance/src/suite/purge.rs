//! PURGE: what has become free is deleted, and nothing else.

use std::sync::Arc;

use idem_core::machine::Rules;
use idem_core::{Claimed, Identity, OnUncertain, Recorded, Renew, Span, State};

use crate::rules::{Profile, Rule, run};
use crate::trial::{
    Handle, LEASE, MARGIN, Outcome, RETENTION, Stage, Stop, Trial, built, ensure, ensure_eq, minus, plus,
};

const MAINTAINED: Rule = Rule::of(Profile::Maintained);

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "PURGE-001",
        slug: "running_lease_is_never_purged",
        clause: "P1",
        text: "A record whose lease runs is never purged, however old it is.",
        why: "Its identity would be free while its owner works.",
        check: run!(running),
        ..MAINTAINED
    },
    Rule {
        id: "PURGE-002",
        slug: "nothing_inside_retention_is_purged",
        clause: "P2",
        text: "Nothing inside its retention is purged; inside the remembered time only the response goes.",
        why: "The retry that comes late would run again.",
        check: run!(inside_retention),
        ..MAINTAINED
    },
    Rule {
        id: "PURGE-003",
        slug: "purge_removes_the_rest_and_counts_truly",
        clause: "P3",
        text: "Records that have become free are removed, and the counts are true.",
        why: "A table that is never emptied, or a count that is wrong, is noticed when the disk is full.",
        check: run!(removes),
        ..MAINTAINED
    },
    Rule {
        id: "PURGE-004",
        slug: "purge_respects_its_limit",
        clause: "P3",
        text: "One call removes at most `limit` records, and the next one goes on.",
        why: "One long delete locks the table for everybody.",
        check: run!(limit),
        ..MAINTAINED
    },
    Rule {
        id: "PURGE-005",
        slug: "purge_racing_with_claims_has_one_owner",
        clause: "P6, C12",
        text: "Purge racing with claims never yields two owners, nor an owner without a record.",
        why: "A row that vanishes between the conflict and its reading is where claims go wrong.",
        check: run!(racing),
        ..MAINTAINED
    },
    Rule {
        id: "PURGE-006",
        slug: "other_namespaces_are_untouched",
        clause: "P3",
        text: "Purge touches no record of another namespace.",
        why: "Two applications on one server must not delete each other's records.",
        check: run!(namespaces),
        ..MAINTAINED
    },
    Rule {
        id: "PURGE-007",
        slug: "free_record_stays_through_the_quarantine",
        clause: "P7",
        text: "A record is deleted only a quarantine after it became free.",
        why: "Until then its fence is what a late statement of its earlier life meets.",
        check: run!(quarantine),
        ..MAINTAINED
    },
    Rule {
        id: "PURGE-008",
        slug: "evidence_is_kept",
        clause: "P5",
        text: "Lapsed and UNKNOWN records stay for the evidence time, and under Hold until somebody decides.",
        why: "They say that something may have happened twice, or not at all.",
        check: run!(evidence),
        ..MAINTAINED
    },
];

/// The age at which a record that was kept for `kept` is deleted.
pub(super) fn gone(kept: Span) -> Span {
    plus(plus(kept, Rules::default().quarantine), MARGIN)
}

async fn running(t: &Trial) -> Outcome {
    let store = t.store().await?;
    let identity = t.identity()?;
    let claim = built(t.claim(&identity)?.retention(LEASE))?;
    let grant = store.acquire(&claim, "of an absent identity").await?;
    let years = Span::saturating_secs(5 * 365 * 86_400);
    store.hold(&Renew::new(grant.lease.clone()).lasting(years)).await?;
    t.age(&identity, minus(years, MARGIN)).await?;
    let before = t.record(&identity).await?;
    store.purge_all(100).await?;
    t.unchanged(&before, "purge, of a record whose lease runs,").await?;
    store.in_flight(&t.usual(&identity)?, "after purge, of a record whose lease runs").await?;
    store.store_end(&grant.lease, t.succeeded()).await
}

async fn inside_retention(t: &Trial) -> Outcome {
    let remember = super::spent::remembering();
    let store = t.store_keeping(remember).await?;
    for stage in [Stage::Succeeded, Stage::Failed] {
        let (identity, _) = t.staged(stage).await?;
        t.age(&identity, minus(RETENTION, MARGIN)).await?;
        let before = t.record(&identity).await?;
        store.purge_all(100).await?;
        t.unchanged(&before, "purge, inside retention,").await?;

        t.age(&identity, plus(MARGIN, MARGIN)).await?;
        let before = t.record(&identity).await?;
        let purged = store.purge_all(100).await?;
        ensure_eq!((purged.deleted, purged.dropped), (0, 1), "what purge deleted and dropped in remembered time");
        let after = t.record(&identity).await?;
        let code = before.recorded.as_ref().map_or(0, Recorded::code);
        ensure_eq!(after.recorded, Some(Recorded::Tombstone { code }), "the response in remembered time, after purge");
        let same = idem_core::Record { recorded: before.recorded.clone(), ..after };
        ensure!(same == before, "purge changed more than the response: from {before:?} to {same:?}");
    }
    let (identity, _) = t.staged(Stage::Released).await?;
    let before = t.record(&identity).await?;
    store.purge_all(100).await?;
    t.unchanged(&before, "purge, of a record that was just released,").await
}

/// So many finished or released records that purge has to delete.
async fn over_age(t: &Trial, store: &Handle, count: usize) -> Result<Vec<Identity>, Stop> {
    let mut identities = Vec::new();
    for stage in [Stage::Succeeded, Stage::Failed, Stage::Released].into_iter().cycle().take(count) {
        let (identity, _) = t.staged(stage).await?;
        t.age(&identity, gone(RETENTION)).await?;
        ensure_eq!(store.get(&identity).await?, None, "what `get` shows of a record over age");
        identities.push(identity);
    }
    Ok(identities)
}

async fn removes(t: &Trial) -> Outcome {
    let store = t.store().await?;
    let mut kept = Vec::new();
    for stage in [Stage::Processing, Stage::Lapsed, Stage::Succeeded, Stage::Failed, Stage::Unknown] {
        let (identity, _) = t.staged(stage).await?;
        kept.push(t.record(&identity).await?);
    }
    let free = over_age(t, &store, 7).await?;
    let purged = store.purge_all(100).await?;
    ensure_eq!((purged.deleted, purged.dropped), (7, 0), "what purge says it deleted and dropped");
    for identity in &free {
        ensure_eq!(t.read(identity).await?, None, "an independent read after purge");
    }
    for record in &kept {
        t.unchanged(record, "purge, of a record that is not free,").await?;
    }
    Ok(())
}

async fn limit(t: &Trial) -> Outcome {
    let store = t.store().await?;
    let free = over_age(t, &store, 7).await?;
    let first = store.purge(2).await?;
    ensure!(first.deleted <= 2, "a purge with limit 2 says that it deleted {}", first.deleted);
    let mut left = 0;
    for identity in &free {
        left += u64::from(t.row(identity).await?.is_some());
    }
    ensure_eq!(left, 7 - first.deleted, "how many of seven records are left after a purge that said {}", first.deleted);
    let rest = store.purge_all(2).await?;
    ensure_eq!(rest.deleted, left, "how many the next purges deleted");
    Ok(())
}

async fn racing(t: &Trial) -> Outcome {
    let handles = super::lease::handles(t).await?;
    let store = t.store().await?;
    for _ in 0..8 {
        let identity = over_age(t, &store, 1).await?.remove(0);
        let start = Arc::new(tokio::sync::Barrier::new(2));
        let purger = {
            let (start, handle) = (Arc::clone(&start), handles[handles.len() - 1].clone());
            tokio::spawn(async move {
                start.wait().await;
                handle.purge(100).await
            })
        };
        let claims: Result<Vec<_>, _> = (0..4).map(|_| t.other_request(&identity)).collect();
        start.wait().await;
        let answers = super::lease::at_once(&handles, claims?).await?;
        purger.await.map_err(|error| Stop::Error(format!("the purge did not come back: {error}")))??;
        let tokens: Vec<_> = answers
            .iter()
            .filter_map(|answer| match answer {
                Claimed::Acquired(grant) => Some(grant.lease.token),
                _ => None,
            })
            .collect();
        ensure_eq!(tokens.len(), 1, "how many of four claims were granted while purge ran");
        ensure_eq!(t.record(&identity).await?.token, tokens[0], "the token in the record after the race with purge");
    }
    Ok(())
}

async fn namespaces(t: &Trial) -> Outcome {
    let store = t.store().await?;
    let (namespace, other) = t.elsewhere().await?;
    let identity = t.identity()?;
    let grant = other.acquire(&t.usual(&identity)?, "in another namespace, of an absent identity").await?;
    ensure_eq!(store.get(&identity).await?, None, "the other namespace's record, seen from here");
    other.store_end(&grant.lease, t.succeeded()).await?;
    t.age_in(&namespace, &identity, gone(RETENTION)).await?;
    let own = over_age(t, &store, 2).await?;
    let purged = store.purge_all(100).await?;
    ensure_eq!(purged.deleted, own.len() as u64, "how many records purge deleted here");
    let purged = other.purge_all(100).await?;
    ensure_eq!(purged.deleted, 1, "how many records were left in the other namespace");
    Ok(())
}

async fn quarantine(t: &Trial) -> Outcome {
    let store = t.store().await?;
    let quarantine = Rules::default().quarantine;
    for stage in [Stage::Succeeded, Stage::Failed, Stage::Released] {
        let (identity, _) = t.staged(stage).await?;
        t.age(&identity, minus(plus(RETENTION, quarantine), MARGIN)).await?;
        // Over age already, so only the row itself shows whether it is still there.
        let before = t.row(&identity).await?;
        store.purge_all(100).await?;
        ensure!(before.is_some() && t.row(&identity).await? == before, "purge touched a record inside the quarantine");
        t.age(&identity, plus(MARGIN, MARGIN)).await?;
        store.purge_all(100).await?;
        ensure_eq!(t.row(&identity).await?, None, "the row after the quarantine and purge");
    }
    Ok(())
}

async fn evidence(t: &Trial) -> Outcome {
    let store = t.store().await?;
    let Some(evidence) = Rules::default().evidence else {
        return Err(Stop::Error("the default rules have no evidence time".into()));
    };
    for stage in [Stage::Lapsed, Stage::Unknown] {
        let (identity, _) = t.staged(stage).await?;
        t.age(&identity, minus(plus(RETENTION, evidence), MARGIN)).await?;
        let before = t.record(&identity).await?;
        store.purge_all(100).await?;
        t.unchanged(&before, "purge, inside the evidence time,").await?;
        t.age(&identity, plus(gone(MARGIN), LEASE)).await?;
        store.purge_all(100).await?;
        ensure_eq!(t.read(&identity).await?, None, "an independent read after the evidence time and purge");

        let (identity, _) = t.staged_held(stage).await?;
        t.age(&identity, Span::saturating_secs(5 * 365 * 86_400)).await?;
        let before = t.record(&identity).await?;
        ensure_eq!(before.on_uncertain, OnUncertain::Hold, "the policy in the record");
        ensure!(matches!(before.state, State::Processing | State::Unknown), "the held record is {:?}", before.state);
        store.purge_all(100).await?;
        t.unchanged(&before, "purge, of a held record,").await?;
    }
    Ok(())
}
