//! Connections: how they are opened, what is set on them, and which SQLite is refused.

use std::path::Path;
use std::time::{Duration, Instant};

use idem_core::{Error, ErrorKind};
use rusqlite::{Connection, OpenFlags};

use crate::backoff::until;
use crate::error::{self, Moment};

/// The first release without the WAL-reset bug, which can damage a file that two connections write:
/// <https://www.sqlite.org/wal.html#walresetbug>.
const FIRST_SOUND_SQLITE: i32 = 3_051_003;

/// SQLite keeps the write-ahead log at its largest size unless it is told otherwise.
const LOG_SIZE_LIMIT: i64 = 64 * 1024 * 1024;

/// The statements of this crate, and room for those of the caller's closures.
const CACHED_STATEMENTS: usize = 64;

/// Refuses what the store would not be sound on, before anything is opened.
pub(crate) fn refuse_unsound(path: &Path) -> Result<(), Error> {
    refuse_old(rusqlite::version_number())?;
    let text = path.to_string_lossy();
    if text.is_empty() || text == ":memory:" {
        return Err(Error::new(ErrorKind::Unsupported, "a database in memory has no write-ahead log: give it a file"));
    }
    if text.starts_with("file:") {
        // A URI can ask for shared cache, no locks or memory; each of them takes away what the store stands on.
        return Err(Error::new(ErrorKind::Unsupported, "a URI is not taken: give the path of a file"));
    }
    Ok(())
}

fn refuse_old(version: i32) -> Result<(), Error> {
    if version < FIRST_SOUND_SQLITE {
        let message = format!(
            "SQLite {}.{}.{} can damage a file in WAL mode; 3.51.3 and later do not",
            version / 1_000_000,
            version / 1_000 % 1_000,
            version % 1_000
        );
        return Err(Error::new(ErrorKind::Unsupported, message));
    }
    Ok(())
}

/// Opens the one connection that writes.
pub(crate) fn open_writer(path: &Path) -> Result<Connection, Error> {
    // No mutex: each connection stays on one thread.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).map_err(statement)?;
    // As rusqlite's own bundled SQLite has it, and as those who wrote a foreign key expect.
    connection.pragma_update(None, "foreign_keys", true).map_err(statement)?;
    Ok(connection)
}

/// Opens a connection that only reads.
pub(crate) fn open_reader(path: &Path) -> Result<Connection, Error> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).map_err(statement)?;
    settle_in(&connection).map_err(statement)?;
    Ok(connection)
}

/// Sets what durability and order stand on, and reads it back: a file system may refuse WAL without an error.
pub(crate) fn make_durable(connection: &Connection, deadline: Instant) -> Result<(), Error> {
    settle_in(connection).map_err(statement)?;
    // Turning WAL on needs the file alone for a moment, and does not wait by itself.
    let mode: String =
        until(deadline, || connection.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0)))
            .map_err(statement)?;
    if !mode.eq_ignore_ascii_case("wal") {
        return Err(Error::new(ErrorKind::Unsupported, "the file system or the file does not take WAL mode"));
    }
    connection.pragma_update(None, "synchronous", "FULL").map_err(statement)?;
    // On macOS only these reach the disk; elsewhere they change nothing.
    connection.pragma_update(None, "fullfsync", true).map_err(statement)?;
    connection.pragma_update(None, "checkpoint_fullfsync", true).map_err(statement)?;
    connection.pragma_update_and_check(None, "journal_size_limit", LOG_SIZE_LIMIT, |_| Ok(())).map_err(statement)?;
    let synchronous: i64 = connection.pragma_query_value(None, "synchronous", |row| row.get(0)).map_err(statement)?;
    if synchronous != SYNCHRONOUS_FULL {
        return Err(Error::new(ErrorKind::Unsupported, "SQLite did not take synchronous = FULL"));
    }
    Ok(())
}

/// <https://www.sqlite.org/pragma.html#pragma_synchronous>
const SYNCHRONOUS_FULL: i64 = 2;

/// Room for prepared statements, and no wait but the store's own: SQLite's handler sleeps ever longer, and newcomers
/// overtake. The driver sets both past the authorizer, so this is said again after each of the caller's closures.
pub(crate) fn settle_in(connection: &Connection) -> rusqlite::Result<()> {
    connection.set_prepared_statement_cache_capacity(CACHED_STATEMENTS);
    connection.busy_timeout(Duration::ZERO)
}

fn statement(error: rusqlite::Error) -> Error {
    error::of(error, Moment::Statement)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sqlite_with_the_wal_reset_bug_is_refused() {
        for old in [3_007_000, 3_040_001, 3_051_001, 3_051_002] {
            let error = refuse_old(old).expect_err("refused");
            assert_eq!((error.kind(), error.is_retryable()), (ErrorKind::Unsupported, false), "{old}");
        }
        assert!(refuse_old(3_040_001).expect_err("refused").message().contains("3.40.1"));
        for sound in [3_051_003, 3_053_002, 4_000_000] {
            assert!(refuse_old(sound).is_ok(), "{sound}");
        }
    }

    #[test]
    fn a_mode_that_is_not_wal_is_refused() {
        let memory = Connection::open_in_memory().expect("opened");
        let error = make_durable(&memory, Instant::now()).expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::Unsupported);
    }

    #[test]
    fn a_reader_cannot_write() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("idem.db");
        let writer = open_writer(&path).expect("opened");
        make_durable(&writer, Instant::now()).expect("set");
        writer.execute_batch("CREATE TABLE t (x)").expect("made");
        let reader = open_reader(&path).expect("opened");
        assert!(reader.execute_batch("INSERT INTO t VALUES (1)").is_err());
    }
}
