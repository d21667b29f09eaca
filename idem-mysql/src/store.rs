//! The store: a handle that carries operations out.

use std::num::NonZeroU32;
use std::sync::Arc;

use async_trait::async_trait;
use idem_core::{
    Claim, Claimed, Complete, Completed, Error, ErrorKind, Identity, Purged, Record, Release, Released, Renew, Renewed,
    Store,
};
use mysql_async::Opts;

use crate::config::Builder;
use crate::drive::{Shared, carry_out};
use crate::operation::{Purge, check_size};
use crate::server::Server;
use crate::startup::Facts;

/// An idempotency store in a MySQL or MariaDB database.
///
/// It has a pool of its own, whose sessions it sets up. The store is a handle: clones share the pool, which belongs to
/// the Tokio runtime on which the store was opened.
#[derive(Clone, Debug)]
pub struct MySqlStore {
    pub(crate) shared: Arc<Shared>,
    server: Server,
}

impl MySqlStore {
    /// Opens the store in the database that this URL names (`mysql://user:password@host:3306/database`), with the default
    /// settings; makes the tables that are missing.
    ///
    /// # Errors
    /// `InvalidInput` when it is no such URL; otherwise as [`Builder::open`].
    ///
    /// # Cancel safety
    /// As [`Builder::open`].
    pub async fn open(url: &str) -> Result<MySqlStore, Error> {
        // The driver's error shows parts of the URL, which may hold a password.
        let opts = Opts::from_url(url).map_err(|_| {
            Error::new(ErrorKind::InvalidInput, "not a URL of a database: mysql://user:password@host:3306/database")
        })?;
        MySqlStore::builder(opts).open().await
    }

    /// Starts to say how the store in this database is opened, with the driver's own options.
    pub fn builder(opts: impl Into<Opts>) -> Builder {
        Builder::new(opts.into())
    }

    /// Which server it is.
    #[must_use]
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// The longest response that is kept, in bytes of meta and body.
    #[must_use]
    pub fn response_limit(&self) -> usize {
        self.shared.context.response_limit
    }

    /// Waits for the operations that run, and closes the connections. Operations of other handles answer `Unavailable`
    /// from now on.
    ///
    /// # Cancel safety
    /// Dropped, the store closes all the same.
    pub async fn close(&self) {
        // The only error is a goodbye that the server did not wait for.
        let _ = self.shared.pool.clone().disconnect().await;
    }

    pub(crate) fn new(shared: Shared, facts: Facts) -> MySqlStore {
        MySqlStore { shared: Arc::new(shared), server: facts.server }
    }
}

#[async_trait]
impl Store for MySqlStore {
    async fn claim(&self, claim: &Claim) -> Result<Claimed, Error> {
        carry_out(&self.shared, claim.clone()).await
    }

    async fn renew(&self, renew: &Renew) -> Result<Renewed, Error> {
        carry_out(&self.shared, renew.clone()).await
    }

    async fn complete(&self, complete: &Complete) -> Result<Completed, Error> {
        check_size(complete.end().recorded(), self.response_limit())?;
        carry_out(&self.shared, complete.clone()).await
    }

    async fn release(&self, release: &Release) -> Result<Released, Error> {
        carry_out(&self.shared, release.clone()).await
    }

    async fn get(&self, identity: &Identity) -> Result<Option<Record>, Error> {
        carry_out(&self.shared, identity.clone()).await
    }

    async fn purge(&self, limit: NonZeroU32) -> Result<Purged, Error> {
        carry_out(&self.shared, Purge(limit)).await
    }
}
