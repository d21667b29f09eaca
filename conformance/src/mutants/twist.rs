//! Wrapping any good store, and twisting some of its calls.

use std::num::NonZeroU32;
use std::sync::Arc;

use async_trait::async_trait;
use idem_core::{
    Claim, Claimed, Complete, Completed, Error, Identity, Purged, Record, Release, Released, Renew, Renewed, Store,
};

use super::Landed;

/// What is done with the calls of a good store. Every method that a mutant does not write passes the call on.
#[async_trait]
pub trait Twist: Send + Sync {
    /// A claim.
    async fn claim(&self, good: &dyn Store, _landed: &Landed, claim: &Claim) -> Result<Claimed, Error> {
        good.claim(claim).await
    }

    /// A renewal.
    async fn renew(&self, good: &dyn Store, _landed: &Landed, renew: &Renew) -> Result<Renewed, Error> {
        good.renew(renew).await
    }

    /// A completion.
    async fn complete(&self, good: &dyn Store, _landed: &Landed, complete: &Complete) -> Result<Completed, Error> {
        good.complete(complete).await
    }

    /// A release.
    async fn release(&self, good: &dyn Store, _landed: &Landed, release: &Release) -> Result<Released, Error> {
        good.release(release).await
    }

    /// A look.
    async fn get(&self, good: &dyn Store, _landed: &Landed, identity: &Identity) -> Result<Option<Record>, Error> {
        good.get(identity).await
    }

    /// A purge.
    async fn purge(&self, good: &dyn Store, _landed: &Landed, limit: NonZeroU32) -> Result<Purged, Error> {
        good.purge(limit).await
    }
}

/// A good store whose calls are twisted.
pub struct Twisted {
    good: Arc<dyn Store>,
    twist: Box<dyn Twist>,
    landed: Landed,
}

impl Twisted {
    /// This store, twisted so.
    #[must_use]
    pub fn new(good: Arc<dyn Store>, twist: Box<dyn Twist>, landed: Landed) -> Twisted {
        Twisted { good, twist, landed }
    }
}

#[async_trait]
impl Store for Twisted {
    async fn claim(&self, claim: &Claim) -> Result<Claimed, Error> {
        self.twist.claim(self.good.as_ref(), &self.landed, claim).await
    }

    async fn renew(&self, renew: &Renew) -> Result<Renewed, Error> {
        self.twist.renew(self.good.as_ref(), &self.landed, renew).await
    }

    async fn complete(&self, complete: &Complete) -> Result<Completed, Error> {
        self.twist.complete(self.good.as_ref(), &self.landed, complete).await
    }

    async fn release(&self, release: &Release) -> Result<Released, Error> {
        self.twist.release(self.good.as_ref(), &self.landed, release).await
    }

    async fn get(&self, identity: &Identity) -> Result<Option<Record>, Error> {
        self.twist.get(self.good.as_ref(), &self.landed, identity).await
    }

    async fn purge(&self, limit: NonZeroU32) -> Result<Purged, Error> {
        self.twist.purge(self.good.as_ref(), &self.landed, limit).await
    }
}
