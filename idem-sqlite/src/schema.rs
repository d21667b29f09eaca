//! The tables: made and moved on when a store opens.

use idem_core::{Error, ErrorKind};
use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior};

use crate::clock::Clock;
use crate::error::{self, Moment};
use crate::{row, sql};

/// The steps, in order; step `n` makes version `n`.
const MIGRATIONS: [&str; 1] = [include_str!("../migrations/0001_records.sql")];

/// The tables that are this crate's; nobody else's are ever touched.
pub(crate) const TABLES: [&str; 2] = ["idem_records", "idem_schema"];

const VERSION_TABLE: &str = "SELECT 1 FROM main.sqlite_schema WHERE type = 'table' AND name = 'idem_schema'";
const VERSION: &str = "SELECT coalesce(max(version), 0) FROM main.idem_schema";
const NOTE_VERSION: &str = "INSERT INTO main.idem_schema (version, applied_us) VALUES (?1, ?2)";

/// Brings the tables to this version. Safe twice and by many at once: the write lock lets one of them do it, and the
/// version is read again behind the lock. A file that is up to date is not written to.
///
/// A busy file comes back as [`rusqlite::Error`], to be tried again.
pub(crate) fn migrate(connection: &Connection, clock: &Clock) -> rusqlite::Result<Result<(), Error>> {
    let known = MIGRATIONS.len();
    match version(connection)? {
        version if version == known => return Ok(Ok(())),
        version if version > known => return Ok(Err(too_new())),
        _ => {}
    }
    let transaction = Transaction::new_unchecked(connection, TransactionBehavior::Immediate)?;
    let version = version(&transaction)?;
    if version > known {
        return Ok(Err(too_new()));
    }
    for (step, migration) in (1_i64..).zip(MIGRATIONS).skip(version) {
        transaction.execute_batch(migration)?;
        transaction.execute(NOTE_VERSION, (step, row::time(clock.now())))?;
    }
    transaction.commit()?;
    Ok(Ok(()))
}

/// Prepares every statement, so that a table of the same name that is not ours is found before anybody claims.
pub(crate) fn check(connection: &Connection) -> Result<(), Error> {
    for statement in sql::ALL {
        connection.prepare_cached(statement).map_err(|refusal| error::of(refusal, Moment::Statement))?;
    }
    Ok(())
}

fn version(connection: &Connection) -> rusqlite::Result<usize> {
    if connection.query_row(VERSION_TABLE, (), |_| Ok(())).optional()?.is_none() {
        return Ok(0);
    }
    let version: i64 = connection.query_row(VERSION, (), |row| row.get(0))?;
    Ok(usize::try_from(version).unwrap_or(usize::MAX)) // A negative version is nobody's: refused like a newer one.
}

fn too_new() -> Error {
    Error::new(ErrorKind::Schema, "the tables were made by a newer version of idem-sqlite")
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::thread;
    use std::time::{Duration, Instant};

    use super::*;
    use crate::backoff::until;
    use crate::connection::{make_durable, open_writer};

    #[test]
    fn many_at_once_make_the_tables_once() {
        const THREADS: usize = 8;
        for _ in 0..25 {
            let dir = tempfile::tempdir().expect("a directory");
            let path = dir.path().join("idem.db");
            let deadline = Instant::now() + Duration::from_secs(60);
            let open = || {
                let connection = open_writer(&path).expect("opened");
                make_durable(&connection, deadline).expect("set");
                connection
            };
            let barrier = Barrier::new(THREADS);
            let connections: Vec<_> = (0..THREADS).map(|_| open()).collect();
            thread::scope(|scope| {
                for connection in connections {
                    let barrier = &barrier;
                    scope.spawn(move || {
                        let clock = Clock::default();
                        barrier.wait();
                        until(deadline, || migrate(&connection, &clock)).expect("not busy").expect("made");
                    });
                }
            });
            let made = open().query_row("SELECT count(*), max(version) FROM idem_schema", (), |row| {
                Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?))
            });
            let steps = MIGRATIONS.len() as i64;
            assert_eq!(made.expect("read"), (steps, steps));
        }
    }
}
