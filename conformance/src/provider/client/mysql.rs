use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Error, Opts};

use crate::provider::{Facts, Kind};

/// MariaDB has no `server_uuid`, so the place of its data, which no two servers of one host share, stands in for it.
const IDENTITY: &str = "SELECT CONCAT(@@hostname, ':', @@port, ' ', @@datadir)";

/// Those that decide durability first, then what a reader of a report wants beside them.
const SETTINGS: &str = "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('innodb_doublewrite', \
     'innodb_flush_log_at_trx_commit', 'sync_binlog', 'log_bin', 'innodb_snapshot_isolation', \
     'transaction_isolation', 'tx_isolation', 'collation_server')";

async fn connect(url: &str) -> Result<Conn, Error> {
    Conn::new(Opts::from_url(url)?).await
}

pub(super) async fn facts(url: &str) -> Result<Facts, String> {
    let answer = async {
        let mut connection = connect(url).await?;
        connection.query_drop("SELECT 1").await?;
        let row: Option<(String, Option<String>)> = connection.query_first("SELECT VERSION(), @@report_host").await?;
        let identity: Option<String> = connection.query_first(IDENTITY).await?;
        connection.disconnect().await?;
        let (version, nonce) = row.unwrap_or_default();
        let kind = if version.contains("MariaDB") { Kind::MariaDb } else { Kind::MySql };
        Ok(Facts { kind, version, nonce: nonce.unwrap_or_default(), identity: identity.unwrap_or_default() })
    };
    answer.await.map_err(|error: Error| error.to_string())
}

pub(super) async fn settings(url: &str) -> Result<Vec<(String, String)>, String> {
    let answer = async {
        let mut connection = connect(url).await?;
        let rows = connection.query(SETTINGS).await?;
        connection.disconnect().await?;
        Ok(rows)
    };
    answer.await.map_err(|error: Error| error.to_string())
}
