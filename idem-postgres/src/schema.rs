//! The tables: made and moved on when a store opens, or by somebody who may.

use idem_core::{Error, ErrorKind};
use sqlx::{AssertSqlSafe, Executor, PgConnection, Row};

use crate::error::{Class, Failure, code};
use crate::sql::in_schema;

/// The steps, in order; step `n` makes version `n`.
const MIGRATIONS: [Migration; 1] = [Migration { text: include_str!("../migrations/0001_records.sql"), works_from: 1 }];

struct Migration {
    text: &'static str,
    /// The oldest version whose statements still work on the tables after this step.
    works_from: u32,
}

/// Migrators wait here for each other; they are of every schema, which does not matter. "idem" in ASCII.
const LOCK: i64 = 0x6964_656d;

/// Who makes the tables.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Tables {
    /// The store, when they are missing or old.
    Make,
    /// Somebody else: the store refuses to open when they are missing or old.
    Expect,
}

/// The script that makes the tables in this schema, for those whose application may not run DDL: to be run as it is, by
/// `psql` for one. Opening a store on a database without them runs this very text.
///
/// The schema itself must be there. Two that run it at once do no harm: one of them is refused, wholly.
///
/// # Errors
/// `InvalidInput` for a name that is not up to 63 letters, digits and underscores.
pub fn migration_sql(schema: &str) -> Result<String, Error> {
    script(schema, 0)
}

/// The steps after a version, in one transaction.
fn script(schema: &str, from: usize) -> Result<String, Error> {
    use std::fmt::Write;
    let mut script = format!("BEGIN;\nSELECT pg_advisory_xact_lock({LOCK});\n\n");
    for (version, step) in (1_u32..).zip(&MIGRATIONS).skip(from) {
        let noted = format!(
            "{}\nINSERT INTO \"{{schema}}\".idem_schema (version, works_from, applied_us)\nVALUES ({version}, {}, \
             (extract(epoch FROM clock_timestamp()) * 1000000)::bigint);\n\n",
            step.text, step.works_from
        );
        let _ = write!(script, "{}", in_schema(&noted, schema)?); // A String takes everything.
    }
    script.push_str("COMMIT;\n");
    Ok(script)
}

/// What the version table says.
struct Found {
    version: i64,
    works_from: i64,
}

/// Brings the tables to this version. Safe twice and by many at once: the script is one transaction behind a lock, and
/// who comes second is refused by the tables that are there, and looks again. Tables that are up to date are only
/// looked at.
pub(crate) async fn prepare(connection: &mut PgConnection, schema: &str, tables: Tables) -> Result<(), Failure> {
    let known = MIGRATIONS.len();
    let mut refused = false;
    loop {
        let from = match found(connection, schema).await? {
            None if refused => return Err(foreign().into()),
            None => 0,
            Some(found) => match usize::try_from(found.version) {
                Ok(version) if version == known => return Ok(()),
                Ok(version) if (1..known).contains(&version) => version,
                // Newer tables say themselves which older statements they still bear: so two releases run side by side.
                Ok(version) if version > known && usize::try_from(found.works_from).is_ok_and(|from| from <= known) => {
                    return Ok(());
                }
                _ => return Err(too_new().into()),
            },
        };
        if tables == Tables::Expect {
            return Err(missing(from).into());
        }
        match run(connection, &script(schema, from)?).await {
            Ok(()) => {}
            Err(failure) if was_second(&failure) => refused = true,
            Err(failure) => return Err(failure),
        }
    }
}

async fn found(connection: &mut PgConnection, schema: &str) -> Result<Option<Found>, Failure> {
    let there = sqlx::query("SELECT to_regclass($1) IS NOT NULL AS there")
        .bind(format!("\"{schema}\".idem_schema"))
        .persistent(false)
        .fetch_one(&mut *connection)
        .await?;
    if !there.try_get::<bool, _>("there")? {
        return Ok(None);
    }
    let version = "SELECT version, works_from FROM \"{schema}\".idem_schema ORDER BY version DESC LIMIT 1";
    let row =
        sqlx::query(AssertSqlSafe(in_schema(version, schema)?)).persistent(false).fetch_optional(connection).await?;
    row.map(|row| Ok(Found { version: row.try_get("version")?, works_from: row.try_get("works_from")? })).transpose()
}

async fn run(connection: &mut PgConnection, script: &str) -> Result<(), Failure> {
    let outcome = connection.execute(sqlx::raw_sql(AssertSqlSafe(script))).await;
    if outcome.is_err() {
        // Ends the transaction that the error left; if this fails too, the connection is dropped by the caller.
        let _ = connection.execute("ROLLBACK").await;
    }
    outcome.map(drop).map_err(Failure::from)
}

fn was_second(failure: &Failure) -> bool {
    let second = |sqlstate: &str| matches!(sqlstate, code::DUPLICATE_TABLE | code::UNIQUE);
    match failure {
        Failure::Sql(sqlx::Error::Database(refusal)) => refusal.code().is_some_and(|code| second(&code)),
        _ => failure.class() == Class::Conflict,
    }
}

fn missing(from: usize) -> Error {
    Error::new(
        ErrorKind::Schema,
        match from {
            0 => "the store's tables are missing; run the script that migration_sql gives",
            _ => "the store's tables are of an older version; run the script of this version",
        },
    )
}

fn foreign() -> Error {
    Error::new(ErrorKind::Schema, "there is a table of the store's name that the store did not make")
}

fn too_new() -> Error {
    Error::new(ErrorKind::Schema, "the tables were made by a newer version of idem-postgres, and do not bear this one")
}
