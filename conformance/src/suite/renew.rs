//! RENEW: keeping a lease.

use idem_core::{Renew, Renewed};

use crate::rules::{Profile, Rule, run};
use crate::trial::{LEASE, MARGIN, Outcome, RETENTION, Stage, Trial, ensure, ensure_eq, minus, plus};

const CORE: Rule = Rule::of(Profile::Core);

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "RENEW-001",
        slug: "renewal_counts_from_now",
        clause: "R2, T1",
        text: "A renewal makes the lease run for its length from now, on the store's clock.",
        why: "An owner that works on and renews in time must not be taken over.",
        check: run!(from_now),
        ..CORE
    },
    Rule {
        id: "RENEW-002",
        slug: "renewal_revives_nothing",
        clause: "R1, R4",
        text: "A renewal is Lost after completion, release and takeover, and changes nothing.",
        why: "A heartbeat that comes late must not make a finished record PROCESSING again.",
        check: run!(revives_nothing),
        ..CORE
    },
    Rule {
        id: "RENEW-003",
        slug: "renewal_never_shortens",
        clause: "R2",
        text: "A renewal for less than is left leaves the lease as long as it is.",
        why: "Two heartbeats that overtake each other must not end the lease.",
        check: run!(never_shortens),
        ..CORE
    },
    Rule {
        id: "RENEW-004",
        slug: "lapsed_lease_is_still_held",
        clause: "R3",
        text: "A lapsed lease that nobody took over is still held, and runs again after a renewal.",
        why: "A slow heartbeat alone is no reason to run the work twice.",
        check: run!(lapsed),
        ..CORE
    },
];

async fn from_now(t: &Trial) -> Outcome {
    let store = t.store().await?;
    let (identity, grant) = t.staged(Stage::Processing).await?;
    let length = plus(LEASE, MARGIN);
    for _ in 0..3 {
        t.age(&identity, minus(LEASE, MARGIN)).await?;
        let earliest = t.now().await?.plus(length);
        store.hold(&Renew::new(grant.lease.clone()).lasting(length)).await?;
        let latest = t.now().await?.plus(length);
        let until = t.record(&identity).await?.lease_until;
        ensure!(
            earliest <= until && until <= latest,
            "renewed for {length:?} the lease runs until {until:?}, expected between {earliest:?} and {latest:?}"
        );
        store.in_flight(&t.usual(&identity)?, "of a record whose lease was renewed").await?;
    }
    t.age(&identity, plus(length, MARGIN)).await?;
    store.acquire(&t.usual(&identity)?, "after the renewed lease has ended").await?;
    Ok(())
}

async fn revives_nothing(t: &Trial) -> Outcome {
    let store = t.store().await?;
    for stage in [Stage::Succeeded, Stage::Failed, Stage::Unknown, Stage::Released] {
        let (identity, grant) = t.staged(stage).await?;
        let before = t.record(&identity).await?;
        for renew in [Renew::new(grant.lease.clone()), super::fence::marking(&grant.lease, 5)?] {
            ensure_eq!(store.renew(&renew).await?, Renewed::Lost, "a renewal of a record that is {stage:?}");
            t.unchanged(&before, "a renewal after the end").await?;
        }
    }
    let (identity, old) = t.staged(Stage::Lapsed).await?;
    store.acquire(&t.usual(&identity)?, "of a lapsed record").await?;
    let before = t.record(&identity).await?;
    ensure_eq!(store.renew(&Renew::new(old.lease)).await?, Renewed::Lost, "a renewal after a takeover");
    t.unchanged(&before, "a renewal after a takeover").await
}

async fn never_shortens(t: &Trial) -> Outcome {
    let store = t.store().await?;
    let (identity, grant) = t.staged(Stage::Processing).await?;
    store.hold(&Renew::new(grant.lease.clone()).lasting(RETENTION)).await?;
    let long = t.record(&identity).await?.lease_until;
    store.hold(&Renew::new(grant.lease.clone()).lasting(MARGIN)).await?;
    ensure_eq!(t.record(&identity).await?.lease_until, long, "the end of the lease after a shorter renewal");
    t.age(&identity, plus(LEASE, MARGIN)).await?;
    store.in_flight(&t.usual(&identity)?, "of a record that was renewed for a day, and then for a minute").await?;
    Ok(())
}

async fn lapsed(t: &Trial) -> Outcome {
    let store = t.store().await?;
    let (identity, grant) = t.staged(Stage::Lapsed).await?;
    store.hold(&Renew::new(grant.lease.clone())).await?;
    store.in_flight(&t.usual(&identity)?, "of a lapsed record that its owner has renewed").await?;
    let record = t.record(&identity).await?;
    ensure_eq!((record.attempt, record.fence), (1, grant.lease.fence), "attempt and fence after the renewal");
    store.store_end(&grant.lease, t.succeeded()).await
}
