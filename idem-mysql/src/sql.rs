//! The statements, one a file. Each opens with what it does, its parameters in order, and why it is atomic.
//!
//! They are public for callers on another driver (clause J5), who write their own rows and the record in one
//! transaction. The text is valid for MySQL and MariaDB alike, except [`MARIADB_CLAIM`]; a `?` is a parameter.
//!
//! - The connection's `sql_mode` has `STRICT_TRANS_TABLES` or `STRICT_ALL_TABLES`.
//! - Counts of UPDATE are of *matched* rows: connect with `CLIENT_FOUND_ROWS`.
//! - [`CLAIM`], [`NEW_LIFE`] and [`TAKE_OVER`] tell the fence as the insert id, and so change `LAST_INSERT_ID()` of their
//!   session. Where that is the application's, [`without_insert_id`] does not, and the fence is read by [`GET`].
//! - After a duplicate, [`LATEST`] reads the record, [`machine::claim`](idem_core::machine::claim) says what it
//!   means, and a rewrite is one of [`NEW_LIFE`], [`TAKE_OVER`] and [`REPEAT`]. Commit only what was answered
//!   `Acquired` or `Stored`; a [`COMPLETE`] that matched no row is rolled back (clause F5b).

/// Creates the record, and so grants.
pub const CLAIM: &str = include_str!("../sql/claim.sql");
/// The same, and reads the record when there is one already. For MariaDB.
pub const MARIADB_CLAIM: &str = include_str!("../sql/mariadb/claim.sql");
/// A free record begins a new life.
pub const NEW_LIFE: &str = include_str!("../sql/new_life.sql");
/// The next attempt of an uncertain record.
pub const TAKE_OVER: &str = include_str!("../sql/take_over.sql");
/// Our own claim again.
pub const REPEAT: &str = include_str!("../sql/repeat.sql");
/// Keeps a lease running.
pub const RENEW: &str = include_str!("../sql/renew.sql");
/// Ends an attempt and records its response.
pub const COMPLETE: &str = include_str!("../sql/complete.sql");
/// Says that nothing happened.
pub const RELEASE: &str = include_str!("../sql/release.sql");
/// Reads a record.
pub const GET: &str = include_str!("../sql/get.sql");
/// Reads the latest record inside a transaction, and keeps it so.
pub const LATEST: &str = include_str!("../sql/joint/latest.sql");
/// Deletes what has become free.
pub const PURGE: &str = include_str!("../sql/purge.sql");
/// Drops the responses of records that are only remembered.
pub const PURGE_RESPONSES: &str = include_str!("../sql/purge_responses.sql");

/// Every statement that both products have, to be prepared when a store opens: a table that does not fit is found there
/// and then.
pub const ALL: [&str; 11] =
    [CLAIM, NEW_LIFE, TAKE_OVER, REPEAT, RENEW, COMPLETE, RELEASE, GET, LATEST, PURGE, PURGE_RESPONSES];

/// The same statement without telling the session's `LAST_INSERT_ID()`.
#[must_use]
pub fn without_insert_id(statement: &str) -> String {
    statement.replace("LAST_INSERT_ID(", "(")
}

/// The statements for a transaction of the application's, which may be on another database of the same server.
#[derive(Debug)]
pub(crate) struct Joined {
    pub(crate) claim: String,
    pub(crate) new_life: String,
    pub(crate) take_over: String,
    pub(crate) repeat: String,
    pub(crate) complete: String,
    pub(crate) get: String,
    pub(crate) latest: String,
}

impl Joined {
    pub(crate) fn new(database: &str) -> Joined {
        let table = format!("`{}`.idem_records", database.replace('`', "``"));
        let joined = |statement: &str| without_insert_id(statement).replace("idem_records", &table);
        Joined {
            claim: joined(CLAIM),
            new_life: joined(NEW_LIFE),
            take_over: joined(TAKE_OVER),
            repeat: joined(REPEAT),
            complete: joined(COMPLETE),
            get: joined(GET),
            latest: joined(LATEST),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_statement_opens_with_its_header() {
        for statement in ALL.into_iter().chain([MARIADB_CLAIM]) {
            for part in ["-- Parameters: ", "-- Returns: ", "-- Atomic: "] {
                assert_eq!(statement.matches(part).count(), 1, "{part} in {statement}");
            }
        }
    }

    #[test]
    fn a_header_holds_nothing_that_a_driver_takes_for_a_parameter() {
        for statement in ALL.into_iter().chain([MARIADB_CLAIM]) {
            for line in statement.lines().filter(|line| line.trim_start().starts_with("--")) {
                assert!(!line.contains('?'), "{line}");
                let named = line.split(':').skip(1).any(|after| after.starts_with(|c: char| c.is_ascii_alphabetic()));
                assert!(!named, "{line}");
            }
        }
    }

    #[test]
    fn joined_statements_name_the_database_and_leave_the_insert_id_alone() {
        let joined = Joined::new("odd`name");
        for statement in [&joined.claim, &joined.new_life, &joined.take_over, &joined.complete, &joined.latest] {
            assert!(statement.contains("`odd``name`.idem_records"), "{statement}");
            assert!(!statement.contains("LAST_INSERT_ID"), "{statement}");
        }
    }

    #[test]
    fn both_ways_to_claim_insert_the_same_and_both_ways_to_look_read_the_same() {
        let body = |statement: &str| {
            let lines = statement.lines().filter(|line| !line.starts_with("--"));
            lines.collect::<Vec<_>>().join("\n").replace("LAST_INSERT_ID(", "").replace("(6))),", "(6)),")
        };
        assert!(body(MARIADB_CLAIM).starts_with(&body(CLAIM)), "{}\n{}", body(MARIADB_CLAIM), body(CLAIM));
        assert!(body(LATEST).starts_with(&body(GET)));
        let columns = |statement: &str, from: &str, to: &str| {
            let start = statement.find(from).map_or(0, |at| at + from.len());
            let end = statement[start..].find(to).map_or(statement.len(), |at| start + at);
            statement[start..end].split_whitespace().collect::<Vec<_>>().join(" ")
        };
        assert_eq!(columns(MARIADB_CLAIM, "RETURNING", "\0"), columns(&body(GET), "SELECT", "FROM"));
    }
}
