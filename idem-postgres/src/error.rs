//! One table from PostgreSQL's error codes to what is done about them, and to the store's errors.
//!
//! The codes are those of <https://www.postgresql.org/docs/current/errcodes-appendix.html>; error texts decide nothing,
//! and are not passed on once a statement was sent: they may show a key (clause X6).

use std::{fmt, io};

use idem_core::{Error, ErrorKind};

#[cfg(test)]
mod tests;

/// The codes that are told apart.
pub(crate) mod code {
    pub(crate) const CONNECTION_EXCEPTION: &str = "08000";
    pub(crate) const CANNOT_CONNECT: &str = "08001";
    pub(crate) const REJECTED_CONNECTION: &str = "08004";
    pub(crate) const TRANSACTION_UNKNOWN: &str = "08007";
    pub(crate) const PROTOCOL_VIOLATION: &str = "08P01";
    pub(crate) const FEATURE_NOT_SUPPORTED: &str = "0A000";
    pub(crate) const READ_ONLY: &str = "25006";
    pub(crate) const SCHEMA_AND_DATA_MIXED: &str = "25007";
    pub(crate) const IN_FAILED_TRANSACTION: &str = "25P02";
    pub(crate) const IDLE_IN_TRANSACTION: &str = "25P03";
    pub(crate) const INVALID_STATEMENT_NAME: &str = "26000";
    pub(crate) const NO_SUCH_SCHEMA: &str = "3F000";
    pub(crate) const SERIALIZATION: &str = "40001";
    pub(crate) const COMPLETION_UNKNOWN: &str = "40003";
    pub(crate) const DEADLOCK: &str = "40P01";
    pub(crate) const INSUFFICIENT_PRIVILEGE: &str = "42501";
    pub(crate) const DUPLICATE_STATEMENT: &str = "42P05";
    pub(crate) const DUPLICATE_TABLE: &str = "42P07";
    pub(crate) const TOO_LARGE: &str = "54000";
    pub(crate) const TOO_MANY_CONNECTIONS: &str = "53300";
    pub(crate) const LOCK_TIMEOUT: &str = "55P03";
    pub(crate) const CANCELED: &str = "57014";
    pub(crate) const ADMIN_SHUTDOWN: &str = "57P01";
    pub(crate) const CRASH_SHUTDOWN: &str = "57P02";
    pub(crate) const CANNOT_CONNECT_NOW: &str = "57P03";
    pub(crate) const IDLE_SESSION: &str = "57P05";
    pub(crate) const UNIQUE: &str = "23505";
}

/// What is done about an error.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Class {
    /// Rolled back because of somebody else; the same again may succeed at once.
    Conflict,
    /// Waited long enough for somebody else's lock. Nothing was applied.
    Locked,
    /// Nothing was applied; it may pass.
    Passing(&'static str),
    /// Nothing was applied, and nothing will be over this connection.
    Connection(&'static str),
    /// May have been applied; the connection is gone.
    Unknown(&'static str),
    /// Nothing was applied; it does not pass by itself.
    Lasting(&'static str),
    /// A parameter of the connection was refused.
    Options,
    /// A statement of somebody else's may have been run instead of ours.
    Pooler,
    /// The tables, or what is in them, are not this version's.
    Schema(&'static str),
    /// Longer than PostgreSQL keeps.
    TooLarge,
    /// Something that was put on the tables, or on the application's, refused the change.
    Refused(&'static str),
    /// A statement of this store was wrong.
    Bug,
}

/// What stops a statement, or the operation that sent it.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The driver's, or the server's through it.
    Sql(sqlx::Error),
    /// No connection was had: nothing was sent.
    NoConnection(sqlx::Error),
    /// The deadline passed while a statement was out.
    TimedOut,
    /// The deadline passed before anything was sent.
    NoTime,
    /// The answer was another statement's.
    Swapped,
    /// A row that is not one of a record.
    NotARecord,
    /// The row moved as often as it was looked at (clause C12).
    Moved,
    /// Already an error of the store.
    Store(Error),
}

impl From<sqlx::Error> for Failure {
    fn from(error: sqlx::Error) -> Failure {
        Failure::Sql(error)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Store(error)
    }
}

impl Failure {
    pub(crate) fn class(&self) -> Class {
        match self {
            Failure::Sql(error) => sent(error),
            Failure::NoConnection(error) => unsent(error),
            Failure::TimedOut => Class::Unknown("the deadline passed before the answer came"),
            Failure::NoTime => Class::Passing("the deadline passed before the request was sent"),
            Failure::Swapped => Class::Pooler,
            Failure::NotARecord => Class::Schema("a stored row is not one of a record"),
            Failure::Moved => Class::Passing("the record changed as often as it was looked at"),
            Failure::Store(_) => Class::Lasting("an error of the store"),
        }
    }

    /// Can the connection be used again?
    pub(crate) fn spares_the_connection(&self) -> bool {
        !matches!(self.class(), Class::Unknown(_) | Class::Connection(_) | Class::Pooler)
    }

    /// The error that a caller gets, when it was not inside a transaction of the caller's.
    pub(crate) fn into_error(self) -> Error {
        let class = self.class();
        match self {
            Failure::Store(error) => error,
            other => with_source(of_class(class), other),
        }
    }

    /// The same inside a transaction of the caller's, which is gone by it: whatever was to be tried again must be tried
    /// from the transaction's beginning (clause J3).
    pub(crate) fn into_aborted(self) -> Error {
        let class = self.class();
        match self {
            Failure::Store(error) => error,
            other => with_source(of_class_in_transaction(class), other),
        }
    }
}

fn of_class(class: Class) -> Error {
    match class {
        Class::Conflict => Error::new(ErrorKind::Unavailable, "other transactions were in the way each time"),
        Class::Locked => Error::new(ErrorKind::Unavailable, "another transaction kept the record locked"),
        Class::Passing(what) | Class::Connection(what) => Error::new(ErrorKind::Unavailable, what),
        Class::Unknown(what) => Error::new(ErrorKind::Indeterminate, what),
        Class::Lasting(what) => Error::new(ErrorKind::Unavailable, what).permanent(),
        Class::Options => Error::new(ErrorKind::Unsupported, OPTIONS),
        Class::Pooler => Error::new(ErrorKind::Unsupported, POOLER),
        Class::Schema(what) => Error::new(ErrorKind::Schema, what),
        Class::TooLarge => Error::new(ErrorKind::TooLarge, "the value is longer than PostgreSQL keeps"),
        Class::Refused(what) => Error::new(ErrorKind::Schema, what),
        Class::Bug => Error::new(ErrorKind::Bug, "a statement of this store was refused by PostgreSQL"),
    }
}

fn of_class_in_transaction(class: Class) -> Error {
    let aborted = |what| Error::new(ErrorKind::TransactionAborted, what);
    match class {
        Class::Conflict => aborted("another transaction was in the way"),
        Class::Locked => aborted("another transaction kept the record locked"),
        Class::Passing(what) | Class::Connection(what) | Class::Unknown(what) => aborted(what),
        Class::Refused(what) => aborted(what).permanent(),
        other => of_class(other),
    }
}

const OPTIONS: &str = "the server, or a pooler before it, refused the options of the connection; behind PgBouncer say \
     limits_of_the_role and set lock_timeout and statement_timeout for the role";

/// What to do about a pooler.
pub(crate) const POOLER: &str = "a pooler between the store and PostgreSQL mixes the prepared statements of its clients; use session \
     pooling, or PgBouncer 1.21 or later with max_prepared_statements above 0, and do not turn the driver's statement \
     cache off";

/// After a statement was sent.
fn sent(error: &sqlx::Error) -> Class {
    use sqlx::Error as Sql;
    match error {
        Sql::Database(refusal) => refusal.code().map_or(Class::Bug, |code| of_code(&code)),
        Sql::ColumnDecode { .. } | Sql::Decode(_) => Class::Schema("a stored row cannot be read"),
        // No statement of ours answers without a row, or without its columns.
        Sql::ColumnNotFound(_) | Sql::ColumnIndexOutOfBounds { .. } | Sql::RowNotFound => Class::Pooler,
        Sql::Encode(_) | Sql::InvalidArgument(_) => Class::TooLarge,
        Sql::Io(_) | Sql::Tls(_) | Sql::Protocol(_) | Sql::WorkerCrashed => {
            Class::Unknown("the connection was lost before the answer came")
        }
        _ => Class::Unknown("the driver failed before the answer came"),
    }
}

/// Before a statement was sent.
fn unsent(error: &sqlx::Error) -> Class {
    use sqlx::Error as Sql;
    match error {
        Sql::Database(refusal) => match refusal.code().as_deref() {
            // A pooler says so of a parameter that it does not know.
            Some(code::PROTOCOL_VIOLATION | code::CONNECTION_EXCEPTION) => Class::Options,
            Some(code) => match of_code(code) {
                Class::Unknown(what) => Class::Passing(what),
                // Before any statement only the options can be wrong.
                Class::Bug | Class::Schema(_) => Class::Options,
                class => class,
            },
            None => Class::Lasting("the server refused the connection"),
        },
        Sql::PoolTimedOut => Class::Passing("no connection was free in time"),
        Sql::PoolClosed => Class::Lasting("the store is closed"),
        // So rustls reports a certificate: the next try would meet the same one.
        Sql::Io(error) if error.kind() == io::ErrorKind::InvalidData => {
            Class::Lasting("no encrypted connection: the server's certificate is not trusted, or not for this host")
        }
        Sql::Io(_) => Class::Passing("the server cannot be reached"),
        Sql::Protocol(_) => Class::Passing("the server answered something else than PostgreSQL does"),
        Sql::Tls(_) | Sql::Configuration(_) => Class::Lasting("the connection cannot be made as it is configured"),
        _ => Class::Lasting("no connection can be made"),
    }
}

/// A code that is not named falls back to its class, the first two characters.
pub(crate) fn of_code(sqlstate: &str) -> Class {
    match sqlstate {
        code::SERIALIZATION | code::DEADLOCK => Class::Conflict,
        code::LOCK_TIMEOUT => Class::Locked,
        code::CANCELED => Class::Passing("the statement took too long and was rolled back"),
        code::TRANSACTION_UNKNOWN | code::COMPLETION_UNKNOWN => {
            Class::Unknown("the outcome of the statement is not known")
        }
        code::ADMIN_SHUTDOWN | code::CRASH_SHUTDOWN | code::IDLE_SESSION => {
            Class::Unknown("the server ended the connection")
        }
        code::CANNOT_CONNECT_NOW => Class::Passing("the server is starting or stopping"),
        code::TOO_MANY_CONNECTIONS => Class::Passing("the server has no connection left"),
        code::CANNOT_CONNECT | code::REJECTED_CONNECTION => Class::Passing("the server cannot be reached"),
        code::READ_ONLY | code::SCHEMA_AND_DATA_MIXED => {
            Class::Connection("the server takes no writes: is it a replica?")
        }
        // Somebody's transaction was left open on a connection that should have had none.
        code::IN_FAILED_TRANSACTION | code::IDLE_IN_TRANSACTION => {
            Class::Connection("a transaction was left open on the connection")
        }
        // A plan that was made before a column was added; the statements themselves use nothing unusual.
        code::FEATURE_NOT_SUPPORTED => Class::Connection("a prepared statement is older than the tables"),
        code::INVALID_STATEMENT_NAME | code::DUPLICATE_STATEMENT | code::PROTOCOL_VIOLATION => Class::Pooler,
        code::NO_SUCH_SCHEMA => Class::Schema("there is no schema of this name"),
        code::INSUFFICIENT_PRIVILEGE => Class::Lasting("the role may not do this on the store's tables"),
        code::TOO_LARGE => Class::TooLarge,
        _ => by_class(sqlstate.get(..2).unwrap_or("")),
    }
}

fn by_class(class: &str) -> Class {
    match class {
        "08" => Class::Unknown("the connection was lost before the answer came"),
        "28" => Class::Lasting("the server refused the login"),
        "3D" => Class::Lasting("there is no database of this name"),
        "40" => Class::Conflict,
        "42" => Class::Schema("the tables are not what this version expects"),
        "53" => Class::Passing("the server has run out of memory, disk or connections"),
        "57" => Class::Passing("an operator stopped the statement"),
        "58" | "XX" | "F0" => Class::Unknown("the server answered with an error of its own"),
        "23" => Class::Refused("a constraint refused the change"),
        "09" | "27" | "P0" | "44" => Class::Refused("a trigger refused the change"),
        _ => Class::Bug,
    }
}

/// What is told of the cause: where nothing was sent yet the driver's own words, which are about the connection; else
/// the code alone.
fn with_source(error: Error, cause: Failure) -> Error {
    match cause {
        Failure::NoConnection(cause) => error.with_source(cause),
        Failure::Sql(sqlx::Error::Io(cause)) => error.with_source(cause),
        Failure::Sql(sqlx::Error::Database(refusal)) => match refusal.code() {
            Some(code) => error.with_source(SqlState(code.into_owned())),
            None => error,
        },
        Failure::Sql(cause) => error.with_source(Driver(name(&cause))),
        _ => error,
    }
}

fn name(error: &sqlx::Error) -> &'static str {
    use sqlx::Error as Sql;
    match error {
        Sql::Protocol(_) => "protocol error",
        Sql::Tls(_) => "TLS error",
        Sql::ColumnDecode { .. } | Sql::Decode(_) => "a column cannot be decoded",
        Sql::ColumnNotFound(_) | Sql::ColumnIndexOutOfBounds { .. } | Sql::RowNotFound => "an answer of another shape",
        _ => "error of the driver",
    }
}

/// PostgreSQL's code for an error, without its text.
#[derive(Debug)]
struct SqlState(String);

impl fmt::Display for SqlState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SQLSTATE {}", self.0)
    }
}

impl std::error::Error for SqlState {}

/// What kind of error the driver had, without its text.
#[derive(Debug)]
struct Driver(&'static str);

impl fmt::Display for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for Driver {}
