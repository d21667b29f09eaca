//! TIME: the store's clock alone decides.

use idem_core::{Record, Span, StoreTime};

use crate::harness::How;
use crate::rules::{Profile, Rule, run};
use crate::trial::{LEASE, MARGIN, Outcome, RETENTION, Stage, Trial, ensure, ensure_eq, minus, plus};

const CORE: Rule = Rule::of(Profile::Core);

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "TIME-001",
        slug: "claimant_with_a_wrong_clock_gets_the_same_answers",
        clause: "T1",
        text: "A claimant whose clock is off by an hour gets the same answers, and writes the same times.",
        why: "Expiry that one clock writes and another judges ends leases under their owners.",
        check: run!(wrong_clock),
        ..Rule::of(Profile::Networked)
    },
    Rule {
        id: "TIME-002",
        slug: "retention_counts_from_the_claim",
        clause: "retention, C4",
        text: "Retention counts from the claim that created the record, whenever it was completed.",
        why: "Completing must not move an index entry, and a long operation must not be kept for longer.",
        check: run!(retention),
        ..CORE
    },
    Rule {
        id: "TIME-003",
        slug: "ageing_hook_is_honest",
        clause: "T1",
        text: "The harness's ageing shifts every time of one record by exactly what was asked, and nothing else.",
        why: "Every rule about time rests on this hook.",
        check: run!(honest_ageing),
        ..CORE
    },
    Rule {
        id: "TIME-004",
        slug: "session_time_zone_moves_nothing",
        clause: "T3",
        text: "Handles whose sessions have other time zones see and write the same times.",
        why: "A time column without a zone shifts leases by hours when a client's settings change.",
        check: run!(time_zone),
        ..Rule::of(Profile::Networked)
    },
];

async fn wrong_clock(t: &Trial) -> Outcome {
    let store = t.store().await?;
    for off_by in [3_600, -3_600] {
        let mut how = How::second();
        how.clock_off_by = Some(off_by);
        let skewed = t.open(&how).await?;
        let (identity, _) = t.staged(Stage::Processing).await?;
        t.age(&identity, minus(LEASE, MARGIN)).await?;
        skewed.in_flight(&t.usual(&identity)?, "by a skewed claimant, shortly before the lease ends").await?;
        t.age(&identity, plus(MARGIN, MARGIN)).await?;
        let earliest = t.now().await?.plus(LEASE);
        skewed.acquire(&t.usual(&identity)?, "by a skewed claimant, after the lease has ended").await?;
        let latest = t.now().await?.plus(LEASE);
        let until = t.record(&identity).await?.lease_until;
        ensure!(
            earliest <= until && until <= latest,
            "a claimant whose clock is off by {off_by} s wrote a lease until {until:?}, expected {earliest:?} to {latest:?}"
        );
        store.in_flight(&t.usual(&identity)?, "during a skewed owner's lease").await?;
    }
    Ok(())
}

async fn retention(t: &Trial) -> Outcome {
    let store = t.store().await?;
    let half = Span::saturating_secs(12 * 3_600);
    let (identity, grant) = t.staged(Stage::Processing).await?;
    t.age(&identity, half).await?;
    store.store_end(&grant.lease, t.succeeded()).await?;
    t.age(&identity, minus(minus(RETENTION, half), MARGIN)).await?;
    store.replay(&t.usual(&identity)?, "shortly before retention, counted from the claim, ends").await?;
    t.age(&identity, plus(MARGIN, MARGIN)).await?;
    ensure_eq!(store.get(&identity).await?, None, "what `get` shows after retention, counted from the claim");
    store.acquire(&t.usual(&identity)?, "after retention, counted from the claim, has ended").await?;
    Ok(())
}

fn times(record: &Record) -> [Option<StoreTime>; 5] {
    let Record { created_at, claimed_at, lease_until, ended_at, expires_at, .. } = record;
    [Some(*created_at), Some(*claimed_at), Some(*lease_until), *ended_at, Some(*expires_at)]
}

/// The record without its times.
fn timeless(record: &Record) -> Record {
    let zero = StoreTime::from_micros(0);
    Record {
        created_at: zero,
        claimed_at: zero,
        lease_until: zero,
        ended_at: None,
        expires_at: zero,
        history: Vec::new(),
        ..record.clone()
    }
}

async fn honest_ageing(t: &Trial) -> Outcome {
    let by = Span::saturating_secs(97);
    for stage in [Stage::Processing, Stage::Succeeded, Stage::Unknown, Stage::Released] {
        let ((identity, _), (other, _)) = (t.staged(stage).await?, t.staged(stage).await?);
        let (before, beside) = (t.record(&identity).await?, t.record(&other).await?);
        t.age(&identity, by).await?;
        let after = t.record(&identity).await?;
        for (was, is) in times(&before).into_iter().zip(times(&after)) {
            let moved = was.zip(is).map(|(was, is)| was.since(is));
            ensure!(
                was.is_none() && is.is_none() || moved == Some(by.as_duration()),
                "the ageing hook moved a time of a record that is {stage:?} by {moved:?}, expected {by:?}"
            );
        }
        ensure!(
            timeless(&after) == timeless(&before),
            "the ageing hook changed more than times: {before:?} to {after:?}"
        );
        t.unchanged(&beside, "the ageing of another record").await?;
    }
    let absent = t.identity()?;
    let aged = t.harness().age(t.namespace(), &absent, by).await;
    let aged = t.hooked(crate::harness::Hook::Age, aged)?;
    ensure_eq!(aged, crate::harness::Aged::NoRecord, "what the ageing hook says of an identity without a record");
    Ok(())
}

async fn time_zone(t: &Trial) -> Outcome {
    let store = t.store().await?;
    // The farthest that all servers know.
    for zone in [13, -12] {
        let mut how = How::second();
        how.session_time_zone = Some(zone);
        let elsewhere = t.open(&how).await?;
        let (identity, _) = t.staged(Stage::Processing).await?;
        let before = t.record(&identity).await?;
        let seen = elsewhere.get(&identity).await?;
        ensure_eq!(seen.as_ref().map(times), Some(times(&before)), "the times that a session at UTC{zone:+} sees");
        elsewhere.in_flight(&t.usual(&identity)?, "by a session with another time zone").await?;

        let identity = t.identity()?;
        elsewhere.acquire(&t.usual(&identity)?, "by a session with another time zone").await?;
        t.age(&identity, minus(LEASE, MARGIN)).await?;
        store.in_flight(&t.usual(&identity)?, "of a record that another time zone's session wrote").await?;
        t.age(&identity, plus(MARGIN, MARGIN)).await?;
        store.acquire(&t.usual(&identity)?, "after the lease that another time zone's session wrote").await?;
    }
    Ok(())
}
