//! One table from the servers' error numbers to the store's errors.
//!
//! The numbers are those of <https://dev.mysql.com/doc/mysql-errors/9.0/en/server-error-reference.html> and
//! <https://mariadb.com/kb/en/mariadb-error-code-reference/>; error texts decide nothing. They are not shown either:
//! that of a duplicate holds the key (clause X6).

use std::fmt;

use idem_core::{Error, ErrorKind};
use mysql_async::DriverError;

/// The names of the error reference.
mod errno {
    pub(super) const CON_COUNT_ERROR: u16 = 1040;
    pub(super) const OUT_OF_RESOURCES: u16 = 1041;
    pub(super) const DBACCESS_DENIED: u16 = 1044;
    pub(super) const ACCESS_DENIED: u16 = 1045;
    pub(super) const NO_DB: u16 = 1046;
    pub(super) const UNKNOWN_COM: u16 = 1047; // Galera: the node is not ready
    pub(super) const BAD_NULL: u16 = 1048;
    pub(super) const BAD_DB: u16 = 1049;
    pub(super) const SERVER_SHUTDOWN: u16 = 1053;
    pub(super) const BAD_FIELD: u16 = 1054;
    pub(super) const DUP_ENTRY: u16 = 1062;
    pub(super) const TOO_LONG_KEY: u16 = 1071;
    pub(super) const DISK_FULL: u16 = 1021;
    pub(super) const CHECKREAD: u16 = 1020;
    pub(super) const GET_ERRNO: u16 = 1030;
    pub(super) const OUTOFMEMORY: u16 = 1037;
    pub(super) const OUT_OF_SORTMEMORY: u16 = 1038;
    pub(super) const RECORD_FILE_FULL: u16 = 1114;
    pub(super) const TOO_BIG_ROWSIZE: u16 = 1118;
    pub(super) const TABLEACCESS_DENIED: u16 = 1142;
    pub(super) const COLUMNACCESS_DENIED: u16 = 1143;
    pub(super) const NO_SUCH_TABLE: u16 = 1146;
    pub(super) const NET_PACKET_TOO_LARGE: u16 = 1153;
    pub(super) const ERROR_DURING_COMMIT: u16 = 1180;
    pub(super) const TOO_MANY_USER_CONNECTIONS: u16 = 1203;
    pub(super) const LOCK_WAIT_TIMEOUT: u16 = 1205;
    pub(super) const LOCK_DEADLOCK: u16 = 1213;
    pub(super) const NO_REFERENCED_ROW: u16 = 1216;
    pub(super) const ROW_IS_REFERENCED: u16 = 1217;
    pub(super) const USER_LIMIT_REACHED: u16 = 1226;
    pub(super) const SPECIFIC_ACCESS_DENIED: u16 = 1227;
    pub(super) const UNKNOWN_STMT_HANDLER: u16 = 1243;
    pub(super) const WARN_DATA_OUT_OF_RANGE: u16 = 1264;
    pub(super) const WARN_DATA_TRUNCATED: u16 = 1265;
    pub(super) const OPTION_PREVENTS_STATEMENT: u16 = 1290;
    pub(super) const TRUNCATED_WRONG_VALUE: u16 = 1292;
    pub(super) const QUERY_INTERRUPTED: u16 = 1317;
    pub(super) const TRUNCATED_WRONG_VALUE_FOR_FIELD: u16 = 1366;
    pub(super) const DATA_TOO_LONG: u16 = 1406;
    pub(super) const ROW_IS_REFERENCED_2: u16 = 1451;
    pub(super) const NO_REFERENCED_ROW_2: u16 = 1452;
    pub(super) const MAX_PREPARED_STMT_COUNT_REACHED: u16 = 1461;
    pub(super) const NEED_REPREPARE: u16 = 1615;
    pub(super) const SIGNAL_EXCEPTION: u16 = 1644;
    pub(super) const BINLOG_STMT_MODE_AND_ROW_ENGINE: u16 = 1665;
    pub(super) const ACCESS_DENIED_NO_PASSWORD: u16 = 1698;
    pub(super) const CANT_EXECUTE_IN_READ_ONLY_TRANSACTION: u16 = 1792;
    pub(super) const READ_ONLY_MODE: u16 = 1836;
    pub(super) const CONNECTION_KILLED: u16 = 1927; // MariaDB
    pub(super) const STATEMENT_TIMEOUT: u16 = 1969; // MariaDB
    pub(super) const QUERY_TIMEOUT: u16 = 3024;
    pub(super) const TRANSACTION_ROLLBACK_DURING_COMMIT: u16 = 3101;
    pub(super) const LOCK_NOWAIT: u16 = 3572;
    pub(super) const CHECK_CONSTRAINT_VIOLATED: u16 = 3819;
    pub(super) const CONSTRAINT_FAILED: u16 = 4025; // MariaDB
    pub(super) const CLIENT_INTERACTION_TIMEOUT: u16 = 4031;
}

/// What to do about an error.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Class {
    /// There is a record already.
    Duplicate,
    /// The whole transaction was rolled back: a deadlock's victim, or a snapshot that is too old.
    Aborted,
    /// Another transaction holds the row. Only the statement was undone.
    Locked,
    /// The connection is gone; what was sent on it may have been applied.
    Gone,
    /// This connection cannot serve, another one may: a primary that became a replica, a statement that is forgotten.
    Elsewhere(&'static str),
    /// Nothing was applied, and it may pass.
    Passing(&'static str),
    /// Nothing was applied, and it does not pass by itself.
    Lasting(&'static str),
    /// The tables, or what is in them, are not this version's.
    Schema(&'static str),
    /// Longer than the server takes.
    TooLarge,
    /// Something that the application put on its tables, or on these, refused the change.
    Refused(&'static str),
    /// The server is set up so that the store cannot work.
    Unsupported(&'static str),
    /// A defect of the store.
    Bug,
}

/// Why a statement was not carried out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Refusal {
    pub(crate) class: Class,
    errno: Option<u16>,
}

impl Refusal {
    pub(crate) const fn new(class: Class) -> Refusal {
        Refusal { class, errno: None }
    }

    /// A stored row that is not one of a record. Says nothing of its values (clause X6).
    pub(crate) const fn unreadable() -> Refusal {
        Refusal::new(Class::Schema("a stored row cannot be read"))
    }

    /// The error for a caller of an operation that has a connection of its own, when nothing was applied.
    pub(crate) fn error(self) -> Error {
        let error = match self.class {
            Class::Aborted => Error::new(ErrorKind::Unavailable, "the server kept rolling the statement back"),
            Class::Locked => Error::new(ErrorKind::Unavailable, "another transaction holds the record"),
            Class::Gone => Error::new(ErrorKind::Unavailable, "the connection to the server was lost"),
            Class::Elsewhere(what) | Class::Passing(what) => Error::new(ErrorKind::Unavailable, what),
            Class::Lasting(what) => Error::new(ErrorKind::Unavailable, what).permanent(),
            Class::Schema(what) => Error::new(ErrorKind::Schema, what),
            Class::TooLarge => Error::new(ErrorKind::TooLarge, "the value is longer than the server takes"),
            Class::Refused(what) => Error::new(ErrorKind::TransactionAborted, what).permanent(),
            Class::Unsupported(what) => Error::new(ErrorKind::Unsupported, what),
            Class::Duplicate | Class::Bug => {
                Error::new(ErrorKind::Bug, "a statement of this store was refused by the server")
            }
        };
        self.attach(error)
    }

    /// The same when an earlier try of the same request may have been applied.
    pub(crate) fn error_in_doubt(self) -> Error {
        self.attach(Error::new(ErrorKind::Indeterminate, "the connection was lost before the server answered"))
    }

    /// The error for a caller whose own transaction the statement was in, and which is rolled back.
    pub(crate) fn error_in_transaction(self) -> Error {
        let what = match self.class {
            Class::Aborted => "the server rolled the transaction back",
            Class::Locked => "another transaction holds the record",
            Class::Gone => "the connection was lost before COMMIT",
            Class::Elsewhere(what) | Class::Passing(what) => what,
            _ => return self.error(),
        };
        self.attach(Error::new(ErrorKind::TransactionAborted, what))
    }

    fn attach(self, error: Error) -> Error {
        match self.errno {
            Some(errno) => error.with_source(ServerError(errno)),
            None => error,
        }
    }
}

impl From<mysql_async::Error> for Refusal {
    fn from(error: mysql_async::Error) -> Refusal {
        match error {
            mysql_async::Error::Server(error) => Refusal { class: class(error.code), errno: Some(error.code) },
            mysql_async::Error::Io(_) => Refusal::new(Class::Gone),
            mysql_async::Error::Driver(error) => Refusal::new(class_of_driver(&error)),
            mysql_async::Error::Url(_) => Refusal::new(Class::Lasting("the connection's options are not valid")),
            mysql_async::Error::Other(_) => Refusal::new(Class::Gone),
        }
    }
}

/// The number of a server's error. Its text is left out: it may hold a key.
#[derive(Debug)]
struct ServerError(u16);

impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the server's error {}", self.0)
    }
}

impl std::error::Error for ServerError {}

fn class(code: u16) -> Class {
    use errno::*;
    match code {
        DUP_ENTRY => Class::Duplicate,
        LOCK_DEADLOCK | CHECKREAD | TRANSACTION_ROLLBACK_DURING_COMMIT | ERROR_DURING_COMMIT => Class::Aborted,
        LOCK_WAIT_TIMEOUT | LOCK_NOWAIT => Class::Locked,
        SERVER_SHUTDOWN | CONNECTION_KILLED | CLIENT_INTERACTION_TIMEOUT => Class::Gone,
        OPTION_PREVENTS_STATEMENT | READ_ONLY_MODE | CANT_EXECUTE_IN_READ_ONLY_TRANSACTION => {
            Class::Elsewhere("the server, or the transaction, is read-only: connect to the primary")
        }
        UNKNOWN_COM => Class::Elsewhere("the cluster's node is not ready"),
        NEED_REPREPARE | UNKNOWN_STMT_HANDLER => Class::Elsewhere("the server forgot a prepared statement"),
        QUERY_INTERRUPTED | STATEMENT_TIMEOUT | QUERY_TIMEOUT => Class::Passing("the statement was interrupted"),
        CON_COUNT_ERROR | TOO_MANY_USER_CONNECTIONS | USER_LIMIT_REACHED => {
            Class::Passing("the server takes no more connections")
        }
        MAX_PREPARED_STMT_COUNT_REACHED => Class::Passing("the server takes no more prepared statements"),
        DISK_FULL | RECORD_FILE_FULL => Class::Passing("the server's disk is full"),
        GET_ERRNO => Class::Passing("the server's storage engine failed"),
        OUT_OF_RESOURCES | OUTOFMEMORY | OUT_OF_SORTMEMORY => Class::Passing("the server has no memory left"),
        DBACCESS_DENIED
        | ACCESS_DENIED
        | ACCESS_DENIED_NO_PASSWORD
        | TABLEACCESS_DENIED
        | COLUMNACCESS_DENIED
        | SPECIFIC_ACCESS_DENIED => Class::Lasting("the server refused access"),
        NO_DB => Class::Lasting("the connection's options name no database"),
        BAD_DB => Class::Schema("there is no such database"),
        NO_SUCH_TABLE | BAD_FIELD | TOO_LONG_KEY => Class::Schema("the tables are not what this version expects"),
        BAD_NULL
        | WARN_DATA_OUT_OF_RANGE
        | WARN_DATA_TRUNCATED
        | TRUNCATED_WRONG_VALUE
        | TRUNCATED_WRONG_VALUE_FOR_FIELD
        | DATA_TOO_LONG
        | CHECK_CONSTRAINT_VIOLATED
        | CONSTRAINT_FAILED => Class::Schema("the tables refused a value that this version's take"),
        NET_PACKET_TOO_LARGE | TOO_BIG_ROWSIZE => Class::TooLarge,
        NO_REFERENCED_ROW | NO_REFERENCED_ROW_2 | ROW_IS_REFERENCED | ROW_IS_REFERENCED_2 => {
            Class::Refused("a foreign key refused the change")
        }
        SIGNAL_EXCEPTION => Class::Refused("a trigger refused the change"),
        BINLOG_STMT_MODE_AND_ROW_ENGINE => {
            Class::Unsupported("binlog_format = STATEMENT does not take READ COMMITTED: use ROW or MIXED")
        }
        _ => Class::Bug,
    }
}

fn class_of_driver(error: &DriverError) -> Class {
    match error {
        DriverError::ConnectionClosed | DriverError::PacketOutOfOrder | DriverError::UnexpectedPacket { .. } => {
            Class::Gone
        }
        DriverError::PoolDisconnected => Class::Lasting("the store is closed"),
        DriverError::PacketTooLarge => Class::TooLarge,
        DriverError::FromValue { .. } | DriverError::FromRow { .. } => Refusal::unreadable().class,
        DriverError::UnknownAuthPlugin { .. }
        | DriverError::MysqlOldPasswordDisabled
        | DriverError::CleartextPluginDisabled
        | DriverError::NoClientSslFlagFromServer => Class::Lasting("the driver and the server cannot agree on a login"),
        DriverError::NestedTransaction => Class::Bug,
        _ => Class::Lasting("the driver refused the request"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(code: u16) -> Refusal {
        let (message, state) = ("Duplicate entry 'global-secret' for key".to_owned(), "HY000".to_owned());
        mysql_async::Error::Server(mysql_async::ServerError { code, message, state }).into()
    }

    fn shown(error: &Error) -> (ErrorKind, bool) {
        (error.kind(), error.is_retryable())
    }

    #[test]
    fn what_a_server_cannot_be_made_to_give_is_known_too() {
        let cases = [
            (errno::CON_COUNT_ERROR, ErrorKind::Unavailable, true),
            (errno::USER_LIMIT_REACHED, ErrorKind::Unavailable, true),
            (errno::DISK_FULL, ErrorKind::Unavailable, true),
            (errno::OUTOFMEMORY, ErrorKind::Unavailable, true),
            (errno::UNKNOWN_COM, ErrorKind::Unavailable, true),
            (errno::READ_ONLY_MODE, ErrorKind::Unavailable, true),
            (errno::NEED_REPREPARE, ErrorKind::Unavailable, true),
            (errno::STATEMENT_TIMEOUT, ErrorKind::Unavailable, true),
            (errno::ACCESS_DENIED, ErrorKind::Unavailable, false),
            (errno::SPECIFIC_ACCESS_DENIED, ErrorKind::Unavailable, false),
            (errno::NO_SUCH_TABLE, ErrorKind::Schema, false),
            (errno::DATA_TOO_LONG, ErrorKind::Schema, false),
            (errno::TOO_BIG_ROWSIZE, ErrorKind::TooLarge, false),
            (errno::NET_PACKET_TOO_LARGE, ErrorKind::TooLarge, false),
            (errno::BINLOG_STMT_MODE_AND_ROW_ENGINE, ErrorKind::Unsupported, false),
            (errno::SIGNAL_EXCEPTION, ErrorKind::TransactionAborted, false),
            (1064, ErrorKind::Bug, false),
        ];
        for (code, kind, retryable) in cases {
            assert_eq!(shown(&refusal(code).error()), (kind, retryable), "{code}");
        }
    }

    #[test]
    fn what_ends_the_callers_transaction_is_started_again_from_its_beginning() {
        let aborting = [
            errno::LOCK_DEADLOCK,
            errno::CHECKREAD,
            errno::TRANSACTION_ROLLBACK_DURING_COMMIT,
            errno::SERVER_SHUTDOWN,
            errno::CONNECTION_KILLED,
            errno::CANT_EXECUTE_IN_READ_ONLY_TRANSACTION,
            errno::QUERY_INTERRUPTED,
        ];
        for code in aborting {
            assert_eq!(shown(&refusal(code).error_in_transaction()), (ErrorKind::TransactionAborted, true), "{code}");
        }
        assert_eq!(shown(&refusal(errno::NO_SUCH_TABLE).error_in_transaction()), (ErrorKind::Schema, false));
    }

    #[test]
    fn only_a_connection_that_is_gone_leaves_doubt() {
        for code in [errno::SERVER_SHUTDOWN, errno::CONNECTION_KILLED, errno::CLIENT_INTERACTION_TIMEOUT] {
            assert_eq!(refusal(code).class, Class::Gone, "{code}");
        }
        let io = std::io::Error::from(std::io::ErrorKind::BrokenPipe);
        assert_eq!(Refusal::from(mysql_async::Error::from(io)).class, Class::Gone);
        for code in [errno::LOCK_DEADLOCK, errno::LOCK_WAIT_TIMEOUT, errno::QUERY_INTERRUPTED, errno::DUP_ENTRY] {
            assert_ne!(refusal(code).class, Class::Gone, "{code}");
        }
    }

    #[test]
    fn the_servers_text_is_not_shown() {
        for error in [
            refusal(errno::DUP_ENTRY).error(),
            refusal(errno::DUP_ENTRY).error_in_doubt(),
            refusal(errno::LOCK_DEADLOCK).error_in_transaction(),
        ] {
            let source = std::error::Error::source(&error).map(ToString::to_string);
            assert!(!format!("{error} {error:?} {source:?}").contains("secret"), "{error:?}");
            assert!(source.is_some_and(|source| source.contains("1062") || source.contains("1213")));
        }
    }
}
