//! The deadlines of a connection, in order: a lock is waited for less long than a statement may run, and a statement
//! may run less long than the client waits. So the server is the first to give up, and says so.

use std::time::Duration;

use idem_core::{Error, ErrorKind};
use sqlx::postgres::PgConnectOptions;

/// What is asked of the server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Limits {
    pub(crate) lock: Duration,
    pub(crate) statement: Duration,
    pub(crate) client: Duration,
}

impl Limits {
    pub(crate) fn within(client: Duration) -> Limits {
        Limits { lock: client / 4, statement: client / 2, client }
    }

    /// As parameters of the connection, so that no statement is needed to set them, and none can be forgotten.
    pub(crate) fn put(self, options: PgConnectOptions) -> PgConnectOptions {
        options.options([
            ("lock_timeout", millis(self.lock)),
            ("statement_timeout", millis(self.statement)),
            // A claim that was overtaken would only have to be sent again.
            ("default_transaction_isolation", "read committed".to_owned()),
        ])
    }

    /// Does the server do what was asked? `lock` and `statement` are what it says, zero for no limit.
    pub(crate) fn check(self, lock: Duration, statement: Duration) -> Result<(), Error> {
        let bounded = |limit: Duration| !limit.is_zero() && limit < self.client;
        if bounded(lock) && (statement.is_zero() || lock < statement) {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::Unsupported,
            "the connection's lock_timeout is not set, or not below its statement_timeout and the store's deadline: a \
             claim could wait for ever behind somebody's open transaction; set it in the connection's options or by \
             ALTER ROLE … SET lock_timeout = '2s' (a pooler may have dropped what the store asked for)",
        ))
    }
}

fn millis(duration: Duration) -> String {
    // Zero would mean no limit at all.
    duration.as_millis().clamp(1, 2_147_483_647).to_string()
}
