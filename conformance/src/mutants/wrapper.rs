//! Mutants that wrap a good store, anybody's.

use std::num::NonZeroU32;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use idem_core::{
    Claim, Claimed, Complete, Completed, Error, ErrorKind, Fence, Grant, Identity, Lease, Purged, Record, Release,
    Released, Renew, Renewed, Store, StoreTime,
};

use super::twist::Twist;
use super::{Kind, Landed, Mutant};

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant {
        id: "W-grants-everything",
        kind: Kind::Wrapper(|| Box::new(GrantsEverything)),
        kills: "CLAIM-002",
        because: "Acquired is the answer to every claim.",
        says: "a claim during a running lease was answered Acquired, expected InFlight",
    },
    Mutant {
        id: "W-refuses-everything",
        kind: Kind::Wrapper(|| Box::new(RefusesEverything)),
        kills: "CLAIM-001",
        because: "A store that refuses everything never runs anything twice, either.",
        says: "a claim of an absent identity was answered InFlight, expected Acquired",
    },
    Mutant {
        id: "W-fails-everything",
        kind: Kind::Wrapper(|| Box::new(FailsEverything)),
        kills: "CLAIM-001",
        because: "A store that answers with errors alone.",
        says: "was answered with an error",
    },
    Mutant {
        id: "W-claims-unsupported",
        kind: Kind::Wrapper(|| Box::new(ClaimsUnsupported)),
        kills: "CLAIM-001",
        because: "A mandatory operation is called unsupported.",
        says: "does not support",
    },
    Mutant {
        id: "W-acquired-before-commit",
        kind: Kind::Wrapper(|| Box::new(AcquiredBeforeCommit(Mutex::default()))),
        kills: "CLAIM-008",
        because: "Acquired is answered before the commit.",
        says: "the fence that a second handle sees right after the grant",
    },
    Mutant {
        id: "W-stored-before-commit",
        kind: Kind::Wrapper(|| Box::new(StoredBeforeCommit(Mutex::default()))),
        kills: "COMPLETE-008",
        because: "Stored is answered, and written with the handle's next call.",
        says: "through a second handle, right after Stored was answered InFlight",
    },
    Mutant {
        id: "W-ends-neighbours",
        kind: Kind::Wrapper(|| Box::new(EndsNeighbours(Mutex::default()))),
        kills: "COMPLETE-006",
        because: "An UPDATE with the key alone, without the scope.",
        says: "the completion of another record changed the record",
    },
    Mutant {
        id: "W-complete-ignores-token",
        kind: Kind::Wrapper(|| Box::new(CompleteIgnoresToken)),
        kills: "FENCE-002",
        because: "A completion is as good as the current owner's.",
        says: "the stale owner's completion: Stored",
    },
    Mutant {
        id: "W-too-large-is-unavailable",
        kind: Kind::Wrapper(|| Box::new(TooLargeIsUnavailable)),
        kills: "ERR-007",
        because: "Every driver error is mapped to Unavailable, worth another try.",
        says: "the error of a response over the limit",
    },
    Mutant {
        id: "W-error-names-the-key",
        kind: Kind::Wrapper(|| Box::new(ErrorNamesKey)),
        kills: "ERR-008",
        because: "The error's text quotes the statement's parameters.",
        says: "names a secret",
    },
    Mutant {
        id: "W-purge-counts-its-limit",
        kind: Kind::Wrapper(|| Box::new(PurgeCountsLimit)),
        kills: "PURGE-003",
        because: "Purge tells how many it looked for, and not how many it deleted.",
        says: "what purge says it deleted and dropped",
    },
    Mutant {
        id: "W-claims-in-two-steps",
        kind: Kind::Wrapper(|| Box::new(ClaimsInTwoSteps)),
        kills: "CANCEL-001",
        because: "A claim is first made under a token that its caller does not know.",
        says: "it was answered Claim(InFlight",
    },
    Mutant {
        id: "W-ends-in-two-steps",
        kind: Kind::Wrapper(|| Box::new(EndsInTwoSteps)),
        kills: "CANCEL-002",
        because: "A completion first gives its lease up, to write the end under a fresh one.",
        says: "it was answered Complete(Lost)",
    },
    Mutant {
        id: "W-release-does-nothing",
        kind: Kind::Wrapper(|| Box::new(ReleasesNothing)),
        kills: "CANCEL-003",
        because: "A release is acknowledged, and never sent.",
        says: "ran nothing, and leaks its lease",
    },
];

struct GrantsEverything;

#[async_trait]
impl Twist for GrantsEverything {
    async fn claim(&self, good: &dyn Store, landed: &Landed, claim: &Claim) -> Result<Claimed, Error> {
        match good.claim(claim).await? {
            Claimed::Acquired(grant) => Ok(Claimed::Acquired(grant)),
            _ => {
                landed.hit();
                Ok(Claimed::Acquired(made_up(claim)))
            }
        }
    }
}

/// A grant that no store has given.
pub(super) fn made_up(claim: &Claim) -> Grant {
    let fence = Fence::new(StoreTime::of_this_host().as_micros());
    let (identity, token, length) = (claim.identity().clone(), claim.token(), claim.lease());
    Grant { lease: Lease { identity, token, fence, attempt: 1, length }, previous: None, checkpoint: None }
}

struct RefusesEverything;

#[async_trait]
impl Twist for RefusesEverything {
    async fn claim(&self, _: &dyn Store, landed: &Landed, _: &Claim) -> Result<Claimed, Error> {
        landed.hit();
        Ok(Claimed::InFlight { retry_after: Duration::from_secs(1) })
    }

    async fn renew(&self, _: &dyn Store, _: &Landed, _: &Renew) -> Result<Renewed, Error> {
        Ok(Renewed::Lost)
    }

    async fn complete(&self, _: &dyn Store, _: &Landed, _: &Complete) -> Result<Completed, Error> {
        Ok(Completed::Lost)
    }

    async fn release(&self, _: &dyn Store, _: &Landed, _: &Release) -> Result<Released, Error> {
        Ok(Released::Lost)
    }
}

struct FailsEverything;

#[async_trait]
impl Twist for FailsEverything {
    async fn claim(&self, _: &dyn Store, landed: &Landed, _: &Claim) -> Result<Claimed, Error> {
        landed.hit();
        Err(Error::new(ErrorKind::Unavailable, "not today"))
    }
}

struct ClaimsUnsupported;

#[async_trait]
impl Twist for ClaimsUnsupported {
    async fn claim(&self, _: &dyn Store, landed: &Landed, _: &Claim) -> Result<Claimed, Error> {
        landed.hit();
        Err(Error::new(ErrorKind::Unsupported, "claims are not supported"))
    }
}

/// A claim that is answered, and sent with the handle's next call.
struct AcquiredBeforeCommit(Mutex<Option<Claim>>);

impl AcquiredBeforeCommit {
    async fn commit(&self, good: &dyn Store) -> Result<(), Error> {
        let open = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        match open {
            Some(claim) => good.claim(&claim).await.map(|_| ()),
            None => Ok(()),
        }
    }
}

#[async_trait]
impl Twist for AcquiredBeforeCommit {
    async fn claim(&self, good: &dyn Store, landed: &Landed, claim: &Claim) -> Result<Claimed, Error> {
        self.commit(good).await?;
        if good.get(claim.identity()).await?.is_some() {
            return good.claim(claim).await;
        }
        landed.hit();
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(claim.clone());
        Ok(Claimed::Acquired(made_up(claim)))
    }

    async fn complete(&self, good: &dyn Store, _: &Landed, complete: &Complete) -> Result<Completed, Error> {
        self.commit(good).await?;
        good.complete(complete).await
    }

    async fn get(&self, good: &dyn Store, _: &Landed, identity: &Identity) -> Result<Option<Record>, Error> {
        self.commit(good).await?;
        good.get(identity).await
    }
}

/// A completion that is answered, and sent with the handle's next call.
struct StoredBeforeCommit(Mutex<Option<Complete>>);

impl StoredBeforeCommit {
    async fn commit(&self, good: &dyn Store) -> Result<(), Error> {
        let open = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        match open {
            Some(complete) => good.complete(&complete).await.map(|_| ()),
            None => Ok(()),
        }
    }
}

#[async_trait]
impl Twist for StoredBeforeCommit {
    async fn claim(&self, good: &dyn Store, _: &Landed, claim: &Claim) -> Result<Claimed, Error> {
        self.commit(good).await?;
        good.claim(claim).await
    }

    async fn complete(&self, good: &dyn Store, landed: &Landed, complete: &Complete) -> Result<Completed, Error> {
        self.commit(good).await?;
        landed.hit();
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(complete.clone());
        Ok(Completed::Stored)
    }

    async fn get(&self, good: &dyn Store, _: &Landed, identity: &Identity) -> Result<Option<Record>, Error> {
        self.commit(good).await?;
        good.get(identity).await
    }
}

/// Ends every attempt under the same key that this handle has granted.
struct EndsNeighbours(Mutex<Vec<Lease>>);

#[async_trait]
impl Twist for EndsNeighbours {
    async fn claim(&self, good: &dyn Store, _: &Landed, claim: &Claim) -> Result<Claimed, Error> {
        let answer = good.claim(claim).await?;
        if let Claimed::Acquired(grant) = &answer {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).push(grant.lease.clone());
        }
        Ok(answer)
    }

    async fn complete(&self, good: &dyn Store, landed: &Landed, complete: &Complete) -> Result<Completed, Error> {
        let granted = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let own = &complete.lease().identity;
        for lease in granted.into_iter().filter(|lease| lease.identity.key == own.key && lease.identity != *own) {
            landed.hit();
            good.complete(&Complete::new(lease, complete.end().clone())).await?;
        }
        good.complete(complete).await
    }
}

struct CompleteIgnoresToken;

#[async_trait]
impl Twist for CompleteIgnoresToken {
    async fn complete(&self, good: &dyn Store, landed: &Landed, complete: &Complete) -> Result<Completed, Error> {
        let mut lease = complete.lease().clone();
        if let Some(record) = good.get(&lease.identity).await?
            && (record.token, record.fence) != (lease.token, lease.fence)
        {
            landed.hit();
            (lease.token, lease.fence) = (record.token, record.fence);
        }
        good.complete(&Complete::new(lease, complete.end().clone())).await
    }
}

struct TooLargeIsUnavailable;

#[async_trait]
impl Twist for TooLargeIsUnavailable {
    async fn complete(&self, good: &dyn Store, landed: &Landed, complete: &Complete) -> Result<Completed, Error> {
        good.complete(complete).await.map_err(|error| {
            landed.hit();
            Error::new(ErrorKind::Unavailable, error.message().to_owned())
        })
    }
}

struct ErrorNamesKey;

#[async_trait]
impl Twist for ErrorNamesKey {
    async fn complete(&self, good: &dyn Store, landed: &Landed, complete: &Complete) -> Result<Completed, Error> {
        good.complete(complete).await.map_err(|error| {
            landed.hit();
            let cause = std::io::Error::other(format!("parameter 2 = '{}'", complete.lease().identity.key.as_str()));
            Error::new(error.kind(), error.message().to_owned()).with_source(cause)
        })
    }
}

struct PurgeCountsLimit;

#[async_trait]
impl Twist for PurgeCountsLimit {
    async fn purge(&self, good: &dyn Store, landed: &Landed, limit: NonZeroU32) -> Result<Purged, Error> {
        let purged = good.purge(limit).await?;
        if purged.deleted == 0 {
            return Ok(purged);
        }
        landed.hit();
        Ok(Purged { deleted: u64::from(limit.get()), ..purged })
    }
}

struct ClaimsInTwoSteps;

#[async_trait]
impl Twist for ClaimsInTwoSteps {
    async fn claim(&self, good: &dyn Store, landed: &Landed, claim: &Claim) -> Result<Claimed, Error> {
        let first = Claim::builder(claim.identity().clone(), claim.operation().clone(), *claim.fingerprint())
            .lease(claim.lease())
            .retention(claim.retention())
            .on_uncertain(claim.on_uncertain())
            .build()?;
        let Claimed::Acquired(grant) = good.claim(&first).await? else { return good.claim(claim).await };
        landed.hit();
        tokio::task::yield_now().await;
        good.release(&Release::new(grant.lease)).await?;
        good.claim(claim).await
    }
}

struct EndsInTwoSteps;

#[async_trait]
impl Twist for EndsInTwoSteps {
    async fn complete(&self, good: &dyn Store, landed: &Landed, complete: &Complete) -> Result<Completed, Error> {
        let lease = complete.lease();
        let Some(record) = good.get(&lease.identity).await? else { return good.complete(complete).await };
        if good.release(&Release::new(lease.clone())).await? == Released::Lost {
            return good.complete(complete).await;
        }
        landed.hit();
        tokio::task::yield_now().await;
        let again = Claim::builder(record.identity, record.operation, record.fingerprint).token(lease.token).build()?;
        match good.claim(&again).await? {
            Claimed::Acquired(grant) => good.complete(&Complete::new(grant.lease, complete.end().clone())).await,
            _ => Ok(Completed::Lost),
        }
    }
}

struct ReleasesNothing;

#[async_trait]
impl Twist for ReleasesNothing {
    async fn release(&self, _: &dyn Store, landed: &Landed, _: &Release) -> Result<Released, Error> {
        landed.hit();
        Ok(Released::Released)
    }
}
