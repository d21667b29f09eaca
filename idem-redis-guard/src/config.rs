//! How a guard is set up.

use std::sync::Arc;
use std::time::Duration;

use idem_core::{Error, ErrorKind, Span, Store};
use redis::aio::{ConnectionLike, ConnectionManager, ConnectionManagerConfig};

use crate::RedisGuard;
use crate::cache::Link;

/// What a guard does when nothing else is said.
pub mod defaults {
    use std::time::Duration;

    use idem_core::Span;

    /// A call to Redis that takes longer has failed, and the database decides.
    pub const PATIENCE: Duration = Duration::from_millis(25);
    /// How long a hint may say "in flight" of an attempt that has ended since.
    pub const STALENESS: Span = Span::saturating_secs(1);
    /// How long a finished record's copy is used, however long its retention is: the bound on what a database that was
    /// restored from a backup can be contradicted.
    pub const LIFE: Span = Span::saturating_secs(3600);
    /// The largest response that is copied, in bytes. A large reply delays those behind it on the same connection.
    pub const LARGEST: usize = 64 * 1024;
    /// So many failures in a row open the breaker.
    pub const FAILURES: u32 = 5;
    /// How long an open breaker leaves Redis alone.
    pub const PAUSE: Duration = Duration::from_secs(1);
    /// How many writes to Redis may be under way at once; more are left out.
    pub const WRITES: usize = 64;
    /// How many unfinished grants are remembered.
    pub const HELD: u64 = 100_000;
}

/// Sets a guard up: [`RedisGuard::builder`].
#[must_use = "a guard is made by `redis` or `connection`"]
pub struct Builder<S> {
    pub(crate) store: Arc<S>,
    pub(crate) namespace: String,
    pub(crate) patience: Duration,
    pub(crate) staleness: Span,
    pub(crate) life: Span,
    pub(crate) largest: usize,
    pub(crate) failures: u32,
    pub(crate) pause: Duration,
}

impl<S: Store + 'static> Builder<S> {
    pub(crate) fn new(store: Arc<S>) -> Builder<S> {
        Builder {
            store,
            namespace: "1".to_owned(),
            patience: defaults::PATIENCE,
            staleness: defaults::STALENESS,
            life: defaults::LIFE,
            largest: defaults::LARGEST,
            failures: defaults::FAILURES,
            pause: defaults::PAUSE,
        }
    }

    /// Entries of another namespace are not read. All processes on one database say the same; another one after the
    /// database was restored from a backup makes every older entry void.
    pub fn namespace(mut self, namespace: impl Into<String>) -> Builder<S> {
        self.namespace = namespace.into();
        self
    }

    /// How long a call to Redis may take.
    pub fn patience(mut self, patience: Duration) -> Builder<S> {
        self.patience = patience;
        self
    }

    /// How long a hint may say "in flight" of an attempt that has ended since. It is never longer than half of the lease.
    pub fn staleness(mut self, staleness: Span) -> Builder<S> {
        self.staleness = staleness;
        self
    }

    /// How long a finished record's copy is used at most.
    pub fn life(mut self, life: Span) -> Builder<S> {
        self.life = life;
        self
    }

    /// The largest response that is copied, in bytes of meta and body.
    pub fn largest(mut self, bytes: usize) -> Builder<S> {
        self.largest = bytes;
        self
    }

    /// So many failures in a row open the breaker, and it leaves Redis alone for so long.
    pub fn breaker(mut self, failures: u32, pause: Duration) -> Builder<S> {
        (self.failures, self.pause) = (failures.max(1), pause);
        self
    }

    /// The guard over the Redis server at this URL (`redis://…`, `unix://…`, `rediss://…` with `tls-rustls`). Nothing is
    /// connected to yet, and a server that is not there is no error: the database decides until it is.
    ///
    /// Call it inside a Tokio runtime.
    ///
    /// # Errors
    /// `InvalidInput` when the URL is none.
    pub fn redis(self, url: &str) -> Result<RedisGuard<S>, Error> {
        // The driver's own text would show the URL, and with it the password.
        let refused = |_| Error::new(ErrorKind::InvalidInput, "the Redis URL is not valid");
        let client = redis::Client::open(url).map_err(refused)?;
        // The outer time-out and the breaker are what counts: the driver's own defaults would retry for seconds.
        let config = ConnectionManagerConfig::new()
            .set_number_of_retries(1)
            .set_min_delay(Duration::from_millis(50))
            .set_max_delay(Duration::from_secs(1))
            .set_connection_timeout(Some(Duration::from_secs(1)))
            .set_response_timeout(Some(Duration::from_secs(1)));
        let manager = ConnectionManager::new_lazy_with_config(client, config).map_err(refused)?;
        Ok(self.connection(manager))
    }

    /// The guard over a connection that the caller has made: a cluster's, one that a sentinel names.
    pub fn connection(self, connection: impl ConnectionLike + Clone + Send + Sync + 'static) -> RedisGuard<S> {
        let link: Arc<dyn Link> = Arc::new(connection);
        RedisGuard::new(self, link)
    }
}

impl<S> std::fmt::Debug for Builder<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Builder")
            .field("namespace", &self.namespace)
            .field("patience", &self.patience)
            .field("staleness", &self.staleness)
            .field("life", &self.life)
            .field("largest", &self.largest)
            .finish_non_exhaustive()
    }
}
