use std::str::FromStr;

use sqlx::postgres::PgConnectOptions;
use sqlx::{ConnectOptions, Connection, PgConnection, Row};

use crate::provider::{Facts, Kind};

const FACTS: &str = "SELECT current_setting('server_version'), current_setting('cluster_name'), \
     (SELECT system_identifier::text FROM pg_control_system()), pg_postmaster_start_time()::text";

/// Those that decide durability first, then what a reader of a report wants beside them.
const SETTINGS: &str = "SELECT name, setting FROM pg_settings WHERE name IN \
     ('fsync', 'full_page_writes', 'synchronous_commit', 'wal_level', 'wal_sync_method', \
     'default_transaction_isolation', 'idle_in_transaction_session_timeout') ORDER BY name";

async fn connect(url: &str) -> Result<PgConnection, sqlx::Error> {
    // One connection for a question: a statement cache would be of no use.
    PgConnectOptions::from_str(url)?.statement_cache_capacity(0).connect().await
}

pub(super) async fn facts(url: &str) -> Result<Facts, String> {
    let answer = async {
        let mut connection = connect(url).await?;
        sqlx::query("SELECT 1").execute(&mut connection).await?;
        let row = sqlx::query(FACTS).fetch_one(&mut connection).await?;
        connection.close().await?;
        Ok(Facts {
            kind: Kind::Postgres,
            version: row.try_get(0)?,
            nonce: row.try_get(1)?,
            identity: format!("{} since {}", row.try_get::<String, _>(2)?, row.try_get::<String, _>(3)?),
        })
    };
    answer.await.map_err(|error: sqlx::Error| error.to_string())
}

pub(super) async fn settings(url: &str) -> Result<Vec<(String, String)>, String> {
    let answer = async {
        let mut connection = connect(url).await?;
        let rows = sqlx::query(SETTINGS).fetch_all(&mut connection).await?;
        connection.close().await?;
        rows.into_iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect::<Result<_, sqlx::Error>>()
    };
    answer.await.map_err(|error| error.to_string())
}
