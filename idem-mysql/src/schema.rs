//! The tables: made and moved on by `migrate`, looked at when a store opens.

use idem_core::{Error, ErrorKind};
use mysql_async::Conn;
use mysql_async::prelude::Queryable;

use crate::error::{Class, Refusal};
use crate::startup;

/// The steps, in order; step `n` makes version `n`.
const MIGRATIONS: [&str; 1] = [include_str!("../migrations/0001_records.sql")];

/// A lock's name belongs to the whole server, so the database is in it. Seconds to wait for it.
const LOCK: &str = "SELECT GET_LOCK(CONCAT('idem:', LEFT(SHA2(DATABASE(), 256), 40)), 60)";
const UNLOCK: &str = "SELECT RELEASE_LOCK(CONCAT('idem:', LEFT(SHA2(DATABASE(), 256), 40)))";

const VERSION_TABLE: &str = "SELECT COUNT(*) FROM information_schema.tables
    WHERE table_schema = DATABASE() AND table_name = 'idem_schema'";
const VERSION: &str = "SELECT COALESCE(MAX(version), 0) FROM idem_schema";
const NOTE_VERSION: &str = "INSERT INTO idem_schema (version, applied_us)
    VALUES (?, TIMESTAMPDIFF(MICROSECOND, '1970-01-01 00:00:00', UTC_TIMESTAMP(6)))";

/// What [`Builder::migrate`](crate::Builder::migrate) runs, for those whose application may not run DDL: to be given to
/// the server's command line client, as it is.
///
/// It can be run again, and by one at a time.
#[must_use]
pub fn migration_sql() -> String {
    let mut text = String::new();
    for (step, migration) in (1..).zip(MIGRATIONS) {
        text.push_str(migration);
        text.push_str(&format!(
            "\nINSERT INTO idem_schema (version, applied_us)\n\
             SELECT {step}, TIMESTAMPDIFF(MICROSECOND, '1970-01-01 00:00:00', UTC_TIMESTAMP(6))\n  \
             FROM (SELECT 1) AS once WHERE NOT EXISTS (SELECT 1 FROM idem_schema WHERE version = {step});\n"
        ));
    }
    text
}

/// Brings the tables to this version.
pub(crate) async fn migrate(connection: &mut Conn) -> Result<(), Error> {
    if version(connection).await? >= MIGRATIONS.len() {
        return check(connection).await;
    }
    let locked: Option<Option<u8>> = connection.query_first(LOCK).await.map_err(failed)?;
    if locked.flatten() != Some(1) {
        return Err(Error::new(ErrorKind::Unavailable, "somebody else migrates, and does not come to an end"));
    }
    let outcome = run_steps(connection).await;
    // Gone with the connection in any case.
    let _: Option<Option<u8>> = connection.query_first(UNLOCK).await.map_err(failed)?;
    outcome?;
    check(connection).await
}

async fn run_steps(connection: &mut Conn) -> Result<(), Error> {
    let version = version(connection).await?;
    for (step, migration) in (1_i64..).zip(MIGRATIONS).skip(version) {
        for statement in statements(migration) {
            connection.query_drop(statement).await.map_err(failed)?;
        }
        // A table of our name that was there before is not noted as ours.
        startup::check_tables(connection).await?;
        connection.exec_drop(NOTE_VERSION, (step,)).await.map_err(failed)?;
    }
    Ok(())
}

/// Refuses tables that are not of this version.
pub(crate) async fn check(connection: &mut Conn) -> Result<(), Error> {
    let (version, known) = (version(connection).await?, MIGRATIONS.len());
    if version > known {
        return Err(Error::new(ErrorKind::Schema, "the tables were made by a newer version of idem-mysql"));
    }
    if version < known {
        let message = "the tables are not there, or of an older version: run `migrate`, or what `migration_sql` says";
        return Err(Error::new(ErrorKind::Schema, message));
    }
    Ok(())
}

async fn version(connection: &mut Conn) -> Result<usize, Error> {
    let tables: Option<u64> = connection.query_first(VERSION_TABLE).await.map_err(failed)?;
    if tables != Some(1) {
        return Ok(0);
    }
    let version: Option<i64> = connection.query_first(VERSION).await.map_err(failed)?;
    // A negative version is nobody's: refused like a newer one.
    version.map_or(Ok(0), |version| Ok(usize::try_from(version).unwrap_or(usize::MAX)))
}

/// The statements of a step. A semicolon ends one where it ends a line, and nowhere else.
fn statements(migration: &str) -> impl Iterator<Item = &str> {
    migration.split(";\n").map(str::trim).filter(|statement| !statement.is_empty())
}

fn failed(error: mysql_async::Error) -> Error {
    match Refusal::from(error) {
        Refusal { class: Class::Duplicate, .. } => {
            Error::new(ErrorKind::Schema, "the version was noted by somebody who does not take the lock")
        }
        refusal => refusal.error(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_its_statements() {
        let all: Vec<_> = MIGRATIONS.iter().flat_map(|step| statements(step)).collect();
        assert_eq!(all.len(), 2);
        for statement in all {
            assert!(statement.contains("CREATE TABLE IF NOT EXISTS idem_"), "{statement}");
            assert!(statement.ends_with("InnoDB") || statement.ends_with("DYNAMIC"), "{statement}");
        }
    }

    #[test]
    fn what_is_printed_is_what_runs() {
        let printed = migration_sql();
        for step in MIGRATIONS {
            assert!(printed.contains(step));
        }
    }
}
