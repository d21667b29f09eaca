//! A store's handle as the rules use it: patient with retryable errors, impatient with silence.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use idem_core::{
    Claim, Claimed, Complete, Completed, End, Error, ErrorKind, Grant, Identity, Lease, Purged, Record, Release,
    Released, Renew, Renewed, Replay, Spent, Store, Uncertain,
};

use super::{Outcome, Stop};

/// No call of a store takes longer than this: its own deadline is far below.
const SILENCE: Duration = Duration::from_secs(30);

/// How often a retryable error is answered by the same request again.
const TRIES: u32 = 10;

/// A store's handle as the rules use it.
///
/// A retryable error is legal at any time, so the request is sent again, with the same token. What is not retryable
/// fails the rule that did not ask for it.
#[derive(Clone)]
pub struct Handle {
    store: Arc<dyn Store>,
}

impl Handle {
    pub(crate) fn new(store: Arc<dyn Store>) -> Handle {
        Handle { store }
    }

    /// The store itself, for rules about errors.
    #[must_use]
    pub fn raw(&self) -> &dyn Store {
        self.store.as_ref()
    }

    /// The same, for an executor that keeps it.
    #[must_use]
    pub fn shared(&self) -> Arc<dyn Store> {
        Arc::clone(&self.store)
    }

    pub(crate) fn is_same(&self, other: &Handle) -> bool {
        std::ptr::addr_eq(Arc::as_ptr(&self.store), Arc::as_ptr(&other.store))
    }

    /// Claims.
    ///
    /// # Errors
    /// When the store does not answer, or with an error that is not retryable.
    pub async fn claim(&self, claim: &Claim) -> Result<Claimed, Stop> {
        persist("claim", || self.store.claim(claim)).await.map(|(answer, _)| answer)
    }

    /// Renews.
    ///
    /// # Errors
    /// As [`claim`](Self::claim).
    pub async fn renew(&self, renew: &Renew) -> Result<Renewed, Stop> {
        persist("renew", || self.store.renew(renew)).await.map(|(answer, _)| answer)
    }

    /// Claims, for rules about errors: the error that is left when the same request again cannot help, or did not.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn try_claim(&self, claim: &Claim) -> Result<Result<Claimed, Error>, Stop> {
        ask("claim", || self.store.claim(claim)).await.map(|(answer, _, _)| answer)
    }

    /// Completes, for rules about errors.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn try_complete(&self, lease: &Lease, end: End) -> Result<Result<Completed, Error>, Stop> {
        let complete = Complete::new(lease.clone(), end);
        ask("complete", || self.store.complete(&complete)).await.map(|(answer, _, _)| answer)
    }

    /// Completes.
    ///
    /// # Errors
    /// As [`claim`](Self::claim).
    pub async fn complete(&self, lease: &Lease, end: End) -> Result<Completed, Stop> {
        let complete = Complete::new(lease.clone(), end);
        persist("complete", || self.store.complete(&complete)).await.map(|(answer, _)| answer)
    }

    /// Releases this attempt.
    ///
    /// # Errors
    /// As [`claim`](Self::claim).
    pub async fn release(&self, lease: &Lease) -> Result<Released, Stop> {
        self.release_so(&Release::new(lease.clone())).await
    }

    /// Releases.
    ///
    /// # Errors
    /// As [`claim`](Self::claim).
    pub async fn release_so(&self, release: &Release) -> Result<Released, Stop> {
        persist("release", || self.store.release(release)).await.map(|(answer, _)| answer)
    }

    /// Looks.
    ///
    /// # Errors
    /// As [`claim`](Self::claim).
    pub async fn get(&self, identity: &Identity) -> Result<Option<Record>, Stop> {
        persist("get", || self.store.get(identity)).await.map(|(answer, _)| answer)
    }

    /// Purges at most so many rows, once.
    ///
    /// # Errors
    /// As [`claim`](Self::claim); inconclusive when an error left open what was deleted.
    pub async fn purge(&self, limit: u32) -> Result<Purged, Stop> {
        let limit = NonZeroU32::new(limit).ok_or_else(|| Stop::Error("the suite purged with limit 0".into()))?;
        match persist("purge", || self.store.purge(limit)).await? {
            (_, Doubt::MayBeApplied) => {
                Err(Stop::Inconclusive("a purge ended as indeterminate, so the counts are not known".into()))
            }
            (purged, Doubt::None) => Ok(purged),
        }
    }

    /// Purges until a call touches nothing. A purge may do less than its limit, so the sum is what counts.
    ///
    /// # Errors
    /// As [`purge`](Self::purge), and when a call goes over its limit or there is no end.
    pub async fn purge_all(&self, limit: u32) -> Result<Purged, Stop> {
        let mut sum = Purged::default();
        for _ in 0..10_000 {
            let purged = self.purge(limit).await?;
            let rows = purged.rows();
            super::ensure!(rows <= u64::from(limit), "a purge with limit {limit} says that it touched {rows} rows");
            if rows == 0 {
                return Ok(sum);
            }
            sum.deleted += purged.deleted;
            sum.dropped += purged.dropped;
        }
        Err(Stop::Fail("purge never comes to an end".into()))
    }

    /// A claim that has to be granted.
    ///
    /// # Errors
    /// When it is not.
    pub async fn acquire(&self, claim: &Claim, when: &str) -> Result<Grant, Stop> {
        match self.claim(claim).await? {
            Claimed::Acquired(grant) => {
                super::ensure_eq!(
                    grant.lease.token,
                    claim.token(),
                    "the granted lease has another token than the claim"
                );
                super::ensure_eq!(grant.lease.identity, *claim.identity(), "the granted lease is for another identity");
                Ok(grant)
            }
            other => Err(unexpected(when, "Acquired", &other)),
        }
    }

    /// A claim that has to be told to wait.
    ///
    /// # Errors
    /// When it is not.
    pub async fn in_flight(&self, claim: &Claim, when: &str) -> Result<Duration, Stop> {
        match self.claim(claim).await? {
            Claimed::InFlight { retry_after } => Ok(retry_after),
            other => Err(unexpected(when, "InFlight", &other)),
        }
    }

    /// A claim that has to be replayed.
    ///
    /// # Errors
    /// When it is not.
    pub async fn replay(&self, claim: &Claim, when: &str) -> Result<Replay, Stop> {
        match self.claim(claim).await? {
            Claimed::Replay(replay) => Ok(replay),
            other => Err(unexpected(when, "Replay", &other)),
        }
    }

    /// A claim that has to be held.
    ///
    /// # Errors
    /// When it is not.
    pub async fn uncertain(&self, claim: &Claim, when: &str) -> Result<Uncertain, Stop> {
        match self.claim(claim).await? {
            Claimed::Uncertain(uncertain) => Ok(uncertain),
            other => Err(unexpected(when, "Uncertain", &other)),
        }
    }

    /// A claim of something that is only remembered.
    ///
    /// # Errors
    /// When it is not.
    pub async fn spent(&self, claim: &Claim, when: &str) -> Result<Spent, Stop> {
        match self.claim(claim).await? {
            Claimed::Spent(spent) => Ok(spent),
            other => Err(unexpected(when, "Spent", &other)),
        }
    }

    /// A claim of another request under the same key.
    ///
    /// # Errors
    /// When it is not refused as such.
    pub async fn mismatch(&self, claim: &Claim, when: &str) -> Outcome {
        match self.claim(claim).await? {
            Claimed::Mismatch => Ok(()),
            other => Err(unexpected(when, "Mismatch", &other)),
        }
    }

    /// A first completion, that has to be stored. After an indeterminate error `AlreadyStored` says that an earlier try
    /// was applied.
    ///
    /// # Errors
    /// When it is not.
    pub async fn store_end(&self, lease: &Lease, end: End) -> Outcome {
        let complete = Complete::new(lease.clone(), end);
        match persist("complete", || self.store.complete(&complete)).await? {
            (Completed::AlreadyStored, Doubt::MayBeApplied) => {}
            (answer, _) => super::ensure_eq!(answer, Completed::Stored, "the owner completed its attempt"),
        }
        Ok(())
    }

    /// A release that has to be accepted.
    ///
    /// # Errors
    /// When it is not.
    pub async fn give_back(&self, lease: &Lease) -> Outcome {
        let answer = self.release(lease).await?;
        super::ensure_eq!(answer, Released::Released, "the owner released its attempt");
        Ok(())
    }

    /// A renewal that has to be held.
    ///
    /// # Errors
    /// When it is not.
    pub async fn hold(&self, renew: &Renew) -> Outcome {
        let answer = self.renew(renew).await?;
        super::ensure_eq!(answer, Renewed::Held, "the owner renewed its lease");
        Ok(())
    }
}

fn unexpected(when: &str, expected: &str, got: &Claimed) -> Stop {
    Stop::Fail(format!("a claim {when} was answered {}, expected {expected}", name_of(got)))
}

/// What a claim was answered, without what it carries.
pub(crate) fn name_of(answer: &Claimed) -> &'static str {
    match answer {
        Claimed::Acquired(_) => "Acquired",
        Claimed::Replay(_) => "Replay",
        Claimed::InFlight { .. } => "InFlight",
        Claimed::Mismatch => "Mismatch",
        Claimed::Uncertain(_) => "Uncertain",
        Claimed::Spent(_) => "Spent",
    }
}

/// Has an earlier try left it open whether the request was applied?
#[derive(Clone, Copy, PartialEq, Eq)]
enum Doubt {
    None,
    MayBeApplied,
}

/// Sends the same request again for as long as the error says that it can help. What is left is a failure.
async fn persist<T, F>(what: &str, request: impl Fn() -> F) -> Result<(T, Doubt), Stop>
where
    F: Future<Output = Result<T, Error>>,
{
    match ask(what, request).await? {
        (Ok(answer), doubt, _) => Ok((answer, doubt)),
        (Err(error), _, 1) => Err(Stop::Fail(format!("{what} was answered with an error: {error}"))),
        (Err(error), _, tries) => Err(Stop::Fail(format!("{what} was answered with an error, {tries} times: {error}"))),
    }
}

/// Sends the same request again for as long as the error says that it can help; gives back the last answer, and how
/// often it was asked for.
async fn ask<T, F>(what: &str, request: impl Fn() -> F) -> Result<(Result<T, Error>, Doubt, u32), Stop>
where
    F: Future<Output = Result<T, Error>>,
{
    let mut doubt = Doubt::None;
    let mut tries = 1;
    loop {
        let Ok(answer) = tokio::time::timeout(SILENCE, request()).await else {
            return Err(Stop::Fail(format!("{what} did not answer within {SILENCE:?}")));
        };
        match answer {
            Err(error) if error.is_retryable() && tries < TRIES => {
                if error.kind() == ErrorKind::Indeterminate {
                    doubt = Doubt::MayBeApplied;
                }
                tries += 1;
                tokio::task::yield_now().await;
            }
            last => return Ok((last, doubt, tries)),
        }
    }
}
