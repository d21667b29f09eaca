//! What Redis is told: hints and copies, behind the callers' backs.

use std::sync::Arc;

use idem_core::{Error, Final, Fingerprint, Identity, Lease, Recorded, Span, State, Store, StoreTime};

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
    /// The entry for a finished record that is replayable until then; None when it is too large to copy.
    pub(crate) fn done(
        &self,
        lease: &Lease,
        done: (Fingerprint, Final, &Recorded),
        kept: StoreTime,
        now: StoreTime,
    ) -> Option<Entry> {
        let (fingerprint, end, recorded) = done;
        if recorded.size() > self.largest {
            return None;
        }
        let until = kept.min(now.plus(self.life));
        Some(Entry { fence: lease.fence, until, says: Says::Done(Done::of(fingerprint, end, recorded)) })
    }

    /// Copies what the database says about an identity, when it is finished.
    pub(crate) async fn copy(&self, ground: &Ground, identity: &Identity) -> Result<(), Error> {
        let Some(record) = self.store.get(identity).await? else { return Ok(()) };
        let end = match record.state {
            State::Succeeded => Final::Succeeded,
            State::Failed => Final::Failed,
            State::Processing | State::Unknown | State::Released | State::Spent(_) => return Ok(()),
        };
        let Some(recorded) = record.recorded.as_ref().filter(|recorded| recorded.size() <= self.largest) else {
            self.counting.skipped.up();
            return Ok(());
        };
        let now = ground.reading.earliest(Here::now());
        let until = record.expires_at.min(now.plus(self.life));
        let says = Says::Done(Done::of(record.fingerprint, end, recorded));
        let entry = Entry { fence: record.fence, until, says };
        let name = entry::name(&ground.secret, &self.prefix, identity);
        match entry.seal(&ground.secret, &name) {
            Some(sealed) => self.cache.put(&name, &sealed, until.since(now)).await,
            None => self.counting.skipped.up(),
        }
        Ok(())
    }
}
