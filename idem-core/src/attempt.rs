//! What the work knows about the attempt that it is.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use sha2::{Digest, Sha256};
use tokio::sync::{Mutex, OwnedMutexGuard, watch};
use tokio::time::Instant;

use crate::{
    Checkpoint, Error, ErrorKind, Fence, Fingerprint, Grant, Identity, Key, Lease, PastAttempt, Renew, Renewed, Span,
    Store,
};

/// One running attempt, for the work that it runs. Cheap to clone.
#[derive(Clone)]
pub struct Attempt {
    shared: Arc<Shared>,
}

struct Shared {
    store: Arc<dyn Store>,
    grant: Grant,
    fingerprint: Fingerprint,
    sequence: AtomicU64,
    /// Has the work seen its lease? Then it may have ended the record itself, in a joint transaction.
    shown: AtomicBool,
    /// Is a joint transaction under way?
    settling: AtomicBool,
    standing: watch::Sender<Standing>,
    /// Held while the lease is renewed, and by [`Settling`], so that no renewal meets an open transaction.
    renewing: Arc<Mutex<()>>,
}

/// Where the lease stands, as far as this process knows.
#[derive(Clone, Copy, Debug)]
enum Standing {
    /// Held at least until then, by this process's monotonic clock.
    Held(Instant),
    /// Refused: the record is somebody else's.
    Lost,
    /// The work has ended. What it left running holds nothing any more.
    Over,
}

/// The lease is lost, or its local deadline has passed: call nothing outside any more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LeaseLost;

impl std::fmt::Display for LeaseLost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the lease of this attempt is lost or past its deadline")
    }
}

impl std::error::Error for LeaseLost {}

impl Attempt {
    /// `sent` is from before the claim was sent (clause T5).
    pub(crate) fn new(store: Arc<dyn Store>, grant: Grant, fingerprint: Fingerprint, sent: Instant) -> Attempt {
        let until = Standing::Held(sent + usable(grant.lease.length));
        let sequence = grant.checkpoint.as_ref().map_or(0, |checkpoint| checkpoint.sequence);
        Attempt {
            shared: Arc::new(Shared {
                store,
                grant,
                fingerprint,
                sequence: AtomicU64::new(sequence),
                shown: AtomicBool::new(false),
                settling: AtomicBool::new(false),
                standing: watch::Sender::new(until),
                renewing: Arc::default(),
            }),
        }
    }

    /// The lease: what a store's `settle` wants, and what a worker process needs to finish the attempt.
    ///
    /// Work that has asked for it may have ended the record itself, so its caller is answered from what is stored, also
    /// under [`Confirm::AtOnce`](crate::Confirm::AtOnce).
    #[must_use]
    pub fn lease(&self) -> &Lease {
        self.shared.shown.store(true, Ordering::Relaxed);
        self.own()
    }

    /// The lease, for the executor itself.
    pub(crate) fn own(&self) -> &Lease {
        &self.shared.grant.lease
    }

    pub(crate) fn lease_was_shown(&self) -> bool {
        self.shared.shown.load(Ordering::Relaxed)
    }

    /// 1 for the first attempt, then 2, …
    #[must_use]
    pub fn number(&self) -> u32 {
        self.own().attempt
    }

    /// How the attempt before this one ended. None on the first.
    #[must_use]
    pub fn previous(&self) -> Option<&PastAttempt> {
        self.shared.grant.previous.as_ref()
    }

    /// What earlier attempts left behind.
    #[must_use]
    pub fn last_checkpoint(&self) -> Option<&Checkpoint> {
        self.shared.grant.checkpoint.as_ref()
    }

    /// The fencing token, for the caller's own tables to refuse an older writer.
    #[must_use]
    pub fn fence(&self) -> Fence {
        self.own().fence
    }

    /// Whose key, and which.
    #[must_use]
    pub fn identity(&self) -> &Identity {
        &self.own().identity
    }

    /// The key exactly as the client sent it.
    #[must_use]
    pub fn key(&self) -> &Key {
        &self.identity().key
    }

    /// A key for one outside call of this operation, the same on every attempt, so that the provider recognises the
    /// second one. 32 hexadecimal digits (128 bits of SHA-256 over scope, key, fingerprint and step): short enough for
    /// every provider's limit.
    ///
    /// Unlike [`key`](Attempt::key) it does not let two users of *this* service meet at the provider.
    #[must_use]
    pub fn downstream_key(&self, step: &str) -> String {
        let mut hash = Sha256::new();
        hash.update(b"idem/downstream/v1\0");
        let identity = self.identity();
        let fingerprint = self.shared.fingerprint.as_bytes().as_slice();
        for part in [identity.scope.as_str().as_bytes(), identity.key.as_str().as_bytes(), fingerprint, step.as_bytes()]
        {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        hash.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect()
    }

    /// Until when this process may believe that it holds the lease: its monotonic clock from before the claim or
    /// renewal was sent, plus the lease, less a tenth as margin (clause T5). None once the lease is lost.
    #[must_use]
    pub fn deadline(&self) -> Option<std::time::Instant> {
        match *self.shared.standing.borrow() {
            Standing::Held(until) => Some(until.into_std()),
            Standing::Lost | Standing::Over => None,
        }
    }

    /// Asks before each outside call whether the lease still stands.
    ///
    /// # Errors
    /// [`LeaseLost`] when a renewal was refused, when the local deadline has passed without one, and when the attempt's
    /// work has ended: what it left running owns nothing.
    pub fn check(&self) -> Result<(), LeaseLost> {
        match *self.shared.standing.borrow() {
            Standing::Held(until) if Instant::now() < until => Ok(()),
            Standing::Held(_) | Standing::Lost | Standing::Over => Err(LeaseLost),
        }
    }

    /// Ends when [`check`](Attempt::check) would fail: to be raced against a long outside call.
    ///
    /// # Cancel safety
    /// Always.
    pub async fn lost(&self) -> LeaseLost {
        let mut standing = self.shared.standing.subscribe();
        loop {
            let Standing::Held(until) = *standing.borrow_and_update() else { return LeaseLost };
            tokio::select! {
                // The sender lives in `self`, so the channel cannot close while this waits.
                _ = standing.changed() => {}
                () = tokio::time::sleep_until(until) => {
                    if matches!(*standing.borrow(), Standing::Held(latest) if latest > until) { continue }
                    return LeaseLost;
                }
            }
        }
    }

    /// Leaves a checkpoint that the next attempt is handed if this one dies, and renews the lease with it.
    ///
    /// # Errors
    /// `TooLarge` above [`MAX_CHECKPOINT`](crate::MAX_CHECKPOINT) bytes. `Unsupported` while this attempt is
    /// [settling](Attempt::settling): the record is about to end. Otherwise the store's.
    ///
    /// # Cancel safety
    /// Dropped, the checkpoint is left wholly or not at all; a later one replaces it in either case.
    pub async fn checkpoint(&self, bytes: impl Into<Bytes> + Send) -> Result<Renewed, Error> {
        let bytes = bytes.into();
        if self.shared.settling.load(Ordering::SeqCst) {
            return Err(Error::new(ErrorKind::Unsupported, "no checkpoint while the attempt is settling"));
        }
        let _one_at_a_time = self.shared.renewing.lock().await;
        let sequence = self.shared.sequence.fetch_add(1, Ordering::Relaxed) + 1;
        self.send(Renew::new(self.own().clone()).checkpoint(sequence, bytes)?).await
    }

    /// Prepares a joint transaction (`settle`): renews the lease once for `length`, and keeps the heartbeat from
    /// meeting the transaction until the guard is dropped.
    ///
    /// # Errors
    /// The store's; `Ok(None)` when the lease is lost.
    ///
    /// # Cancel safety
    /// Always.
    pub async fn settling(&self, length: Span) -> Result<Option<Settling>, Error> {
        let guard = Arc::clone(&self.shared.renewing).lock_owned().await;
        let renewed = self.send(Renew::new(self.own().clone()).lasting(length)).await?;
        if renewed == Renewed::Lost {
            return Ok(None);
        }
        self.shared.settling.store(true, Ordering::SeqCst);
        Ok(Some(Settling { shared: Arc::clone(&self.shared), _guard: guard }))
    }

    pub(crate) fn fingerprint(&self) -> &Fingerprint {
        &self.shared.fingerprint
    }

    /// Renews the lease; what is heard is shown to the work. None, and nothing sent, while a checkpoint or a joint
    /// transaction takes care of the lease.
    pub(crate) async fn renew(&self) -> Option<Result<Renewed, Error>> {
        let _one_at_a_time = self.shared.renewing.try_lock().ok()?;
        Some(self.send(Renew::new(self.own().clone())).await)
    }

    /// Renews the lease before the work begins (clause C14).
    pub(crate) async fn announce(&self) -> Result<Renewed, Error> {
        let _one_at_a_time = self.shared.renewing.lock().await;
        self.send(Renew::new(self.own().clone())).await
    }

    /// Has the work ended?
    pub(crate) fn is_over(&self) -> bool {
        matches!(*self.shared.standing.borrow(), Standing::Over)
    }

    /// Tells whatever the work left running that it holds nothing any more.
    pub(crate) fn end(&self) {
        self.shared.standing.send_replace(Standing::Over);
    }

    fn lease_is_lost(&self) {
        self.shared.standing.send_if_modified(|standing| {
            let held = matches!(standing, Standing::Held(_));
            if held {
                *standing = Standing::Lost;
            }
            held
        });
    }

    async fn send(&self, renew: Renew) -> Result<Renewed, Error> {
        let sent = Instant::now();
        let renewed = self.shared.store.renew(&renew).await?;
        if renewed == Renewed::Lost {
            self.lease_is_lost();
            return Ok(renewed);
        }
        let heard = sent + usable(renew.length());
        self.shared.standing.send_if_modified(|standing| match standing {
            Standing::Held(until) if *until < heard => {
                *until = heard;
                true
            }
            // A renewal never shortens a lease (R2), and a lost one stays lost (R4).
            Standing::Held(_) | Standing::Lost | Standing::Over => false,
        });
        Ok(renewed)
    }
}

impl std::fmt::Debug for Attempt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Attempt").field("lease", self.own()).finish_non_exhaustive()
    }
}

/// While it lives, the heartbeat leaves the record alone.
pub struct Settling {
    shared: Arc<Shared>,
    _guard: OwnedMutexGuard<()>,
}

impl Drop for Settling {
    fn drop(&mut self) {
        self.shared.settling.store(false, Ordering::SeqCst);
    }
}

impl std::fmt::Debug for Settling {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Settling")
    }
}

/// A lease less its margin: a tenth, for what two clocks may disagree about its length.
fn usable(length: Span) -> Duration {
    length.as_duration().mul_f32(0.9)
}
