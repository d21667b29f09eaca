//! One table from SQLite's result codes to the store's errors.
//!
//! The codes are those of <https://www.sqlite.org/rescode.html>; error texts decide nothing.

use std::ffi::c_int;

use idem_core::{Error, ErrorKind};
use rusqlite::ffi;

/// When an error came: before a commit nothing can have been applied, in one it may have been.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Moment {
    Statement,
    Commit,
}

/// What to do about a result code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Class {
    /// Somebody else has the lock. Tried again until the deadline.
    Busy,
    /// It may pass: tried again by the caller.
    Passing(&'static str),
    /// It does not pass by itself.
    Lasting(&'static str),
    /// The file, or what is in it, is not this version's.
    Schema(&'static str),
    /// Longer than SQLite keeps.
    TooLarge,
    /// Something that the application put on its tables, or on these, refused the change.
    Refused(&'static str),
    /// A statement of this store broke a rule of its own table.
    Bug,
}

/// The error that a caller gets for what went wrong at a moment.
pub(crate) fn of(error: rusqlite::Error, moment: Moment) -> Error {
    match error {
        rusqlite::Error::FromSqlConversionFailure(..)
        | rusqlite::Error::IntegralValueOutOfRange(..)
        | rusqlite::Error::InvalidColumnType(..) => {
            Error::new(ErrorKind::Schema, "a stored row cannot be read").with_source(error)
        }
        _ => of_code(code(&error), moment).with_source(error),
    }
}

/// The same for a bare result code.
pub(crate) fn of_code(code: c_int, moment: Moment) -> Error {
    if moment == Moment::Commit && !certainly_rolled_back(code) {
        return Error::new(ErrorKind::Indeterminate, "COMMIT failed, and its outcome is not known");
    }
    match class(code) {
        Class::Busy => Error::new(ErrorKind::Unavailable, "the database file stayed locked by another connection"),
        Class::Passing(what) => Error::new(ErrorKind::Unavailable, what),
        Class::Lasting(what) => Error::new(ErrorKind::Unavailable, what).permanent(),
        Class::Schema(what) => Error::new(ErrorKind::Schema, what),
        Class::TooLarge => Error::new(ErrorKind::TooLarge, "the value is longer than SQLite keeps"),
        Class::Refused(what) => Error::new(ErrorKind::TransactionAborted, what).permanent(),
        Class::Bug => Error::new(ErrorKind::Bug, "a statement of this store was refused by SQLite"),
    }
}

/// SQLite's extended result code. The driver keeps that of a statement that cannot be prepared to itself; it is always
/// the general one.
pub(crate) fn code(error: &rusqlite::Error) -> c_int {
    error.sqlite_error().map_or(ffi::SQLITE_ERROR, |sqlite| sqlite.extended_code)
}

/// Is it worth waiting and trying the same again on this connection?
pub(crate) fn is_busy(error: &rusqlite::Error) -> bool {
    error.sqlite_error().is_some_and(|sqlite| class(sqlite.extended_code) == Class::Busy)
}

/// Was there no room? Then nothing was applied, and something shorter may fit.
pub(crate) fn is_full(error: &rusqlite::Error) -> bool {
    code(error) & 0xff == ffi::SQLITE_FULL
}

/// An error of `COMMIT` that leaves no doubt. Writing to the disk does: what reached it may come back after a crash.
fn certainly_rolled_back(code: c_int) -> bool {
    matches!(code & 0xff, ffi::SQLITE_BUSY | ffi::SQLITE_FULL | ffi::SQLITE_NOMEM | ffi::SQLITE_CONSTRAINT)
}

/// Extended codes first; a code that is not named falls back to its primary one.
fn class(code: c_int) -> Class {
    match code {
        ffi::SQLITE_LOCKED_SHAREDCACHE => Class::Lasting("the file is open in shared-cache mode"),
        // A transaction that read first and was overtaken: waiting inside it can never help.
        ffi::SQLITE_BUSY_SNAPSHOT => Class::Passing("another connection wrote first"),
        ffi::SQLITE_CONSTRAINT_FOREIGNKEY => Class::Refused("a foreign key refused the change"),
        ffi::SQLITE_CONSTRAINT_TRIGGER => Class::Refused("a trigger refused the change"),
        _ => primary_class(code & 0xff),
    }
}

fn primary_class(code: c_int) -> Class {
    match code {
        ffi::SQLITE_BUSY | ffi::SQLITE_PROTOCOL => Class::Busy,
        ffi::SQLITE_LOCKED => Class::Passing("a table is locked"),
        ffi::SQLITE_INTERRUPT | ffi::SQLITE_ABORT => Class::Passing("the statement was interrupted"),
        ffi::SQLITE_FULL => Class::Passing("the disk is full"),
        ffi::SQLITE_IOERR => Class::Passing("the disk answered with an error"),
        ffi::SQLITE_NOMEM => Class::Passing("there was no memory left"),
        ffi::SQLITE_CANTOPEN => Class::Lasting("the database file cannot be opened"),
        ffi::SQLITE_READONLY | ffi::SQLITE_PERM | ffi::SQLITE_AUTH => {
            Class::Lasting("the database file may not be written")
        }
        ffi::SQLITE_NOLFS => Class::Lasting("the file system does not take a file of this size"),
        ffi::SQLITE_CORRUPT => Class::Schema("the database file is damaged"),
        ffi::SQLITE_NOTADB => Class::Schema("the file is not a database"),
        ffi::SQLITE_ERROR | ffi::SQLITE_SCHEMA => Class::Schema("the tables are not what this version expects"),
        ffi::SQLITE_TOOBIG => Class::TooLarge,
        _ => Class::Bug,
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Duration;

    use rusqlite::{Connection, TransactionBehavior};
    use tempfile::TempDir;

    use super::*;

    fn open(path: &Path) -> Connection {
        let connection = Connection::open(path).expect("opened");
        connection.busy_timeout(Duration::ZERO).expect("set");
        connection.execute_batch("PRAGMA journal_mode = WAL").expect("set");
        connection
    }

    fn file() -> (TempDir, Connection, Connection) {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("t.db");
        let (a, b) = (open(&path), open(&path));
        a.execute_batch(
            "CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER NOT NULL CHECK (n < 10), p INTEGER REFERENCES t (id),
                             u TEXT UNIQUE) STRICT;
             INSERT INTO t (id, n, u) VALUES (1, 1, 'u');",
        )
        .expect("made");
        (dir, a, b)
    }

    /// The code that SQLite really gave, and what becomes of it.
    fn provoked(refusal: rusqlite::Error) -> (c_int, ErrorKind, bool) {
        let code = code(&refusal);
        let error = of(refusal, Moment::Statement);
        (code, error.kind(), error.is_retryable())
    }

    fn run(connection: &Connection, statements: &str) -> (c_int, ErrorKind, bool) {
        provoked(connection.execute_batch(statements).expect_err(statements))
    }

    #[test]
    fn a_lock_is_busy_and_passes() {
        let (_dir, a, b) = file();
        a.execute_batch("BEGIN IMMEDIATE").expect("locked");
        let refusal = b.execute_batch("BEGIN IMMEDIATE").expect_err("locked");
        assert!(is_busy(&refusal));
        assert_eq!(provoked(refusal), (ffi::SQLITE_BUSY, ErrorKind::Unavailable, true));
    }

    #[test]
    fn a_stale_snapshot_is_not_waited_for() {
        let (_dir, a, mut b) = file();
        let reading = b.transaction_with_behavior(TransactionBehavior::Deferred).expect("begun");
        reading.query_row("SELECT count(*) FROM t", (), |_| Ok(())).expect("read");
        a.execute_batch("INSERT INTO t (n) VALUES (2)").expect("written");
        let refusal = reading.execute_batch("INSERT INTO t (n) VALUES (3)").expect_err("stale");
        assert!(!is_busy(&refusal));
        assert_eq!(provoked(refusal), (ffi::SQLITE_BUSY_SNAPSHOT, ErrorKind::Unavailable, true));
    }

    #[test]
    fn constraints_of_our_own_statements_are_defects() {
        let (_dir, a, _b) = file();
        let cases = [
            ("INSERT INTO t (id, n) VALUES (1, 1)", ffi::SQLITE_CONSTRAINT_PRIMARYKEY),
            ("INSERT INTO t (n, u) VALUES (1, 'u')", ffi::SQLITE_CONSTRAINT_UNIQUE),
            ("INSERT INTO t (n) VALUES (NULL)", ffi::SQLITE_CONSTRAINT_NOTNULL),
            ("INSERT INTO t (n) VALUES (11)", ffi::SQLITE_CONSTRAINT_CHECK),
            ("INSERT INTO t (n) VALUES ('x')", ffi::SQLITE_CONSTRAINT_DATATYPE),
        ];
        for (statement, code) in cases {
            assert_eq!(run(&a, statement), (code, ErrorKind::Bug, false), "{statement}");
        }
    }

    #[test]
    fn what_an_application_put_on_the_tables_aborts() {
        let (_dir, a, _b) = file();
        a.execute_batch(
            "PRAGMA foreign_keys = ON;
             CREATE TRIGGER no BEFORE DELETE ON t BEGIN SELECT RAISE(ABORT, 'no'); END",
        )
        .expect("made");
        let cases = [
            ("INSERT INTO t (n, p) VALUES (1, 99)", ffi::SQLITE_CONSTRAINT_FOREIGNKEY),
            ("DELETE FROM t", ffi::SQLITE_CONSTRAINT_TRIGGER),
        ];
        for (statement, code) in cases {
            assert_eq!(run(&a, statement), (code, ErrorKind::TransactionAborted, false), "{statement}");
        }
    }

    #[test]
    fn tables_that_are_not_there_are_the_schemas_fault() {
        let (_dir, a, _b) = file();
        for statement in ["SELECT * FROM missing", "SELECT missing FROM t"] {
            assert_eq!(run(&a, statement), (ffi::SQLITE_ERROR, ErrorKind::Schema, false), "{statement}");
        }
    }

    #[test]
    fn a_full_disk_passes_and_leaves_no_doubt_at_commit() {
        let (_dir, a, _b) = file();
        a.execute_batch("PRAGMA max_page_count = 8").expect("set");
        let full = run(&a, "INSERT INTO t (n, u) VALUES (1, hex(zeroblob(100000)))");
        assert_eq!(full, (ffi::SQLITE_FULL, ErrorKind::Unavailable, true));
        assert_eq!(of_code(ffi::SQLITE_FULL, Moment::Commit).kind(), ErrorKind::Unavailable);
    }

    #[test]
    fn too_long_interrupted_and_read_only() {
        let (_dir, a, b) = file();
        assert_eq!(run(&a, "SELECT zeroblob(2000000000)"), (ffi::SQLITE_TOOBIG, ErrorKind::TooLarge, false));
        b.execute_batch("PRAGMA query_only = ON").expect("set");
        assert_eq!(run(&b, "DELETE FROM t"), (ffi::SQLITE_READONLY, ErrorKind::Unavailable, false));
        let mut numbers = a
            .prepare("WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n")
            .expect("made");
        let mut rows = numbers.query(()).expect("begun");
        rows.next().expect("read");
        a.get_interrupt_handle().interrupt();
        let refusal = rows.next().expect_err("interrupted");
        assert_eq!(provoked(refusal), (ffi::SQLITE_INTERRUPT, ErrorKind::Unavailable, true));
    }

    #[test]
    fn a_table_in_use_is_locked() {
        let (_dir, a, _b) = file();
        let mut reading = a.prepare("SELECT * FROM t").expect("made");
        let mut rows = reading.query(()).expect("begun");
        rows.next().expect("read");
        assert_eq!(run(&a, "DROP TABLE t"), (ffi::SQLITE_LOCKED, ErrorKind::Unavailable, true));
    }

    #[test]
    fn files_that_cannot_be_used() {
        let dir = tempfile::tempdir().expect("a directory");
        let cannot_open = provoked(Connection::open(dir.path()).expect_err("a directory"));
        assert_eq!(
            (cannot_open.0 & 0xff, cannot_open.1, cannot_open.2),
            (ffi::SQLITE_CANTOPEN, ErrorKind::Unavailable, false)
        );

        let garbage = dir.path().join("garbage");
        std::fs::write(&garbage, vec![b'x'; 4_096]).expect("written");
        let connection = Connection::open(&garbage).expect("opened lazily");
        assert_eq!(run(&connection, "SELECT * FROM t"), (ffi::SQLITE_NOTADB, ErrorKind::Schema, false));

        let damaged = dir.path().join("damaged");
        let connection = Connection::open(&damaged).expect("opened");
        connection.execute_batch("CREATE TABLE t (x); INSERT INTO t VALUES (1)").expect("made");
        drop(connection);
        let mut bytes = std::fs::read(&damaged).expect("read");
        let second_page = bytes.len() / 2;
        bytes[second_page..].fill(0xff);
        std::fs::write(&damaged, bytes).expect("written");
        let connection = Connection::open(&damaged).expect("opened lazily");
        let (code, kind, retryable) =
            provoked(connection.query_row("SELECT x FROM t", (), |_| Ok(())).expect_err("damaged"));
        assert_eq!((code & 0xff, kind, retryable), (ffi::SQLITE_CORRUPT, ErrorKind::Schema, false));
    }

    #[test]
    fn a_commit_that_the_disk_refused_is_in_doubt() {
        for code in [ffi::SQLITE_IOERR, ffi::SQLITE_IOERR_FSYNC, ffi::SQLITE_IOERR_WRITE, ffi::SQLITE_CORRUPT] {
            let error = of_code(code, Moment::Commit);
            assert_eq!((error.kind(), error.is_retryable()), (ErrorKind::Indeterminate, true), "{code}");
        }
        assert_eq!(of_code(ffi::SQLITE_BUSY, Moment::Commit).kind(), ErrorKind::Unavailable);
        assert_eq!(of_code(ffi::SQLITE_IOERR_READ, Moment::Statement).kind(), ErrorKind::Unavailable);
        assert_eq!(of_code(ffi::SQLITE_LOCKED_SHAREDCACHE, Moment::Statement).kind(), ErrorKind::Unavailable);
        assert!(!of_code(ffi::SQLITE_LOCKED_SHAREDCACHE, Moment::Statement).is_retryable());
        assert_eq!(of_code(ffi::SQLITE_MISUSE, Moment::Statement).kind(), ErrorKind::Bug);
    }
}
