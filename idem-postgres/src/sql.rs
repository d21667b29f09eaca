//! The statements, for callers on another driver (clause J5).
//!
//! One a file in `sql/`. Each opens with what it does, its parameters in order, what it returns, and why it is atomic.
//! `{schema}` in them stands for the name of the schema; [`in_schema`] fills it in. Every statement returns exactly one
//! row whose column `op` says which statement it was: a pooler that swaps statements between clients is found out.
//!
//! What the answers mean is [`idem_core::machine`]'s to say: read the record and call
//! [`claim`](idem_core::machine::claim), carry out a rewrite by the statement of its name, and ask `refused_complete`
//! and `refused_release` when nothing was changed.

use std::fmt;
use std::sync::Arc;

use idem_core::{Error, ErrorKind};
use sqlx::{AssertSqlSafe, SqlSafeStr, SqlStr};

/// Creates the record, or reads the one that is there.
pub const CLAIM: &str = include_str!("../sql/claim.sql");
/// A free record begins a new life.
pub const NEW_LIFE: &str = include_str!("../sql/new_life.sql");
/// The next attempt of an uncertain record.
pub const TAKE_OVER: &str = include_str!("../sql/take_over.sql");
/// Our own claim again.
pub const REPEAT: &str = include_str!("../sql/repeat.sql");
/// Keeps a lease running.
pub const RENEW: &str = include_str!("../sql/renew.sql");
/// Ends an attempt.
pub const COMPLETE: &str = include_str!("../sql/complete.sql");
/// Nothing happened.
pub const RELEASE: &str = include_str!("../sql/release.sql");
/// The record as it is stored.
pub const GET: &str = include_str!("../sql/get.sql");
/// Deletes what has become free.
pub const PURGE: &str = include_str!("../sql/purge.sql");
/// Drops the responses of what is only remembered.
pub const PURGE_RESPONSES: &str = include_str!("../sql/purge_responses.sql");
/// A claim inside the caller's transaction.
pub const ONCE: &str = include_str!("../sql/joint/once.sql");
/// Locks the record inside the caller's transaction.
pub const LOCK: &str = include_str!("../sql/joint/lock.sql");
/// The outcome of a transaction in doubt.
pub const SETTLED: &str = include_str!("../sql/joint/settled.sql");

/// Waits for a transaction in doubt that made the record.
pub const WAIT: &str = include_str!("../sql/joint/wait.sql");

/// The schema that is taken unless another is said.
pub const DEFAULT_SCHEMA: &str = "public";

/// The longest name that PostgreSQL does not cut off.
const LONGEST_NAME: usize = 63;

/// Fills the name of a schema into a statement, or into the text of a migration.
///
/// # Errors
/// `InvalidInput` when the name is not one letter or underscore followed by letters, digits and underscores, 63 in all.
pub fn in_schema(statement: &str, schema: &str) -> Result<String, Error> {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let good = schema.len() <= LONGEST_NAME
        && schema.chars().all(plain)
        && schema.chars().next().is_some_and(|first| !first.is_ascii_digit());
    if !good {
        return Err(Error::new(ErrorKind::InvalidInput, "a schema's name is up to 63 letters, digits and underscores"));
    }
    Ok(statement.replace("{schema}", schema))
}

/// A statement of one schema.
#[derive(Clone, Debug)]
pub(crate) struct Statement {
    pub(crate) op: String,
    text: Arc<str>,
}

impl Statement {
    fn new(name: &str, text: &str, schema: &str) -> Result<Statement, Error> {
        Ok(Statement { op: format!("{schema}.{name}.1"), text: in_schema(text, schema)?.into() })
    }

    /// Safe: a text of this crate, with nothing in it but the checked name of a schema.
    pub(crate) fn text(&self) -> SqlStr {
        AssertSqlSafe(Arc::clone(&self.text)).into_sql_str()
    }
}

/// The statements of one schema, made once when a store opens.
#[derive(Clone)]
pub(crate) struct Statements {
    pub(crate) schema: String,
    pub(crate) claim: Statement,
    pub(crate) new_life: Statement,
    pub(crate) take_over: Statement,
    pub(crate) repeat: Statement,
    pub(crate) renew: Statement,
    pub(crate) complete: Statement,
    pub(crate) release: Statement,
    pub(crate) get: Statement,
    pub(crate) purge: Statement,
    pub(crate) purge_responses: Statement,
    pub(crate) once: Statement,
    pub(crate) lock: Statement,
    pub(crate) settled: Statement,
    pub(crate) wait: Statement,
}

impl Statements {
    pub(crate) fn new(schema: &str) -> Result<Statements, Error> {
        Ok(Statements {
            schema: schema.to_owned(),
            claim: Statement::new("claim", CLAIM, schema)?,
            new_life: Statement::new("new_life", NEW_LIFE, schema)?,
            take_over: Statement::new("take_over", TAKE_OVER, schema)?,
            repeat: Statement::new("repeat", REPEAT, schema)?,
            renew: Statement::new("renew", RENEW, schema)?,
            complete: Statement::new("complete", COMPLETE, schema)?,
            release: Statement::new("release", RELEASE, schema)?,
            get: Statement::new("get", GET, schema)?,
            purge: Statement::new("purge", PURGE, schema)?,
            purge_responses: Statement::new("purge_responses", PURGE_RESPONSES, schema)?,
            once: Statement::new("once", ONCE, schema)?,
            lock: Statement::new("lock", LOCK, schema)?,
            settled: Statement::new("settled", SETTLED, schema)?,
            wait: Statement::new("wait", WAIT, schema)?,
        })
    }

    /// Every statement, to be prepared when a store opens: a table that does not fit is found there and then.
    pub(crate) fn all(&self) -> [&Statement; 14] {
        [
            &self.claim,
            &self.new_life,
            &self.take_over,
            &self.repeat,
            &self.renew,
            &self.complete,
            &self.release,
            &self.get,
            &self.purge,
            &self.purge_responses,
            &self.once,
            &self.lock,
            &self.settled,
            &self.wait,
        ]
    }
}

impl fmt::Debug for Statements {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Statements").field("schema", &self.schema).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_statement_opens_with_its_header_and_names_itself() {
        for statement in Statements::new("some_schema").expect("valid").all() {
            let text = statement.text();
            for part in ["-- Parameters: ", "-- Returns: ", "-- Atomic: "] {
                assert_eq!(text.as_str().matches(part).count(), 1, "{part} in {}", text.as_str());
            }
            assert_eq!(text.as_str().matches(&format!("SELECT '{}' AS op", statement.op)).count(), 1);
            assert!(!text.as_str().contains("{schema}"));
        }
    }

    #[test]
    fn names_that_are_not_plain_are_refused() {
        for bad in ["", "1a", "a b", "a\"b", "a;b", "ä", "a.b", &"a".repeat(64)] {
            assert_eq!(in_schema("", bad).expect_err(bad).kind(), ErrorKind::InvalidInput);
        }
        for good in ["public", "_x", "Orders2", &"a".repeat(63)] {
            assert_eq!(in_schema("{schema}", good).expect("valid"), good);
        }
    }
}
