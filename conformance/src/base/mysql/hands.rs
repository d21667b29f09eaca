//! Connections that are not the store's.

use std::sync::{Mutex, PoisonError};

use idem_mysql::mysql_async::prelude::Queryable as _;
use idem_mysql::mysql_async::{Conn, Opts, OptsBuilder, Pool, PoolConstraints, PoolOpts};

use super::not_a_url;
use crate::harness::{HookError, Hooked};
use crate::provider::Endpoint;

/// As many as trials that run at once.
const CONNECTIONS: usize = 4;

/// A pool to the server, where it listens now, in no database.
#[derive(Default)]
pub(super) struct Hands {
    now: Mutex<Option<(Endpoint, Pool)>>,
}

impl Hands {
    /// A connection to this endpoint: of another pool after a restart, which may have moved the port.
    pub(super) async fn connection(&self, endpoint: &Endpoint) -> Hooked<Conn> {
        self.pool(endpoint)?.get_conn().await.map_err(HookError::failed)
    }

    /// Runs statements of this crate's own making.
    pub(super) async fn run(&self, endpoint: &Endpoint, statements: &[String]) -> Hooked<()> {
        let mut connection = self.connection(endpoint).await?;
        for statement in statements {
            connection.query_drop(statement).await.map_err(HookError::failed)?;
        }
        Ok(())
    }

    fn pool(&self, endpoint: &Endpoint) -> Hooked<Pool> {
        let mut now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((there, pool)) = now.as_ref()
            && there == endpoint
        {
            return Ok(pool.clone());
        }
        let options = Opts::from_url(endpoint.database("").url()).map_err(not_a_url)?;
        let limits = PoolConstraints::new(0, CONNECTIONS).unwrap_or_default();
        // A trial that holds a lock would otherwise hold up its own observer for ever.
        let patience = "SET SESSION innodb_lock_wait_timeout = 30, lock_wait_timeout = 30";
        let options = OptsBuilder::from_opts(options).setup(vec![patience.to_owned()]);
        let pool = Pool::new(options.pool_opts(PoolOpts::new().with_constraints(limits).with_reset_connection(false)));
        *now = Some((endpoint.clone(), pool.clone()));
        Ok(pool)
    }
}
