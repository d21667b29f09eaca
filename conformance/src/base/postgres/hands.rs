//! Connections that are not the store's.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use idem_postgres::sqlx::postgres::{PgConnectOptions, PgPool, PgPoolOptions};
use idem_postgres::sqlx::{AssertSqlSafe, Executor as _, raw_sql};

use super::not_a_url;
use crate::harness::{HookError, Hooked};
use crate::provider::Endpoint;

/// As many as trials that run at once.
const CONNECTIONS: u32 = 4;

/// A pool to the server, where it listens now.
#[derive(Default)]
pub(super) struct Hands {
    now: Mutex<Option<(Endpoint, PgPool)>>,
}

impl Hands {
    /// The pool to this endpoint: another one after a restart, which may have moved the port.
    pub(super) fn pool(&self, endpoint: &Endpoint) -> Hooked<PgPool> {
        let mut now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((there, pool)) = now.as_ref()
            && there == endpoint
        {
            return Ok(pool.clone());
        }
        let options: PgConnectOptions = endpoint.url().parse().map_err(not_a_url)?;
        let pool = PgPoolOptions::new()
            .max_connections(CONNECTIONS)
            .acquire_timeout(Duration::from_secs(30))
            // A trial that holds a lock would otherwise hold up its own observer for ever.
            .connect_lazy_with(options.application_name("idem-conformance").options([("lock_timeout", "30s")]));
        *now = Some((endpoint.clone(), pool.clone()));
        Ok(pool)
    }

    /// Runs statements of this crate's own making.
    pub(super) async fn run(&self, endpoint: &Endpoint, statements: String) -> Hooked<()> {
        let pool = self.pool(endpoint)?;
        pool.execute(raw_sql(AssertSqlSafe(statements))).await.map(drop).map_err(HookError::failed)
    }
}
