//! The rows, read and made older without the store, and what is done to the tables. A namespace's name is an identifier
//! that needs no quoting, so that it can stand in a statement.

use std::time::{Duration, Instant};

use idem_core::{Identity, Record, Span};
use idem_mysql::mysql_async::prelude::{FromValue, Queryable as _};
use idem_mysql::mysql_async::{Conn, Error, Row, params};

use crate::base::columns::Columns;
use crate::harness::{Aged, HookError, Hooked, Namespace};

/// Writes into the application's table, which is in the session's database.
pub(super) const INSERT_BUSINESS: &str = "INSERT INTO business (line) VALUES (?)";

/// The server's number for a session that it does not have (`ER_NO_SUCH_THREAD`).
/// <https://dev.mysql.com/doc/mysql-errors/9.7/en/server-error-reference.html>
const NO_SUCH_SESSION: u16 = 1094;

/// Takes a snapshot, where the isolation level has one.
pub(super) const READ_BUSINESS: &str = "SELECT COUNT(*) FROM business";

/// No connection takes this long to end.
const PATIENCE: Duration = Duration::from_secs(10);

/// Makes the database, and in it the application's table, that joined transactions write to. Many may do it at once.
///
/// What is there is left alone: a statement that makes a table may wait for every transaction that has used it, and the
/// server writes it into its log, to the disk, even when it makes nothing.
pub(super) async fn lay(hands: &mut Conn, namespace: &Namespace) -> Hooked<()> {
    const LAID: &str = "SELECT COUNT(*) FROM information_schema.tables
        WHERE table_schema = ? AND table_name = 'business'";
    let laid: Option<u64> = hands.exec_first(LAID, (namespace.as_str(),)).await.map_err(HookError::failed)?;
    if laid == Some(1) {
        return Ok(());
    }
    for statement in [
        format!("CREATE DATABASE IF NOT EXISTS {namespace}"),
        format!("CREATE TABLE IF NOT EXISTS {namespace}.business (line VARBINARY(500) NOT NULL) ENGINE = InnoDB"),
    ] {
        hands.query_drop(statement).await.map_err(HookError::failed)?;
    }
    Ok(())
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
    let sessions = sessions(hands).await?.into_iter();
    let its = sessions.filter(|(_, database)| database.as_deref() == Some(namespace.as_str())).map(|(id, _)| id);
    kill(hands, &its.collect::<Vec<_>>()).await
}

/// Ends sessions, and waits until what they had open is rolled back.
pub(super) async fn kill(hands: &mut Conn, ids: &[u64]) -> Hooked<()> {
    for id in ids {
        match hands.query_drop(format!("KILL {id}")).await {
            // One that has gone by itself in the meantime is as good.
            Ok(()) => {}
            Err(Error::Server(error)) if error.code == NO_SUCH_SESSION => {}
            Err(error) => return Err(HookError::failed(error)),
        }
    }
    let began = Instant::now();
    while sessions(hands).await?.iter().any(|(id, _)| ids.contains(id)) {
        if began.elapsed() > PATIENCE {
            return Err(HookError::failed("a connection outlives its end by 10 s"));
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    Ok(())
}

/// The numbers of all sessions, and their databases. Not from `information_schema`: MySQL fails there on statements of
/// others with parameters that are no text.
async fn sessions(hands: &mut Conn) -> Hooked<Vec<(u64, Option<String>)>> {
    let rows: Vec<Row> = hands.query("SHOW PROCESSLIST").await.map_err(HookError::failed)?;
    rows.into_iter().map(|mut row| Ok((take(&mut row, "Id")?, take(&mut row, "db")?))).collect()
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
