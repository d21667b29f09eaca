//! The statements, one a file. Each opens with what it does, its parameters in order, and why it is atomic.
//!
//! They name the table as `main.idem_records`: a temporary table of the same name would come first otherwise, and a
//! grant that is written there is known to nobody else.

pub(crate) const CLAIM: &str = include_str!("../sql/claim.sql");
pub(crate) const NEW_LIFE: &str = include_str!("../sql/new_life.sql");
pub(crate) const TAKE_OVER: &str = include_str!("../sql/take_over.sql");
pub(crate) const REPEAT: &str = include_str!("../sql/repeat.sql");
pub(crate) const RENEW: &str = include_str!("../sql/renew.sql");
pub(crate) const COMPLETE: &str = include_str!("../sql/complete.sql");
pub(crate) const RELEASE: &str = include_str!("../sql/release.sql");
pub(crate) const GET: &str = include_str!("../sql/get.sql");
pub(crate) const PURGE: &str = include_str!("../sql/purge.sql");
pub(crate) const PURGE_RESPONSES: &str = include_str!("../sql/purge_responses.sql");

/// Every statement, to be prepared when a store opens: a table that does not fit is found there and then.
pub(crate) const ALL: [&str; 10] =
    [CLAIM, NEW_LIFE, TAKE_OVER, REPEAT, RENEW, COMPLETE, RELEASE, GET, PURGE, PURGE_RESPONSES];

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::clock::Clock;
    use crate::connection::{make_durable, open_writer};
    use crate::schema;

    /// The way SQLite would go for a statement.
    fn plan(connection: &rusqlite::Connection, statement: &str) -> Vec<String> {
        let mut explained = connection.prepare(&format!("EXPLAIN QUERY PLAN {statement}")).expect("prepared");
        let nulls = vec![rusqlite::types::Null; explained.parameter_count()];
        let steps = explained.query_map(rusqlite::params_from_iter(nulls), |row| row.get("detail"));
        steps.expect("explained").collect::<Result<_, _>>().expect("read")
    }

    #[test]
    fn no_statement_reads_the_whole_table() {
        let dir = tempfile::tempdir().expect("a directory");
        let connection = open_writer(&dir.path().join("idem.db")).expect("opened");
        make_durable(&connection, Instant::now()).expect("set");
        schema::migrate(&connection, &Clock::default()).expect("not busy").expect("made");
        for statement in ALL {
            let steps = plan(&connection, statement);
            assert!(!steps.iter().any(|step| step.starts_with("SCAN")), "{statement}: {steps:?}");
            let keyed = steps.is_empty() || steps.iter().any(|step| step.starts_with("SEARCH main.idem_records"));
            assert!(keyed, "{statement}: {steps:?}");
        }
        let responses = plan(&connection, PURGE_RESPONSES);
        assert!(responses.iter().any(|step| step.contains("idem_records_with_response")), "{responses:?}");
    }

    #[test]
    fn every_statement_names_the_table_in_the_file() {
        for statement in ALL {
            let tables =
                ["INTO ", "UPDATE ", "FROM "].map(|before| statement.matches(&format!("{before}idem_")).count());
            assert_eq!(tables, [0; 3], "{statement}");
            assert!(statement.contains("main.idem_records"), "{statement}");
        }
    }

    #[test]
    fn every_statement_opens_with_its_header() {
        for statement in ALL {
            for part in ["-- Parameters: ", "-- Returns: ", "-- Atomic: "] {
                assert_eq!(statement.matches(part).count(), 1, "{part} in {statement}");
            }
        }
    }
}
