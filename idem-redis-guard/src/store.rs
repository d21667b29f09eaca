//! The contract, with the pre-check before a claim and a copy after an end.

use std::num::NonZeroU32;

use async_trait::async_trait;
use idem_core::{
    Claim, Claimed, Complete, Completed, End, Error, Final, Identity, Purged, Record, Release, Released, Renew,
    Renewed, Store,
};

use crate::clock::Here;
use crate::copying::Finished;
use crate::guard::RedisGuard;
use crate::held::Asked;

// A method of the contract that is not forwarded must not compile, also one that has a default body one day.
#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl<S: Store + 'static> Store for RedisGuard<S> {
    async fn claim(&self, claim: &Claim) -> Result<Claimed, Error> {
        let Some(ground) = self.ground() else {
            self.0.counting.bypasses.up();
            return self.0.store.claim(claim).await;
        };
        if let Some(answer) = self.ask(claim, &ground).await {
            return Ok(answer);
        }
        let asked = Here::now();
        let kept_until = ground.reading.earliest(asked).plus(claim.retention());
        // Before it is sent: it may be granted, its reply lost, and be sent again.
        self.0.held.remember(claim.token(), Asked { fingerprint: *claim.fingerprint(), kept_until }).await;
        let answer = self.0.store.claim(claim).await;
        match &answer {
            Ok(Claimed::Acquired(grant)) => {
                self.hint(&ground, asked, &grant.lease, claim.lease(), *claim.fingerprint());
            }
            // It may have been granted: what was asked stays remembered.
            Err(_) => {}
            Ok(other) => {
                self.0.held.forget(claim.token()).await;
                // Redis had no copy: it was lost, or the record was finished elsewhere.
                if matches!(other, Claimed::Replay(replay) if replay.recorded.size() <= self.0.largest) {
                    self.copy_in_background(ground, claim.identity());
                }
            }
        }
        answer
    }

    async fn renew(&self, renew: &Renew) -> Result<Renewed, Error> {
        let asked = Here::now();
        let renewed = self.0.store.renew(renew).await?;
        let lease = renew.lease();
        if renewed == Renewed::Held
            && let Some(ground) = self.ground()
            && let Some(fingerprint) = self.0.held.fingerprint(lease).await
        {
            self.hint(&ground, asked, lease, renew.length(), fingerprint);
        }
        Ok(renewed)
    }

    async fn complete(&self, complete: &Complete) -> Result<Completed, Error> {
        let completed = self.0.store.complete(complete).await?;
        let lease = complete.lease();
        let asked = self.0.held.take(lease).await;
        let Some(ground) = self.ground() else { return Ok(completed) };
        let now = ground.reading.earliest(Here::now());
        let end = match complete.end() {
            End::Succeeded(recorded) => Some((Final::Succeeded, recorded)),
            End::Failed(recorded) => Some((Final::Failed, recorded)),
            End::Unknown(_) => None,
        };
        match (completed, end, asked) {
            (Completed::Stored, Some((end, recorded)), Some(asked)) => {
                let finished = Finished { fingerprint: asked.fingerprint, end, recorded };
                match self.0.done(lease.fence, finished, asked.kept_until, now) {
                    Some(entry) => self.write(&ground, &lease.identity, &entry, now),
                    None => self.nothing(&ground, lease, now),
                }
            }
            // The first end stays, whatever this one said (clause F2); or another attempt's claim decides about the
            // retention: the record says.
            (Completed::AlreadyStored, ..) | (Completed::Stored, Some(_), None) => {
                self.copy_in_background(ground, &lease.identity);
            }
            (Completed::Stored, None, _) | (Completed::Lost, ..) => self.nothing(&ground, lease, now),
        }
        Ok(completed)
    }

    async fn release(&self, release: &Release) -> Result<Released, Error> {
        let released = self.0.store.release(release).await?;
        self.0.held.take(release.lease()).await;
        if let Some(ground) = self.ground() {
            self.nothing(&ground, release.lease(), ground.reading.earliest(Here::now()));
        }
        Ok(released)
    }

    async fn get(&self, identity: &Identity) -> Result<Option<Record>, Error> {
        self.0.store.get(identity).await
    }

    async fn purge(&self, limit: NonZeroU32) -> Result<Purged, Error> {
        self.0.store.purge(limit).await
    }
}
