//! The rows, read and made older without the store, and what is done to the tables. A namespace's name is an identifier
//! that needs no quoting, so that it can stand in a statement.

use std::time::{Duration, Instant};

use idem_core::{Identity, Record, Span};
use idem_mysql::mysql_async::prelude::{FromValue, Queryable as _};
use idem_mysql::mysql_async::{Conn, Row, params};

use crate::base::columns::Columns;
use crate::harness::{Aged, HookError, Hooked, Namespace};

/// Writes into the application's table, which is in the session's database.
pub(super) const INSERT_BUSINESS: &str = "INSERT INTO business (line) VALUES (?)";

/// No connection takes this long to end.
const PATIENCE: Duration = Duration::from_secs(10);

/// Makes the database, and in it the application's table, that joined transactions write to. Many may do it at once.
pub(super) fn lay(namespace: &Namespace) -> [String; 2] {
    [
        format!("CREATE DATABASE IF NOT EXISTS {namespace}"),
        format!("CREATE TABLE IF NOT EXISTS {namespace}.business (line VARBINARY(500) NOT NULL) ENGINE = InnoDB"),
    ]
}

/// Takes everything of the namespace away.
pub(super) fn clear(namespace: &Namespace) -> String {
    format!("DROP DATABASE IF EXISTS {namespace}")
}

/// Says that the tables are of a version that nobody knows yet.
pub(super) fn mark_as_newer(namespace: &Namespace) -> String {
    format!("INSERT INTO {namespace}.idem_schema (version, applied_us) VALUES (1000, 0)")
}

/// Takes the records away.
pub(super) fn drop_tables(namespace: &Namespace) -> String {
    format!("DROP TABLE {namespace}.idem_records")
}

/// Every insert violates a constraint that has nothing to do with identities.
pub(super) fn refuse_inserts(namespace: &Namespace) -> String {
    format!("ALTER TABLE {namespace}.idem_records ADD CONSTRAINT conformance_obstacle CHECK (attempt > 1000000)")
}

/// Shifts every time of one record back.
pub(super) async fn age(hands: &mut Conn, namespace: &Namespace, identity: &Identity, by: Span) -> Hooked<Aged> {
    let statement = format!(
        "UPDATE {namespace}.idem_records
            SET created_us = created_us - :by, claimed_us = claimed_us - :by, lease_until_us = lease_until_us - :by,
                ended_us = ended_us - :by, expires_us = expires_us - :by
          WHERE scope = :scope AND `key` = :key"
    );
    let (scope, key) = (identity.scope.as_str(), identity.key.as_str());
    let params = params! { "by" => by.as_micros(), "scope" => scope, "key" => key };
    hands.exec_drop(statement, params).await.map_err(HookError::failed)?;
    Ok(if hands.affected_rows() == 0 { Aged::NoRecord } else { Aged::Older })
}

/// The row as it is.
pub(super) async fn peek(hands: &mut Conn, namespace: &Namespace, identity: &Identity) -> Hooked<Option<Record>> {
    let statement = format!("SELECT * FROM {namespace}.idem_records WHERE scope = ? AND `key` = ?");
    let params = (identity.scope.as_str(), identity.key.as_str());
    let row: Option<Row> = hands.exec_first(statement, params).await.map_err(HookError::failed)?;
    row.map(|row| columns(row)?.record()).transpose()
}

/// Cuts every connection of this namespace's clients, and waits until they are gone.
pub(super) async fn kill_connections(hands: &mut Conn, namespace: &Namespace) -> Hooked<()> {
    const OPEN: &str = "SELECT id FROM information_schema.processlist WHERE db = ?";
    let open: Vec<u64> = hands.exec(OPEN, (namespace.as_str(),)).await.map_err(HookError::failed)?;
    for id in open {
        kill(hands, id).await?;
    }
    Ok(())
}

/// Ends a session, and waits until what it had open is rolled back.
pub(super) async fn kill(hands: &mut Conn, id: u64) -> Hooked<()> {
    const ALIVE: &str = "SELECT COUNT(*) FROM information_schema.processlist WHERE id = ?";
    // One that has gone by itself in the meantime is as good.
    let _ = hands.query_drop(format!("KILL {id}")).await;
    let began = Instant::now();
    while hands.exec_first::<u64, _, _>(ALIVE, (id,)).await.map_err(HookError::failed)? != Some(0) {
        if began.elapsed() > PATIENCE {
            return Err(HookError::failed("a connection outlives its end by 10 s"));
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    Ok(())
}

/// The application's rows.
pub(super) async fn business(hands: &mut Conn, namespace: &Namespace) -> Hooked<Vec<String>> {
    hands.query(format!("SELECT line FROM {namespace}.business")).await.map_err(HookError::failed)
}

fn columns(mut row: Row) -> Hooked<Columns> {
    let row = &mut row;
    Ok(Columns {
        scope: text(row, "scope")?,
        key: text(row, "key")?,
        operation: text(row, "operation")?,
        fingerprint: take(row, "fingerprint")?,
        state: take(row, "state")?,
        undone: take(row, "undone")?,
        take_over_within_us: take(row, "take_over_within_us")?,
        attempt: take(row, "attempt")?,
        token: take(row, "token")?,
        fence: take(row, "fence")?,
        owner: take::<Option<Vec<u8>>>(row, "owner")?.map(utf8).transpose()?,
        ran_since: take(row, "ran_since")?,
        created_us: take(row, "created_us")?,
        claimed_us: take(row, "claimed_us")?,
        lease_until_us: take(row, "lease_until_us")?,
        ended_us: take(row, "ended_us")?,
        expires_us: take(row, "expires_us")?,
        checkpoint_sequence: take(row, "checkpoint_sequence")?,
        checkpoint: take(row, "checkpoint")?,
        code: take(row, "code")?,
        meta: take(row, "meta")?,
        body: take(row, "body")?,
        history: text(row, "history")?,
    })
}

fn take<T: FromValue>(row: &mut Row, column: &str) -> Hooked<T> {
    match row.take_opt(column) {
        Some(Ok(value)) => Ok(value),
        Some(Err(_)) | None => Err(HookError::failed(format!("a row has something else as its {column}"))),
    }
}

fn text(row: &mut Row, column: &str) -> Hooked<String> {
    utf8(take(row, column)?)
}

fn utf8(bytes: Vec<u8>) -> Hooked<String> {
    String::from_utf8(bytes).map_err(HookError::failed)
}
