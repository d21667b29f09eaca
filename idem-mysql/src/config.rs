//! How a store is opened.

use std::fmt;
use std::num::NonZeroUsize;
use std::time::Duration;

use idem_core::config::defaults;
use idem_core::machine::Rules;
use idem_core::{Error, ErrorKind};
use mysql_async::{Conn, Opts, Pool};

use crate::drive::Shared;
use crate::error::Refusal;
use crate::operation::Context;
use crate::pool::{self, LOCK_WAIT_SECS};
use crate::sql::Joined;
use crate::startup::Facts;
use crate::store::MySqlStore;
use crate::{schema, startup};

/// A statement waits for a lock, and its answer still has to come back.
const LEAST_DEADLINE: Duration = Duration::from_secs(LOCK_WAIT_SECS as u64 + 1);

/// Collects how a [`MySqlStore`] is opened. Made by [`MySqlStore::builder`].
#[derive(Clone)]
#[must_use = "a store is opened by `open`"]
pub struct Builder {
    opts: Opts,
    rules: Rules,
    response_limit: usize,
    deadline: Duration,
    connections: NonZeroUsize,
    on_connect: Vec<String>,
    tables: Tables,
}

/// Who makes the tables.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Tables {
    Made,
    Expected,
}

impl Builder {
    pub(crate) fn new(opts: Opts) -> Builder {
        Builder {
            opts,
            rules: Rules::default(),
            response_limit: defaults::RESPONSE_LIMIT,
            deadline: defaults::CLAIM_BUDGET,
            connections: NonZeroUsize::new(defaults::POOL_SIZE).unwrap_or(NonZeroUsize::MIN),
            on_connect: Vec::new(),
            tables: Tables::Made,
        }
    }

    /// How long things are kept. The same for all stores on one database.
    pub fn rules(mut self, rules: Rules) -> Builder {
        self.rules = rules;
        self
    }

    /// The longest response, in bytes of meta and body. What the server's `max_allowed_packet` leaves room for is a limit
    /// too; the lower one counts.
    pub fn response_limit(mut self, bytes: usize) -> Builder {
        self.response_limit = bytes;
        self
    }

    /// How long an operation may take, waiting for a connection and for other transactions' locks included. At least two
    /// seconds, because MySQL waits for a lock in whole ones. Ten seconds unless it is said; keep it below a third of the
    /// lease.
    pub fn deadline(mut self, deadline: Duration) -> Builder {
        self.deadline = deadline;
        self
    }

    /// How many connections the store has, all its own.
    pub fn connections(mut self, connections: NonZeroUsize) -> Builder {
        self.connections = connections;
        self
    }

    /// Runs this statement on each new connection, after what the store sets itself. For settings of a cluster, such as
    /// `SET SESSION wsrep_sync_wait = 1`.
    pub fn on_connect(mut self, statement: impl Into<String>) -> Builder {
        self.on_connect.push(statement.into());
        self
    }

    /// Makes no tables when the store opens: for an application that has no right to. Somebody else runs
    /// [`migrate`](Builder::migrate), or what [`migration_sql`](crate::migration_sql) says.
    pub fn expect_tables(mut self) -> Builder {
        self.tables = Tables::Expected;
        self
    }

    /// Makes the store's tables, or brings them to this version.
    ///
    /// Safe twice and by many at once: a lock of the server's lets one of them do it. It needs the right to create
    /// tables. [`open`](Builder::open) does it too, unless it is told to [expect](Builder::expect_tables) them.
    ///
    /// # Errors
    /// `Schema`: tables of a newer version, or tables of these names that are not ours. `Unsupported` as in
    /// [`open`](Builder::open). `Unavailable`: the server cannot be reached or refused access.
    ///
    /// # Cancel safety
    /// Dropped, any number of the steps may be done. Run it again.
    pub async fn migrate(&self) -> Result<(), Error> {
        let opts = pool::options(self.opts.clone(), 1, &self.on_connect);
        self.in_time(async move {
            // Not of a pool: the lock is the connection's, and gone with it however this ends.
            let mut connection = Conn::new(opts).await.map_err(Refusal::from).map_err(Refusal::error)?;
            startup::facts(&mut connection).await?;
            let made = schema::migrate(&mut connection).await;
            // A connection that cannot say goodbye is gone as well.
            let _ = connection.disconnect().await;
            made
        })
        .await
    }

    /// Connects, makes the tables that are missing, and looks whether they and the server are what the store stands on.
    ///
    /// # Errors
    /// - `Schema`: tables of a newer version, tables of these names that are not ours, or no tables where they are
    ///   expected.
    /// - `Unsupported`: a server that is too old or read-only, a session that is not strict or not in autocommit, tables
    ///   outside InnoDB, a key whose collation folds, or a missing UNIQUE. The message says the remedy.
    /// - `Unavailable`: the server cannot be reached, or refused access.
    /// - `InvalidInput`: a deadline below two seconds.
    ///
    /// # Cancel safety
    /// Dropped, some or all of the tables may have been made. Open it again.
    pub async fn open(self) -> Result<MySqlStore, Error> {
        if self.deadline < LEAST_DEADLINE {
            return Err(Error::new(
                ErrorKind::InvalidInput,
                "a deadline below two seconds ends while a lock is waited for",
            ));
        }
        let pool = pool::open(self.opts.clone(), self.connections.get(), &self.on_connect);
        match self.in_time(check(&pool, self.tables)).await {
            Ok(facts) => Ok(MySqlStore::new(
                Shared {
                    pool,
                    context: Context {
                        product: facts.server.product,
                        rules: self.rules,
                        response_limit: self.response_limit.min(facts.longest_response),
                    },
                    joined: Joined::new(&facts.database),
                    deadline: self.deadline,
                },
                facts,
            )),
            Err(why) => {
                // The connection that was looked at is not wanted any more.
                let _ = tokio::time::timeout(self.deadline, pool.disconnect()).await;
                Err(why)
            }
        }
    }

    async fn in_time<T>(&self, work: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        let late = || Error::new(ErrorKind::Unavailable, "the server did not answer in time");
        tokio::time::timeout(self.deadline, work).await.unwrap_or_else(|_| Err(late()))
    }
}

async fn check(pool: &Pool, tables: Tables) -> Result<Facts, Error> {
    let mut connection = pool.get_conn().await.map_err(Refusal::from).map_err(Refusal::error)?;
    let facts = startup::facts(&mut connection).await?;
    match tables {
        Tables::Made => schema::migrate(&mut connection).await?,
        Tables::Expected => schema::check(&mut connection).await?,
    }
    startup::check_tables(&mut connection).await?;
    Ok(facts)
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Of the options only the address: the rest may hold a password.
        f.debug_struct("Builder")
            .field("host", &self.opts.ip_or_hostname())
            .field("database", &self.opts.db_name())
            .field("rules", &self.rules)
            .field("response_limit", &self.response_limit)
            .field("deadline", &self.deadline)
            .field("connections", &self.connections)
            .finish_non_exhaustive()
    }
}
