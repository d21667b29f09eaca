//! The store: a handle that sends operations to the server.

use std::num::NonZeroU32;
use std::sync::Arc;

use async_trait::async_trait;
use idem_core::{
    Claim, Claimed, Complete, Completed, Error, ErrorKind, Identity, Purged, Record, Release, Released, Renew, Renewed,
    Store,
};
use sqlx::PgPool;
use sqlx::postgres::PgConnectOptions;

use crate::config::Builder;
use crate::delivery::Delivery;
use crate::operation::{Context, Get, Purge, check_size};

/// An idempotency store in a PostgreSQL database.
///
/// The store is a handle: clones share the pool. Operations run in tasks of their own on the Tokio runtime, so a caller
/// that leaves never cuts one in half.
#[derive(Clone, Debug)]
pub struct PostgresStore {
    pub(crate) delivery: Arc<Delivery>,
}

impl PostgresStore {
    /// Opens the store of this database (`postgres://user@host/database`) with the default settings; makes its two
    /// tables in the schema `public` when they are missing.
    ///
    /// # Errors
    /// As [`Builder::open`], and `InvalidInput` for a URL that is none.
    ///
    /// # Cancel safety
    /// As [`Builder::open`].
    pub async fn open(url: &str) -> Result<PostgresStore, Error> {
        let not_a_url = || Error::new(ErrorKind::InvalidInput, "this is not the URL of a PostgreSQL database");
        // The driver takes any scheme, and its words may show the URL, and with it a password.
        if !url.starts_with("postgres://") && !url.starts_with("postgresql://") {
            return Err(not_a_url());
        }
        let options: PgConnectOptions = url.parse().map_err(|_| not_a_url())?;
        PostgresStore::builder(options).open().await
    }

    /// Starts to say how the store is opened, with a pool of its own. This is the right way: what an application does on
    /// its connections cannot reach the store's.
    pub fn builder(options: PgConnectOptions) -> Builder {
        Builder::own(options)
    }

    /// Starts to say how the store is opened on a pool of the application's.
    ///
    /// Each connection is asked, in a round trip of its own, whether it was left inside a transaction, and is closed if
    /// it was; see [`refuse_leaked`](crate::refuse_leaked) for the application's own statements. The pool's connections
    /// need a `lock_timeout`.
    pub fn on_pool(pool: PgPool) -> Builder {
        Builder::shared(pool)
    }

    pub(crate) fn new(delivery: Arc<Delivery>) -> PostgresStore {
        PostgresStore { delivery }
    }

    /// Closes the pool, waiting for what is under way; also one of the application's. Operations answer `Unavailable`
    /// from now on.
    ///
    /// # Cancel safety
    /// Dropped, the pool closes all the same.
    pub async fn close(&self) {
        self.delivery.pool.close().await;
    }

    pub(crate) fn context(&self) -> &Context {
        &self.delivery.context
    }
}

#[async_trait]
impl Store for PostgresStore {
    async fn claim(&self, claim: &Claim) -> Result<Claimed, Error> {
        self.delivery.deliver(claim.clone()).await
    }

    async fn renew(&self, renew: &Renew) -> Result<Renewed, Error> {
        self.delivery.deliver(renew.clone()).await
    }

    async fn complete(&self, complete: &Complete) -> Result<Completed, Error> {
        check_size(complete.end().recorded(), self.context().response_limit)?;
        self.delivery.deliver(complete.clone()).await
    }

    async fn release(&self, release: &Release) -> Result<Released, Error> {
        self.delivery.deliver(release.clone()).await
    }

    async fn get(&self, identity: &Identity) -> Result<Option<Record>, Error> {
        self.delivery.deliver(Get(identity.clone())).await
    }

    async fn purge(&self, limit: NonZeroU32) -> Result<Purged, Error> {
        self.delivery.deliver(Purge(limit)).await
    }
}
