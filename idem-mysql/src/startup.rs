//! What is looked at before a store opens: whatever would break the contract is refused there, with its remedy.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use idem_core::{Error, ErrorKind, MAX_CHECKPOINT};
use mysql_async::Conn;
use mysql_async::prelude::Queryable;

use crate::error::Refusal;
use crate::server::{Product, Server};
use crate::sql;

/// What a packet holds beside the response: the other columns, a checkpoint, and the protocol's own.
const BESIDE_THE_RESPONSE: usize = 64 * 1024 + MAX_CHECKPOINT;

const VARIABLES: &str = "SHOW SESSION VARIABLES WHERE Variable_name IN (
    'sql_mode', 'autocommit', 'max_allowed_packet', 'read_only', 'super_read_only', 'innodb_read_only',
    'transaction_read_only', 'tx_read_only', 'innodb_flush_log_at_trx_commit', 'binlog_format', 'log_bin')";

const ENGINE: &str = "SELECT engine AS engine FROM information_schema.tables
    WHERE table_schema = DATABASE() AND table_name = 'idem_records'";

const KEY_COLUMNS: &str = "SELECT column_name, LOWER(CAST(data_type AS CHAR)), character_maximum_length
    FROM information_schema.columns
    WHERE table_schema = DATABASE() AND table_name = 'idem_records' AND column_name IN ('scope', 'key')";

const UNIQUE_INDEXES: &str = "SELECT index_name, column_name, sub_part, index_type FROM information_schema.statistics
    WHERE table_schema = DATABASE() AND table_name = 'idem_records' AND non_unique = 0";

/// What is known of a server that may be used.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    pub(crate) server: Server,
    pub(crate) database: String,
    pub(crate) longest_response: usize,
}

/// Asks the server what it is, and refuses one that cannot keep the contract.
pub(crate) async fn facts(connection: &mut Conn) -> Result<Facts, Error> {
    let said: Option<(String, Option<String>)> =
        connection.query_first("SELECT VERSION(), DATABASE()").await.map_err(failed)?;
    let (version, database) = said.unwrap_or_default();
    let server = Server::parse(&version);
    if version.contains("TiDB") {
        return Err(unsupported("TiDB checks UNIQUE at COMMIT, which the statements do not expect"));
    }
    if !server.is_new_enough() {
        let (major, minor, patch) = server.oldest();
        return Err(unsupported(format!("{server} is too old: {major}.{minor}.{patch} or later is needed")));
    }
    let database =
        database.ok_or_else(|| unsupported("the connection's options name no database: add one to the URL"))?;
    let variables: Vec<(String, String)> = connection.query(VARIABLES).await.map_err(failed)?;
    let variables: HashMap<String, String> = variables.into_iter().collect();
    check_session(&variables)?;
    let packet = variables.get("max_allowed_packet").and_then(|bytes| bytes.parse::<usize>().ok()).unwrap_or(0);
    let longest_response = packet.saturating_sub(BESIDE_THE_RESPONSE);
    if longest_response == 0 {
        return Err(unsupported("max_allowed_packet leaves no room for a response: set it to 1 MiB or more"));
    }
    Ok(Facts { server, database, longest_response })
}

fn check_session(variables: &HashMap<String, String>) -> Result<(), Error> {
    let is = |name: &str, value: &str| variables.get(name).is_some_and(|set| set.eq_ignore_ascii_case(value));
    let mode = variables.get("sql_mode").map_or("", String::as_str);
    if !is_strict(mode) {
        return Err(unsupported(
            "sql_mode is not strict, so keys could be cut off: leave sql_mode as the store sets it",
        ));
    }
    if !is("autocommit", "ON") {
        return Err(unsupported("autocommit is off, so nothing would be committed: leave it as the store sets it"));
    }
    for name in ["read_only", "super_read_only", "innodb_read_only", "transaction_read_only", "tx_read_only"] {
        if variables.get(name).is_some_and(|set| !set.eq_ignore_ascii_case("OFF") && set != "0") {
            return Err(unsupported(format!("{name} is on, as on a replica: connect to the primary")));
        }
    }
    if is("log_bin", "ON") && is("binlog_format", "STATEMENT") {
        return Err(unsupported("binlog_format = STATEMENT does not take READ COMMITTED: use ROW or MIXED"));
    }
    if !is("innodb_flush_log_at_trx_commit", "1") {
        tracing::warn!(
            "innodb_flush_log_at_trx_commit is not 1: a loss of power can undo claims and completions that were answered"
        );
    }
    Ok(())
}

/// Does this `sql_mode` refuse what does not fit, instead of changing it?
pub(crate) fn is_strict(mode: &str) -> bool {
    mode.split(',').any(|part| matches!(part, "STRICT_ALL_TABLES" | "STRICT_TRANS_TABLES" | "TRADITIONAL"))
        // A mode of MariaDB's that turns empty values into absent ones, which clause F6 tells apart.
        && !mode.split(',').any(|part| part == "EMPTY_STRING_IS_NULL")
}

/// Looks at the table that the store stands on, and prepares every statement on it.
pub(crate) async fn check_tables(connection: &mut Conn) -> Result<(), Error> {
    let engine: Option<Option<String>> = connection.query_first(ENGINE).await.map_err(failed)?;
    match engine.flatten() {
        Some(engine) if engine.eq_ignore_ascii_case("InnoDB") => {}
        Some(_) => return Err(unsupported("idem_records is not of InnoDB: ALTER TABLE idem_records ENGINE = InnoDB")),
        None => return Err(Error::new(ErrorKind::Schema, "idem_records is not a table")),
    }
    let columns: Vec<(String, String, Option<u64>)> = connection.query(KEY_COLUMNS).await.map_err(failed)?;
    let exact = |(_, kind, length): &(String, String, Option<u64>)| kind == "varbinary" && *length >= Some(255);
    if columns.len() != 2 || !columns.iter().all(exact) {
        return Err(unsupported(
            "scope and key are not VARBINARY(255): another type folds, pads or cuts keys that are different",
        ));
    }
    check_unique(connection.query(UNIQUE_INDEXES).await.map_err(failed)?)?;
    for statement in sql::ALL {
        let prepared = connection.prep(statement).await.map_err(failed)?;
        // What is prepared by hand is outside the driver's cache.
        connection.close(prepared).await.map_err(failed)?;
    }
    Ok(())
}

/// One unique index on exactly (scope, key) decides; any other one would refuse keys that are different.
fn check_unique(columns: Vec<(String, String, Option<u64>, String)>) -> Result<(), Error> {
    let mut indexes: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (index, column, prefix, kind) in columns {
        if prefix.is_some() || kind.eq_ignore_ascii_case("HASH") {
            return Err(unsupported(format!("the unique index {index} of idem_records is not on whole columns")));
        }
        indexes.entry(index).or_default().insert(column.to_ascii_lowercase());
    }
    let identity = BTreeSet::from(["scope".to_owned(), "key".to_owned()]);
    if indexes.is_empty() {
        return Err(unsupported("idem_records has no UNIQUE on (scope, key): it decides who runs"));
    }
    match indexes.into_iter().find(|(_, columns)| *columns != identity) {
        Some((index, _)) => {
            Err(unsupported(format!("the unique index {index} of idem_records is not on (scope, key)")))
        }
        None => Ok(()),
    }
}

/// Whether a product has the limit for transactions that nobody goes on with.
pub(crate) fn session_query(product: Product) -> &'static str {
    match product {
        Product::MySql => "SELECT @@SESSION.sql_mode, @@SESSION.innodb_lock_wait_timeout, @@SESSION.wait_timeout",
        Product::MariaDb => {
            "SELECT @@SESSION.sql_mode, @@SESSION.innodb_lock_wait_timeout,
                    IF(@@SESSION.idle_transaction_timeout = 0, @@SESSION.wait_timeout,
                       LEAST(@@SESSION.wait_timeout, @@SESSION.idle_transaction_timeout))"
        }
    }
}

fn failed(error: mysql_async::Error) -> Error {
    Refusal::from(error).error()
}

fn unsupported(message: impl Into<std::borrow::Cow<'static, str>>) -> Error {
    Error::new(ErrorKind::Unsupported, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(index: &str, column: &str, prefix: Option<u64>) -> (String, String, Option<u64>, String) {
        (index.to_owned(), column.to_owned(), prefix, "BTREE".to_owned())
    }

    #[test]
    fn one_unique_index_on_the_identity_and_no_other() {
        let identity = || vec![column("PRIMARY", "scope", None), column("PRIMARY", "key", None)];
        assert!(check_unique(identity()).is_ok());
        let mut other = identity();
        other.push(column("mine", "key", None));
        let cases = [
            Vec::new(),
            other,
            vec![column("PRIMARY", "key", None)],
            vec![column("PRIMARY", "scope", None), column("PRIMARY", "key", Some(10))],
        ];
        for columns in cases {
            assert_eq!(check_unique(columns).map_err(|error| error.kind()), Err(ErrorKind::Unsupported));
        }
    }

    #[test]
    fn strictness_is_read_from_the_whole_mode() {
        for strict in ["STRICT_TRANS_TABLES", "ANSI_QUOTES,STRICT_ALL_TABLES", "TRADITIONAL"] {
            assert!(is_strict(strict), "{strict}");
        }
        for loose in ["", "ANSI", "NO_ZERO_DATE,ONLY_FULL_GROUP_BY", "STRICT_ALL_TABLES,EMPTY_STRING_IS_NULL"] {
            assert!(!is_strict(loose), "{loose}");
        }
    }

    #[test]
    fn a_replica_and_a_statement_binlog_are_refused_with_a_remedy() {
        let sound = [("sql_mode", "STRICT_ALL_TABLES"), ("autocommit", "ON"), ("read_only", "OFF")];
        let with = |name: &str, value: &str| {
            let mut variables: HashMap<String, String> =
                sound.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            variables.insert("log_bin".to_owned(), "ON".to_owned());
            variables.insert(name.to_owned(), value.to_owned());
            check_session(&variables)
        };
        assert!(with("binlog_format", "ROW").is_ok());
        for (name, value, remedy) in [
            ("read_only", "ON", "primary"),
            ("super_read_only", "ON", "primary"),
            ("innodb_read_only", "ON", "primary"),
            ("transaction_read_only", "ON", "primary"),
            ("read_only", "NO_LOCK", "primary"),
            ("binlog_format", "STATEMENT", "ROW"),
            ("autocommit", "OFF", "leave"),
            ("sql_mode", "", "leave"),
        ] {
            let error = with(name, value).expect_err(name);
            assert_eq!(error.kind(), ErrorKind::Unsupported);
            assert!(error.message().contains(remedy), "{error}");
        }
    }
}
