//! What Redis is told: hints and copies, behind the callers' backs.

use std::sync::Arc;

use idem_core::{Error, Fence, Final, Fingerprint, Identity, Lease, Recorded, Span, State, Store, StoreTime};

use crate::clock::Here;
use crate::entry::{self, Done, Entry, Running, Says};
use crate::ground::Ground;
use crate::guard::{Parts, RedisGuard};

impl<S: Store + 'static> RedisGuard<S> {
    /// Writes to Redis without making anybody wait, unless too many writes are under way.
    pub(crate) fn write(&self, ground: &Ground, identity: &Identity, entry: &Entry, now: StoreTime) {
        let name = entry::name(&ground.secret, &self.0.prefix, identity);
        let Some(sealed) = entry.seal(&ground.secret, &name) else { return self.0.counting.skipped.up() };
        // Redis' own clock only clears up; whether an entry is believed is decided by what it says.
        let life = entry.until.since(now);
        self.in_background(async move |parts| parts.cache.put(&name, &sealed, life).await);
    }

    /// A hint that this attempt is running, from the instant `asked` on.
    pub(crate) fn hint(&self, ground: &Ground, asked: Here, lease: &Lease, length: Span, fingerprint: Fingerprint) {
        let earliest = ground.reading.earliest(asked);
        let half = Span::micros(length.as_micros() / 2).unwrap_or(Span::MIN);
        let running = Running { fingerprint, token: lease.token };
        let until = earliest.plus(self.0.staleness.min(half));
        self.write(
            ground,
            &lease.identity,
            &Entry { fence: lease.fence, until, says: Says::Running(running) },
            earliest,
        );
    }

    /// Copies what the database says about an identity, without making anybody wait.
    pub(crate) fn copy_in_background(&self, ground: Ground, identity: &Identity) {
        let identity = identity.clone();
        self.in_background(async move |parts| {
            if let Err(error) = parts.copy(&ground, &identity).await {
                tracing::debug!(%error, "a finished record was not copied");
            }
        });
    }

    pub(crate) fn in_background<F>(&self, work: impl FnOnce(Arc<Parts<S>>) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        match Arc::clone(&self.0.writes).try_acquire_owned() {
            Ok(permit) => {
                let work = work(Arc::clone(&self.0));
                self.0.tasks.spawn(async move {
                    work.await;
                    drop(permit);
                });
            }
            Err(_) => self.0.counting.skipped.up(),
        }
    }

    /// Takes this attempt's hint away.
    pub(crate) fn nothing(&self, ground: &Ground, lease: &Lease, now: StoreTime) {
        let until = now.plus(self.0.staleness);
        self.write(ground, &lease.identity, &Entry { fence: lease.fence, until, says: Says::Nothing }, now);
    }
}

impl<S: Store + 'static> Parts<S> {
    /// The copy of a finished record that the database keeps replayable until `kept`; None when it is too large.
    pub(crate) fn done(&self, fence: Fence, done: Finished<'_>, kept: StoreTime, now: StoreTime) -> Option<Entry> {
        let Finished { fingerprint, end, recorded } = done;
        let until = kept.min(now.plus(self.life));
        let says = || Says::Done(Done::of(fingerprint, end, recorded));
        (recorded.size() <= self.largest).then(|| Entry { fence, until, says: says() })
    }

    /// Copies what the database says about an identity, when it is finished.
    pub(crate) async fn copy(&self, ground: &Ground, identity: &Identity) -> Result<(), Error> {
        let Some(record) = self.store.get(identity).await? else { return Ok(()) };
        let end = match record.state {
            State::Succeeded => Final::Succeeded,
            State::Failed => Final::Failed,
            State::Processing | State::Unknown | State::Released | State::Spent(_) => return Ok(()),
        };
        let now = ground.reading.earliest(Here::now());
        let name = entry::name(&ground.secret, &self.prefix, identity);
        let finished =
            record.recorded.as_ref().map(|recorded| Finished { fingerprint: record.fingerprint, end, recorded });
        let entry = finished.and_then(|finished| self.done(record.fence, finished, record.expires_at, now));
        match entry.and_then(|entry| Some((entry.seal(&ground.secret, &name)?, entry.until))) {
            Some((sealed, until)) => self.cache.put(&name, &sealed, until.since(now)).await,
            None => self.counting.skipped.up(),
        }
        Ok(())
    }
}

/// What of a finished record is copied.
pub(crate) struct Finished<'r> {
    pub(crate) fingerprint: Fingerprint,
    pub(crate) end: Final,
    pub(crate) recorded: &'r Recorded,
}
