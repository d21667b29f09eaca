//! The rows, read and made older without the store, and what is done to the tables. A namespace's name is an identifier
//! that needs no quoting, so that it can stand in a statement.

use idem_core::{Identity, Record, Span};
use idem_postgres::sqlx::postgres::{PgPool, PgRow};
use idem_postgres::sqlx::{self, AssertSqlSafe, Row as _};

use crate::base::columns::Columns;
use crate::harness::{Aged, HookError, Hooked, Namespace};

/// Writes into the application's table, which the session's path leads to.
pub(super) const INSERT_BUSINESS: &str = "INSERT INTO business (line) VALUES ($1)";

/// Takes a snapshot, where the isolation level has one.
pub(super) const READ_BUSINESS: &str = "SELECT count(*) FROM business";

const COLUMNS: &str = "scope, key, operation, fingerprint, state::bigint, undone, take_over_within_us, attempt::bigint,
    token, fence, owner, ran_since::bigint, created_us, claimed_us, lease_until_us, ended_us, expires_us,
    checkpoint_sequence, checkpoint, code::bigint, meta, body, history";

/// Makes the schema, and in it the application's table, that joined transactions write to. Many may do it at once.
pub(super) fn lay(namespace: &Namespace) -> String {
    format!(
        "BEGIN;
         SELECT pg_advisory_xact_lock(hashtextextended('{namespace}', 0));
         CREATE SCHEMA IF NOT EXISTS {namespace};
         CREATE TABLE IF NOT EXISTS {namespace}.business (line text NOT NULL);
         COMMIT"
    )
}

/// Takes everything of the namespace away.
pub(super) fn clear(namespace: &Namespace) -> String {
    format!("DROP SCHEMA IF EXISTS {namespace} CASCADE")
}

/// Says that the tables are of a version that nobody knows yet, and that bears none before it.
pub(super) fn mark_as_newer(namespace: &Namespace) -> String {
    format!("INSERT INTO {namespace}.idem_schema (version, works_from, applied_us) VALUES (1000, 1000, 0)")
}

/// Takes the records away.
pub(super) fn drop_tables(namespace: &Namespace) -> String {
    format!("DROP TABLE {namespace}.idem_records")
}

/// Every insert violates a constraint that has nothing to do with identities.
pub(super) fn refuse_inserts(namespace: &Namespace) -> String {
    format!("ALTER TABLE {namespace}.idem_records ADD CONSTRAINT conformance_obstacle CHECK (false) NOT VALID")
}

/// Shifts every time of one record back.
pub(super) async fn age(pool: &PgPool, namespace: &Namespace, identity: &Identity, by: Span) -> Hooked<Aged> {
    let statement = format!(
        "UPDATE {namespace}.idem_records
            SET created_us = created_us - $3, claimed_us = claimed_us - $3, lease_until_us = lease_until_us - $3,
                ended_us = ended_us - $3, expires_us = expires_us - $3
          WHERE scope = $1 AND key = $2"
    );
    let by = i64::try_from(by.as_micros()).map_err(HookError::failed)?;
    let query = sqlx::query(AssertSqlSafe(statement)).persistent(false);
    let query = query.bind(identity.scope.as_str()).bind(identity.key.as_str()).bind(by);
    let aged = query.execute(pool).await.map_err(HookError::failed)?.rows_affected();
    Ok(if aged == 0 { Aged::NoRecord } else { Aged::Older })
}

/// The row as it is.
pub(super) async fn peek(pool: &PgPool, namespace: &Namespace, identity: &Identity) -> Hooked<Option<Record>> {
    let statement = format!("SELECT {COLUMNS} FROM {namespace}.idem_records WHERE scope = $1 AND key = $2");
    let query = sqlx::query(AssertSqlSafe(statement)).persistent(false);
    let query = query.bind(identity.scope.as_str()).bind(identity.key.as_str());
    let row = query.fetch_optional(pool).await.map_err(HookError::failed)?;
    row.map(|row| columns(&row).map_err(HookError::failed)?.record()).transpose()
}

/// Cuts every connection of this namespace's clients, and waits until they are gone.
pub(super) async fn kill_connections(pool: &PgPool, namespace: &Namespace) -> Hooked<()> {
    // In no condition: a planner may ask the conditions of a row in any order, and so end everybody's connections.
    const KILL: &str = "SELECT pid, pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE application_name = $1";
    const LEFT: &str = "SELECT count(*) AS alive FROM pg_stat_activity WHERE application_name = $1 AND pid = ANY ($2)";
    let killed = sqlx::query(KILL).bind(namespace.as_str()).fetch_all(pool).await.map_err(HookError::failed)?;
    // What the function answers does not tell one that has not gone within 10 s from one that had gone before.
    let pids: sqlx::Result<Vec<i32>> = killed.iter().map(|row| row.try_get("pid")).collect();
    let left = sqlx::query(LEFT).bind(namespace.as_str()).bind(pids.map_err(HookError::failed)?);
    match left.fetch_one(pool).await.and_then(|row| row.try_get("alive")).map_err(HookError::failed)? {
        0_i64 => Ok(()),
        alive => Err(HookError::failed(format!("{alive} connections outlive their end by 10 s"))),
    }
}

/// The application's rows.
pub(super) async fn business(pool: &PgPool, namespace: &Namespace) -> Hooked<Vec<String>> {
    let query = sqlx::query(AssertSqlSafe(format!("SELECT line FROM {namespace}.business"))).persistent(false);
    let rows = query.fetch_all(pool).await.map_err(HookError::failed)?;
    rows.iter().map(|row| row.try_get("line").map_err(HookError::failed)).collect()
}

fn columns(row: &PgRow) -> sqlx::Result<Columns> {
    Ok(Columns {
        scope: row.try_get("scope")?,
        key: row.try_get("key")?,
        operation: row.try_get("operation")?,
        fingerprint: row.try_get("fingerprint")?,
        state: row.try_get("state")?,
        undone: row.try_get("undone")?,
        take_over_within_us: row.try_get("take_over_within_us")?,
        attempt: row.try_get("attempt")?,
        token: row.try_get("token")?,
        fence: row.try_get("fence")?,
        owner: row.try_get("owner")?,
        ran_since: row.try_get("ran_since")?,
        created_us: row.try_get("created_us")?,
        claimed_us: row.try_get("claimed_us")?,
        lease_until_us: row.try_get("lease_until_us")?,
        ended_us: row.try_get("ended_us")?,
        expires_us: row.try_get("expires_us")?,
        checkpoint_sequence: row.try_get("checkpoint_sequence")?,
        checkpoint: row.try_get("checkpoint")?,
        code: row.try_get("code")?,
        meta: row.try_get("meta")?,
        body: row.try_get("body")?,
        history: row.try_get("history")?,
    })
}
