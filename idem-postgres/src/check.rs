//! What a store makes sure of before anybody claims: settings and tables with which the contract would not hold are
//! refused when it opens.

use std::time::Duration;

use idem_core::{Error, ErrorKind};
use sqlx::{Column, Executor, PgConnection, Row, Statement, TypeInfo};

use crate::error::Failure;
use crate::limits::Limits;
use crate::row;
use crate::sql::Statements;

/// The oldest server whose `extract` is exact to the microsecond.
const OLDEST_SERVER: i32 = 140_000;

/// The collations that compare bytes, by their fixed numbers: "C" and "POSIX".
const SERVER: &str = "
SELECT current_setting('server_version_num')::int AS version,
       pg_is_in_recovery() AS replica,
       current_setting('transaction_read_only') = 'on' AS read_only,
       current_setting('synchronous_commit') = 'off' AS forgetful,
       current_setting('fsync') = 'off' AS unsynced,
       current_setting('server_encoding') AS encoding,
       (SELECT setting::bigint FROM pg_settings WHERE name = 'lock_timeout') AS lock_ms,
       (SELECT setting::bigint FROM pg_settings WHERE name = 'statement_timeout') AS statement_ms";

const TABLE: &str = "
SELECT c.relkind::text = 'r' AS plain,
       c.relpersistence::text = 'p' AS lasting,
       row_security_active(c.oid) AS filtered,
       has_table_privilege(c.oid, 'SELECT') AND has_table_privilege(c.oid, 'INSERT')
           AND has_table_privilege(c.oid, 'UPDATE') AND has_table_privilege(c.oid, 'DELETE') AS allowed,
       (SELECT count(*) FROM pg_attribute AS a
         WHERE a.attrelid = c.oid AND a.attname IN ('scope', 'key') AND a.attcollation IN (950, 951)) = 2 AS exact,
       EXISTS (
           SELECT FROM pg_index AS i
            WHERE i.indrelid = c.oid AND i.indisunique AND i.indimmediate AND i.indisvalid AND i.indisready
              AND i.indpred IS NULL AND i.indexprs IS NULL AND i.indnatts = 2
              AND (SELECT count(*) FROM pg_attribute AS a
                    WHERE a.attrelid = c.oid AND a.attnum = ANY (i.indkey) AND a.attname IN ('scope', 'key')) = 2
              AND NOT EXISTS (SELECT FROM unnest(i.indcollation::oid[]) AS of (number) WHERE number NOT IN (950, 951))
       ) AS arbitrated
  FROM pg_class AS c
 WHERE c.oid = to_regclass($1)";

/// Looks at the server and at the connection's settings.
pub(crate) async fn server(connection: &mut PgConnection, limits: Limits) -> Result<(), Failure> {
    let row = connection.fetch_one(sqlx::raw_sql(SERVER)).await?;
    if row.try_get::<i32, _>("version")? < OLDEST_SERVER {
        return Err(refused("PostgreSQL 14 or later is needed"));
    }
    if row.try_get("replica")? {
        return Err(refused("the server is a replica: what it shows may be old, and it takes no claims"));
    }
    if row.try_get("read_only")? {
        return Err(refused("the connection is read-only"));
    }
    if row.try_get("forgetful")? {
        return Err(refused(
            "synchronous_commit is off: a claim that was answered could be forgotten in a crash, and run again",
        ));
    }
    if !matches!(row.try_get("encoding")?, "UTF8" | "SQL_ASCII") {
        return Err(refused("the database's encoding must be UTF8, or not every key can be stored"));
    }
    if row.try_get("unsynced")? {
        tracing::warn!("fsync is off on this server: after a loss of power, claims may be forgotten and run again");
    }
    limits.check(millis(row.try_get("lock_ms")?), millis(row.try_get("statement_ms")?))?;
    Ok(())
}

/// Looks at the table, and prepares every statement.
pub(crate) async fn table(connection: &mut PgConnection, statements: &Statements) -> Result<(), Failure> {
    let row = sqlx::query(TABLE)
        .bind(format!("\"{}\".idem_records", statements.schema))
        .persistent(false)
        .fetch_optional(&mut *connection)
        .await?;
    let Some(row) = row else { return Err(unfit("the table idem_records is missing")) };
    for (column, wrong) in [
        ("plain", "idem_records is not a plain table"),
        ("lasting", "idem_records is unlogged or temporary: a crash would empty it"),
        ("exact", "scope and key are not compared byte for byte: their collation must be \"C\""),
        ("arbitrated", "there is no UNIQUE index on exactly (scope, key) that is compared byte for byte"),
    ] {
        if !row.try_get::<bool, _>(column)? {
            return Err(unfit(wrong));
        }
    }
    if row.try_get("filtered")? {
        return Err(unfit("row-level security hides rows of idem_records from this role"));
    }
    if !row.try_get::<bool, _>("allowed")? {
        let what = "the role needs SELECT, INSERT, UPDATE and DELETE on idem_records";
        return Err(Error::new(ErrorKind::Unavailable, what).permanent().into());
    }
    for statement in statements.all() {
        connection.prepare(statement.text()).await?;
    }
    let answer = connection.prepare(statements.get.text()).await?;
    let fits = |(name, kind): &(&str, &str)| {
        answer.columns().iter().any(|column| column.name() == *name && column.type_info().name() == *kind)
    };
    if !row::COLUMNS.iter().all(fits) {
        return Err(unfit("a column of idem_records is not of the type that this version expects"));
    }
    Ok(())
}

fn millis(number: i64) -> Duration {
    Duration::from_millis(number.unsigned_abs())
}

fn refused(what: &'static str) -> Failure {
    Error::new(ErrorKind::Unsupported, what).into()
}

fn unfit(what: &'static str) -> Failure {
    Error::new(ErrorKind::Schema, what).into()
}
