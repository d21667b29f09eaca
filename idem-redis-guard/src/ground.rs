//! What the guard keeps in the database through the store itself: the secret that seals entries, and readings of its clock.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use idem_core::{
    Claim, Claimed, Complete, End, Error, ErrorKind, Fingerprint, Identity, Key, Operation, Recorded, Release,
    Response, Scope, Span, Store,
};
use rand::TryRng;

use crate::clock::{Here, Reading};

/// The scope of the guard's own records. An application does not use it.
pub(crate) const SCOPE: &str = "idem-redis-guard";

/// After a try it is this long until the next.
const PAUSE: Duration = Duration::from_secs(1);

/// Names one database, and seals what Redis is told about it: entries of another store do not open.
#[derive(Clone)]
pub(crate) struct Secret([u8; 32]);

impl Secret {
    #[cfg(test)]
    pub(crate) const fn from_bytes(bytes: [u8; 32]) -> Secret {
        Secret(bytes)
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// What has to be known before Redis is asked anything.
#[derive(Clone)]
pub(crate) struct Ground {
    pub(crate) secret: Secret,
    pub(crate) reading: Reading,
}

/// Holds the ground, and renews it behind the callers' backs: no claim waits for it.
pub(crate) struct Keeper<S> {
    store: Arc<S>,
    namespace: String,
    known: Mutex<Known>,
    working: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct Known {
    secret: Option<Secret>,
    reading: Option<Reading>,
    next_try: Option<Instant>,
}

impl<S: Store + 'static> Keeper<S> {
    pub(crate) fn new(store: Arc<S>, namespace: &str) -> Keeper<S> {
        Keeper { store, namespace: namespace.to_owned(), known: Mutex::default(), working: tokio::sync::Mutex::new(()) }
    }

    /// The ground, when it is known and its reading can still be used.
    pub(crate) fn ground(&self, here: Here) -> Option<Ground> {
        let known = self.know();
        let reading = known.reading.filter(|reading| reading.latest(here).is_some())?;
        Some(Ground { secret: known.secret.clone()?, reading })
    }

    /// Is something missing or old, and is it time to try? Says yes to one caller only, and to another after a pause.
    pub(crate) fn wants(&self, here: Here) -> bool {
        let mut known = self.know();
        let satisfied = known.secret.is_some() && known.reading.is_some_and(|reading| reading.is_fresh(here));
        let now = Instant::now();
        if satisfied || known.next_try.is_some_and(|next| now < next) {
            return false;
        }
        known.next_try = Some(now + PAUSE);
        true
    }

    /// Learns what is missing. One call at a time works; others wait for it and find it done.
    ///
    /// # Errors
    /// As the store's, and a retryable `Unavailable` while another process is writing the same for the first time.
    pub(crate) async fn learn(&self) -> Result<(), Error> {
        let _one = self.working.lock().await;
        if self.know().secret.is_none() {
            let secret = self.secret().await?;
            self.know().secret = Some(secret);
        }
        let stale = !self.know().reading.is_some_and(|reading| reading.is_fresh(Here::now()));
        if stale {
            let reading = self.reading().await?;
            self.know().reading = Some(reading);
        }
        Ok(())
    }

    /// The secret that the first guard on this database has left for all: one record, decided as any other.
    async fn secret(&self) -> Result<Secret, Error> {
        let mut bytes = [0; 32];
        rand::rngs::SysRng.try_fill_bytes(&mut bytes).map_err(|error| {
            Error::new(ErrorKind::Unavailable, "the system has no randomness to give").with_source(error)
        })?;
        let claim = self.claim("secret", Span::saturating_secs(10), Span::MAX)?;
        match self.store.claim(&claim).await? {
            Claimed::Replay(replay) => secret_of(&replay.recorded),
            Claimed::Acquired(grant) => {
                let response = Response::new(0).with_body(bytes.to_vec());
                self.store.complete(&Complete::new(grant.lease, End::Succeeded(response.into()))).await?;
                // What is kept is what counts: another process may have taken over meanwhile.
                match self.store.get(claim.identity()).await?.and_then(|record| record.recorded) {
                    Some(recorded) => secret_of(&recorded),
                    None => Err(busy()),
                }
            }
            Claimed::InFlight { .. } => Err(busy()),
            _ => Err(Error::new(ErrorKind::Schema, "the guard's own record is not one")),
        }
    }

    /// Reads the database's clock: a claim, which is granted at an instant of it, and the record that says which.
    async fn reading(&self) -> Result<Reading, Error> {
        let claim = self.claim("clock", Span::saturating_secs(10), Span::saturating_secs(10))?;
        let asked = Here::now();
        let Claimed::Acquired(grant) = self.store.claim(&claim).await? else { return Err(busy()) };
        let told = Here::now();
        let record = self.store.get(claim.identity()).await;
        self.store.release(&Release::new(grant.lease)).await?;
        match record? {
            Some(record) if record.token == claim.token() => Ok(Reading::new(record.claimed_at, asked, told)),
            _ => Err(busy()),
        }
    }

    fn claim(&self, what: &str, lease: Span, retention: Span) -> Result<Claim, Error> {
        let operation = Operation::new(SCOPE)?;
        let identity = Identity::new(Scope::new(SCOPE)?, Key::new(format!("{what}/{}", self.namespace))?);
        let fingerprint = Fingerprint::of(&operation).finish();
        // Resolving, so that a process that died here is in nobody's way, however long ago.
        Claim::builder(identity, operation, fingerprint).lease(lease).retention(retention).resolving().build()
    }

    fn know(&self) -> std::sync::MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn secret_of(recorded: &Recorded) -> Result<Secret, Error> {
    let body = match recorded {
        Recorded::Response(response) => response.body.as_deref(),
        Recorded::Tombstone { .. } => None,
    };
    let bytes = body.and_then(|body| <[u8; 32]>::try_from(body).ok());
    bytes.map(Secret).ok_or_else(|| Error::new(ErrorKind::Schema, "the guard's own record is not one"))
}

fn busy() -> Error {
    Error::new(ErrorKind::Unavailable, "another process is at the guard's own record")
}
