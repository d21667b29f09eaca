//! How a store is opened.

use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use idem_core::config::defaults;
use idem_core::machine::Rules;
use idem_core::{Error, ErrorKind};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{ConnectOptions, Connection, PgConnection, PgPool};
use tokio::time::timeout;

use crate::delivery::{Delivery, Pool};
use crate::error::Failure;
use crate::limits::Limits;
use crate::operation::Context;
use crate::schema::Tables;
use crate::sql::{DEFAULT_SCHEMA, Statements};
use crate::{PostgresStore, check, pooler, schema};

/// What PostgreSQL keeps in one value is 2³⁰ bytes, and one message holds the whole record.
const LARGEST_RESPONSE: usize = 500_000_000;

/// Below a third of the default lease, so that a holder whose renewal is refused hears it in time.
const DEADLINE: Duration = Duration::from_secs(8);

/// Shorter ones leave the server's limits no room.
const SHORTEST_DEADLINE: Duration = Duration::from_millis(20);

/// Where the connections come from.
enum Source {
    Own { options: Box<PgConnectOptions>, connections: NonZeroU32 },
    Shared(PgPool),
}

/// Who sets the connection's limits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum SetBy {
    Store,
    Role,
}

/// Collects how a [`PostgresStore`] is opened. Made by [`PostgresStore::builder`] and [`PostgresStore::on_pool`].
#[must_use = "a store is opened by `open`"]
pub struct Builder {
    source: Source,
    schema: String,
    rules: Rules,
    response_limit: usize,
    deadline: Duration,
    limits: SetBy,
    tables: Tables,
}

impl Builder {
    pub(crate) fn own(options: PgConnectOptions) -> Builder {
        let connections = u32::try_from(defaults::POOL_SIZE).ok().and_then(NonZeroU32::new);
        let connections = connections.unwrap_or(NonZeroU32::MIN);
        Builder::new(Source::Own { options: Box::new(options), connections })
    }

    pub(crate) fn shared(pool: PgPool) -> Builder {
        Builder::new(Source::Shared(pool))
    }

    fn new(source: Source) -> Builder {
        Builder {
            source,
            schema: DEFAULT_SCHEMA.to_owned(),
            rules: Rules::default(),
            response_limit: defaults::RESPONSE_LIMIT,
            deadline: DEADLINE,
            limits: SetBy::Store,
            tables: Tables::Make,
        }
    }

    /// The schema of the store's tables; `public` unless it is said. It must be there.
    pub fn schema(mut self, name: impl Into<String>) -> Builder {
        self.schema = name.into();
        self
    }

    /// How long things are kept. The same for all processes on one store.
    pub fn rules(mut self, rules: Rules) -> Builder {
        self.rules = rules;
        self
    }

    /// The longest response, in bytes of meta and body. At most 500 million.
    pub fn response_limit(mut self, bytes: usize) -> Builder {
        self.response_limit = bytes;
        self
    }

    /// How long an operation may take, waiting for a connection included. Eight seconds unless it is said; less than a
    /// third of the lease is right. On the store's own pool a lock is waited for a quarter of it, and a statement may
    /// run for half of it.
    pub fn deadline(mut self, deadline: Duration) -> Builder {
        self.deadline = deadline;
        self
    }

    /// How many connections the store's own pool has at the most. A shared pool has its own number.
    pub fn connections(mut self, number: NonZeroU32) -> Builder {
        if let Source::Own { connections, .. } = &mut self.source {
            *connections = number;
        }
        self
    }

    /// Leaves `lock_timeout` and `statement_timeout` to the role (`ALTER ROLE … SET lock_timeout = '2s'`), for a pooler
    /// that refuses or drops options of the connection. That they are set is checked when the store opens.
    pub fn limits_of_the_role(mut self) -> Builder {
        self.limits = SetBy::Role;
        self
    }

    /// Expects the tables instead of making them, for a role that may not run DDL:
    /// [`migration_sql`](crate::migration_sql) is the script for somebody who may.
    pub fn expect_tables(mut self) -> Builder {
        self.tables = Tables::Expect;
        self
    }

    /// Makes the tables, or moves them on, and opens nothing: for a deployment that has a step for this.
    ///
    /// # Errors
    /// `Schema` for tables that are newer or not ours, `Unavailable`, `InvalidInput`.
    ///
    /// # Cancel safety
    /// Dropped, the tables are moved on wholly or not at all; repeating it is safe.
    pub async fn migrate(self) -> Result<(), Error> {
        let statements = Statements::new(&self.schema)?;
        let options = self.connect_options();
        self.in_time(async {
            let mut connection = connect(&options).await?;
            schema::prepare(&mut connection, &statements.schema, Tables::Make).await?;
            close(connection).await;
            Ok(())
        })
        .await
    }

    /// Opens the store: looks at the server, makes the tables when they are missing, and checks them.
    ///
    /// # Errors
    /// - `Unsupported`: a server before PostgreSQL 14, a replica, a read-only session, `synchronous_commit = off`, a
    ///   connection without a `lock_timeout`, a pooler that mixes prepared statements. The message says what helps.
    /// - `Schema`: tables that are missing, newer, not ours, or that could not keep the contract: no UNIQUE on exactly
    ///   (scope, key), a collation that does not compare bytes, an unlogged table, row-level security.
    /// - `Unavailable`: the server cannot be reached, or refuses the login.
    /// - `InvalidInput`: a schema name, limit or deadline that cannot work.
    ///
    /// # Cancel safety
    /// Dropped, the tables may have been made.
    pub async fn open(self) -> Result<PostgresStore, Error> {
        if self.response_limit > LARGEST_RESPONSE {
            return Err(Error::new(ErrorKind::InvalidInput, "PostgreSQL keeps no response of that length"));
        }
        if self.deadline < SHORTEST_DEADLINE {
            return Err(Error::new(ErrorKind::InvalidInput, "a deadline below 20 ms lets nothing happen"));
        }
        let statements = Statements::new(&self.schema)?;
        let options = self.connect_options();
        let limits = Limits::within(self.deadline);
        self.in_time(async {
            let mut first = connect(&options).await?;
            let mut second = connect(&options).await?;
            // Before anything else is prepared: the two statements must be the first of their connections.
            pooler::refuse_mixing(&mut first, &mut second).await?;
            close(second).await;
            check::server(&mut first, limits).await?;
            schema::prepare(&mut first, &statements.schema, self.tables).await?;
            check::table(&mut first, &statements).await?;
            close(first).await;
            Ok(())
        })
        .await?;
        let context = Context { statements, rules: self.rules, response_limit: self.response_limit };
        let (pool, whose) = match self.source {
            Source::Own { connections, .. } => (own_pool(options, connections, self.deadline), Pool::Own),
            Source::Shared(pool) => (pool, Pool::Shared),
        };
        Ok(PostgresStore::new(Arc::new(Delivery { pool, whose, context, deadline: self.deadline })))
    }

    /// How the store's connections are made; those of a shared pool are as they are.
    fn connect_options(&self) -> PgConnectOptions {
        match &self.source {
            Source::Shared(pool) => PgConnectOptions::clone(&pool.connect_options()),
            Source::Own { options, .. } => {
                // Not needed, since no statement has a float, and refused by poolers.
                let mut options = PgConnectOptions::clone(options).extra_float_digits(None).disable_statement_logging();
                if options.get_application_name().is_none() {
                    options = options.application_name("idem");
                }
                match self.limits {
                    SetBy::Store => Limits::within(self.deadline).put(options),
                    SetBy::Role => options,
                }
            }
        }
    }

    async fn in_time(&self, opening: impl Future<Output = Result<(), Failure>>) -> Result<(), Error> {
        match timeout(self.deadline.max(DEADLINE), opening).await {
            Ok(outcome) => outcome.map_err(Failure::into_error),
            Err(_) => Err(Error::new(ErrorKind::Unavailable, "opening the store took too long")),
        }
    }
}

fn own_pool(options: PgConnectOptions, connections: NonZeroU32, deadline: Duration) -> PgPool {
    PgPoolOptions::new()
        .max_connections(connections.get())
        .acquire_timeout(deadline)
        // Nothing but single statements runs here, so there is no session to be wary of; one that died is found out by
        // its first statement, which is sent again with the same token.
        .test_before_acquire(false)
        .connect_lazy_with(options)
}

async fn connect(options: &PgConnectOptions) -> Result<PgConnection, Failure> {
    PgConnection::connect_with(options).await.map_err(Failure::NoConnection)
}

/// A goodbye that is not heard changes nothing.
async fn close(connection: PgConnection) {
    let _ = connection.close().await;
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The connection's options have a password in them.
        f.debug_struct("Builder")
            .field("schema", &self.schema)
            .field("rules", &self.rules)
            .field("response_limit", &self.response_limit)
            .field("deadline", &self.deadline)
            .field("limits", &self.limits)
            .field("tables", &self.tables)
            .finish_non_exhaustive()
    }
}
