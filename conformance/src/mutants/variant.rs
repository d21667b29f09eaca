//! Conformant stores that are unlike the reference: the proof that the suite is not too strict.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use idem_core::{
    Claim, Claimed, Complete, Completed, Error, ErrorKind, Fence, Identity, Purged, Record, Release, Released, Renew,
    Renewed, Store, machine,
};

use super::logic::{Logic, claim};
use super::twist::Twist;
use super::{Kind, Landed};
use crate::Harness;

/// A store that is unlike the reference, and conformant: every rule has to hold.
#[derive(Clone, Copy)]
pub struct Variant {
    /// Its name.
    pub id: &'static str,
    kind: Kind,
    /// Why it is conformant.
    pub because: &'static str,
}

impl Variant {
    /// The variant's harness, made from this one.
    #[must_use]
    pub fn harness(&self, good: Arc<dyn Harness>, landed: &Landed) -> Arc<dyn Harness> {
        self.kind.harness(self.id, good, landed)
    }
}

/// All of them.
#[must_use]
pub fn variants() -> &'static [Variant] {
    VARIANTS
}

/// One sequence for all identities, as a database has one.
static SEQUENCE: AtomicU64 = AtomicU64::new(1_000);

const VARIANTS: &[Variant] = &[
    Variant {
        id: "V-fences-of-one-sequence",
        kind: Kind::Model(Logic {
            claim: |found, asked, now, rules| match claim(found, asked, now, rules) {
                (Claimed::Acquired(_), Some(mut record)) if found.map(|old| old.fence) != Some(record.fence) => {
                    record.fence = Fence::new(SEQUENCE.fetch_add(977, Ordering::Relaxed));
                    (Claimed::Acquired(machine::grant(&record, asked)), Some(record))
                }
                other => other,
            },
            ..Logic::GOOD
        }),
        because: "Fences only have to grow: they may be small, and they may jump.",
    },
    Variant {
        id: "V-purges-one-at-a-time",
        kind: Kind::Model(Logic { purge_limit: |limit| limit.min(1), ..Logic::GOOD }),
        because: "A purge may do less than its limit.",
    },
    Variant { id: "V-slow", kind: Kind::Wrapper(|| Box::new(Slow)), because: "Nothing is promised about speed." },
    Variant {
        id: "V-every-seventh-call-unavailable",
        kind: Kind::Wrapper(|| Box::new(EverySeventh { kind: ErrorKind::Unavailable, calls: AtomicU64::new(0) })),
        because: "A retryable error may come at any time.",
    },
    Variant {
        id: "V-every-seventh-reply-lost",
        kind: Kind::Wrapper(|| Box::new(EverySeventh { kind: ErrorKind::Indeterminate, calls: AtomicU64::new(0) })),
        because: "A reply may be lost at any time; the request was applied.",
    },
    Variant {
        id: "V-in-flight-after-waiting",
        kind: Kind::Wrapper(|| Box::new(WaitsBeforeInFlight)),
        because: "A claim may wait for a moment before it is told to wait.",
    },
];

struct Slow;

impl Slow {
    async fn down(landed: &Landed) {
        landed.hit();
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[async_trait]
impl Twist for Slow {
    async fn claim(&self, good: &dyn Store, landed: &Landed, claim: &Claim) -> Result<Claimed, Error> {
        Slow::down(landed).await;
        let answer = good.claim(claim).await;
        Slow::down(landed).await;
        answer
    }

    async fn complete(&self, good: &dyn Store, landed: &Landed, complete: &Complete) -> Result<Completed, Error> {
        Slow::down(landed).await;
        good.complete(complete).await
    }

    async fn get(&self, good: &dyn Store, landed: &Landed, identity: &Identity) -> Result<Option<Record>, Error> {
        Slow::down(landed).await;
        good.get(identity).await
    }
}

/// Every seventh call ends with a retryable error: before it was applied, or after.
struct EverySeventh {
    kind: ErrorKind,
    calls: AtomicU64,
}

impl EverySeventh {
    async fn call<T>(&self, landed: &Landed, call: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        if self.calls.fetch_add(1, Ordering::Relaxed) % 7 != 6 {
            return call.await;
        }
        landed.hit();
        if self.kind == ErrorKind::Indeterminate {
            call.await?;
        }
        Err(Error::new(self.kind, "the seventh call"))
    }
}

#[async_trait]
impl Twist for EverySeventh {
    async fn claim(&self, good: &dyn Store, landed: &Landed, claim: &Claim) -> Result<Claimed, Error> {
        self.call(landed, good.claim(claim)).await
    }

    async fn renew(&self, good: &dyn Store, landed: &Landed, renew: &Renew) -> Result<Renewed, Error> {
        self.call(landed, good.renew(renew)).await
    }

    async fn complete(&self, good: &dyn Store, landed: &Landed, complete: &Complete) -> Result<Completed, Error> {
        self.call(landed, good.complete(complete)).await
    }

    async fn release(&self, good: &dyn Store, landed: &Landed, release: &Release) -> Result<Released, Error> {
        self.call(landed, good.release(release)).await
    }

    async fn get(&self, good: &dyn Store, landed: &Landed, identity: &Identity) -> Result<Option<Record>, Error> {
        self.call(landed, good.get(identity)).await
    }

    async fn purge(&self, good: &dyn Store, landed: &Landed, limit: NonZeroU32) -> Result<Purged, Error> {
        match self.kind {
            // What a purge whose reply was lost has deleted nobody can count.
            ErrorKind::Indeterminate => good.purge(limit).await,
            _ => self.call(landed, good.purge(limit)).await,
        }
    }
}

struct WaitsBeforeInFlight;

#[async_trait]
impl Twist for WaitsBeforeInFlight {
    async fn claim(&self, good: &dyn Store, landed: &Landed, claim: &Claim) -> Result<Claimed, Error> {
        let answer = good.claim(claim).await?;
        if !matches!(answer, Claimed::InFlight { .. }) {
            return Ok(answer);
        }
        landed.hit();
        tokio::time::sleep(Duration::from_millis(100)).await;
        // Asked again, so that `retry_after` is what is left after the wait.
        good.claim(claim).await
    }
}
