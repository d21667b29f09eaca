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
    let Some(code) = error.sqlite_error().map(|sqlite| sqlite.extended_code) else {
        return Error::new(ErrorKind::Schema, "a stored row cannot be read").with_source(error);
    };
    of_code(code, moment).with_source(error)
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

/// SQLite's extended result code. An error of the driver itself has none, and is as doubtful as one of the disk.
pub(crate) fn code(error: &rusqlite::Error) -> c_int {
    error.sqlite_error().map_or(ffi::SQLITE_IOERR, |sqlite| sqlite.extended_code)
}

/// Is it worth waiting and trying the same again on this connection?
pub(crate) fn is_busy(error: &rusqlite::Error) -> bool {
    error.sqlite_error().is_some_and(|sqlite| class(sqlite.extended_code) == Class::Busy)
}

/// An error of `COMMIT` that leaves no doubt. Writing to the disk does: what reached it may come back after a crash.
fn certainly_rolled_back(code: c_int) -> bool {
    matches!(code & 0xff, ffi::SQLITE_BUSY | ffi::SQLITE_FULL | ffi::SQLITE_NOMEM | ffi::SQLITE_CONSTRAINT)
}

/// Extended codes first; a code that is not named falls back to its primary one.
fn class(code: c_int) -> Class {
    match code {
        ffi::SQLITE_LOCKED_SHAREDCACHE => Class::Lasting("the file is open in shared-cache mode"),
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
