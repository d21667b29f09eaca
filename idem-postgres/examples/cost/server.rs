//! The server that is measured, and what it counts.

use conformance::fault::Proxy;
use conformance::provider::{Kind, Policy, Server, start};
use idem_postgres::sqlx::postgres::{PgConnectOptions, PgConnection};
use idem_postgres::sqlx::{AssertSqlSafe, Connection, Executor, Row};

use crate::Outcome;

/// The URL of the command line, or that of a server that is started for it.
pub(crate) async fn given_or_started() -> Outcome<(String, Option<Server>)> {
    if let Some(url) = std::env::args().nth(1) {
        return Ok((url, None));
    }
    let server = start(Kind::Postgres, &Policy::from_env()?).await?;
    Ok((server.endpoint().url().to_owned(), Some(server)))
}

/// A connection beside the store's.
pub(crate) struct Hands(PgConnection);

impl Hands {
    pub(crate) async fn new(options: &PgConnectOptions) -> Outcome<Hands> {
        Ok(Hands(PgConnection::connect_with(options).await?))
    }

    /// Nothing of the server's own writes meanwhile. Only where the server is ours.
    pub(crate) async fn quieten(&mut self) -> Outcome<()> {
        for setting in ["autovacuum = off", "checkpoint_timeout = '1d'", "bgwriter_lru_maxpages = 0"] {
            self.0.execute(AssertSqlSafe(format!("ALTER SYSTEM SET {setting}"))).await?;
        }
        self.0.execute("SELECT pg_reload_conf()").await?;
        self.0.execute("CHECKPOINT").await?;
        Ok(())
    }

    pub(crate) async fn make_schema(&mut self) -> Outcome<String> {
        let schema = format!("idem_cost_{}", std::process::id());
        self.0.execute(AssertSqlSafe(format!("CREATE SCHEMA {schema}"))).await?;
        Ok(schema)
    }

    pub(crate) async fn drop_schema(&mut self, schema: &str) -> Outcome<()> {
        self.0.execute(AssertSqlSafe(format!("DROP SCHEMA {schema} CASCADE"))).await?;
        Ok(())
    }

    pub(crate) async fn version(&mut self) -> Outcome<String> {
        let row = self.0.fetch_one("SELECT 'PostgreSQL ' || current_setting('server_version')").await?;
        Ok(row.try_get(0)?)
    }

    pub(crate) async fn counters(&mut self, line: &Proxy) -> Outcome<Counters> {
        let query = "SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint,
                            (pg_current_wal_insert_lsn() - '0/0')::bigint";
        let row = self.0.fetch_one(query).await?;
        Ok(Counters { trips: line.requests(), xids: row.try_get(0)?, wal: row.try_get(1)? })
    }

    /// Prints what was used since, and gives the counters of now.
    pub(crate) async fn show(&mut self, what: &str, line: &Proxy, before: Counters) -> Outcome<Counters> {
        let now = self.counters(line).await?;
        let used = now.since(before);
        println!("{what:<26} {:>12} {:>16} {:>14}", used.trips, used.xids, used.wal);
        Ok(now)
    }

    /// Updates of the records, and how many of them were HOT, once the server has counted this many.
    pub(crate) async fn updates(&mut self, schema: &str, expected: i64) -> Outcome<(i64, i64)> {
        let query = format!(
            "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables
              WHERE schemaname = '{schema}' AND relname = 'idem_records'"
        );
        // Sessions send their counts at their end at the latest, and the store's are closed.
        loop {
            let row = self.0.fetch_one(AssertSqlSafe(query.as_str())).await?;
            let (updates, hot) = (row.try_get(0)?, row.try_get(1)?);
            if updates >= expected {
                return Ok((updates, hot));
            }
            tokio::task::yield_now().await;
        }
    }
}

/// What was used up to one moment.
#[derive(Clone, Copy)]
pub(crate) struct Counters {
    trips: u64,
    xids: i64,
    wal: i64,
}

impl Counters {
    pub(crate) fn since(self, before: Counters) -> Counters {
        Counters { trips: self.trips - before.trips, xids: self.xids - before.xids, wal: self.wal - before.wal }
    }

    /// No write of any kind.
    pub(crate) fn costs_nothing(self) -> bool {
        (self.xids, self.wal) == (0, 0)
    }
}
