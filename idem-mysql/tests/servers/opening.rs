//! What opening does to a database, and which tables it refuses.

use futures::future::join_all;
use idem_core::{Claimed, Error, ErrorKind, Store};
use idem_mysql::mysql_async::prelude::Queryable;
use idem_mysql::mysql_async::{Conn, Opts, OptsBuilder};
use idem_mysql::{MySqlStore, migration_sql};

use crate::fixture::*;
use crate::{Run, trials};

pub(crate) const TRIALS: &[Run] = trials![
    opening_twice_changes_nothing,
    eight_at_once_make_the_tables_once,
    what_is_printed_makes_the_tables,
    tables_that_are_expected_are_not_made,
    a_newer_schema_is_refused_and_left_alone,
    a_foreign_table_of_our_name_is_refused_and_not_noted_as_ours,
    tables_that_were_changed_are_found,
    a_table_without_its_unique_key_is_refused,
    a_second_unique_key_is_refused,
    a_collation_that_folds_is_refused,
    a_table_outside_innodb_is_refused,
    an_applications_tables_are_left_alone,
    servers_that_cannot_be_used_are_typed_errors,
    what_was_answered_survives_the_store,
];

async fn refusal(fixture: &Fixture) -> Error {
    MySqlStore::open(&fixture.url).await.expect_err("refused")
}

async fn refused_as(fixture: &Fixture, change: &str, kind: ErrorKind, says: &str) {
    fixture.run_sql(change).await;
    let error = refusal(fixture).await;
    assert_eq!((error.kind(), error.is_retryable()), (kind, false), "{error}");
    assert!(error.message().contains(says), "{error}");
}

/// The definitions of both tables.
async fn definitions(fixture: &Fixture) -> Vec<(String, String)> {
    let mut connection = fixture.connection().await;
    let mut definitions = Vec::new();
    for table in ["idem_records", "idem_schema"] {
        definitions.extend(connection.query_first(format!("SHOW CREATE TABLE {table}")).await.expect("read"));
    }
    definitions
}

async fn drop_tables(fixture: &Fixture) {
    fixture.run_sql("DROP TABLE idem_records, idem_schema").await;
}

async fn opening_twice_changes_nothing(fixture: Fixture) {
    let before = definitions(&fixture).await;
    fixture.acquire(&claim("k")).await;
    let again = fixture.with(|builder| builder).await;
    assert_eq!(definitions(&fixture).await, before);
    assert!(matches!(again.claim(&claim("k")).await, Claimed::InFlight { .. }), "two stores on one database");
    assert_eq!(fixture.number("SELECT COUNT(*) FROM idem_schema").await, 1);
    again.store.close().await;
}

async fn eight_at_once_make_the_tables_once(fixture: Fixture) {
    let expected = definitions(&fixture).await;
    for _ in 0..3 {
        drop_tables(&fixture).await;
        let builder = fixture.builder();
        let all = join_all((0..8).map(|_| builder.migrate())).await;
        assert!(all.iter().all(Result::is_ok), "{all:?}");
        assert_eq!(definitions(&fixture).await, expected);
        assert_eq!(fixture.number("SELECT COUNT(*) FROM idem_schema").await, 1);
    }
}

async fn what_is_printed_makes_the_tables(fixture: Fixture) {
    let expected = definitions(&fixture).await;
    drop_tables(&fixture).await;
    for _ in 0..2 {
        fixture.run_sql(migration_sql()).await;
        assert_eq!(definitions(&fixture).await, expected);
        assert_eq!(fixture.number("SELECT COUNT(*) FROM idem_schema").await, 1);
    }
    let store = fixture.builder().expect_tables().open().await.expect("opened");
    assert!(matches!(store.claim(&claim("k")).await, Ok(Claimed::Acquired(_))));
    store.close().await;
}

async fn tables_that_are_expected_are_not_made(fixture: Fixture) {
    drop_tables(&fixture).await;
    let error = fixture.builder().expect_tables().open().await.expect_err("refused");
    assert_eq!((error.kind(), error.is_retryable()), (ErrorKind::Schema, false));
    assert!(error.message().contains("migrate"), "{error}");
    let tables = "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = DATABASE()";
    assert_eq!(fixture.number(tables).await, 0);
}

async fn a_newer_schema_is_refused_and_left_alone(fixture: Fixture) {
    refused_as(&fixture, "INSERT INTO idem_schema VALUES (2, 0)", ErrorKind::Schema, "newer").await;
    let error = fixture.builder().migrate().await.expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::Schema);
    assert_eq!(fixture.number("SELECT COUNT(*) FROM idem_schema").await, 2);
}

async fn a_foreign_table_of_our_name_is_refused_and_not_noted_as_ours(fixture: Fixture) {
    drop_tables(&fixture).await;
    fixture.run_sql("CREATE TABLE idem_records (mine INT) ENGINE = InnoDB").await;
    let error = refusal(&fixture).await;
    assert!(matches!(error.kind(), ErrorKind::Schema | ErrorKind::Unsupported), "{error}");
    assert_eq!(fixture.number("SELECT COUNT(*) FROM idem_schema").await, 0);
    assert_eq!(fixture.number("SELECT COUNT(*) FROM idem_records").await, 0, "and it is still there");
}

async fn tables_that_were_changed_are_found(fixture: Fixture) {
    let change = "ALTER TABLE idem_records CHANGE history past MEDIUMBLOB NOT NULL";
    refused_as(&fixture, change, ErrorKind::Schema, "tables").await;
}

async fn a_table_without_its_unique_key_is_refused(fixture: Fixture) {
    let change = "ALTER TABLE idem_records DROP PRIMARY KEY, ADD KEY (scope, `key`)";
    refused_as(&fixture, change, ErrorKind::Unsupported, "UNIQUE").await;
    let change = "ALTER TABLE idem_records ADD UNIQUE KEY (scope, `key`(100))";
    refused_as(&fixture, change, ErrorKind::Unsupported, "whole columns").await;
    fixture.run_sql("ALTER TABLE idem_records DROP INDEX scope_2, ADD UNIQUE KEY mine (`key`, scope)").await;
    // In either order of its columns, and whatever its name.
    MySqlStore::open(&fixture.url).await.expect("opened").close().await;
}

async fn a_second_unique_key_is_refused(fixture: Fixture) {
    let change = "ALTER TABLE idem_records ADD UNIQUE KEY mine (`key`)";
    refused_as(&fixture, change, ErrorKind::Unsupported, "mine").await;
}

async fn a_collation_that_folds_is_refused(fixture: Fixture) {
    let change = "ALTER TABLE idem_records MODIFY `key` VARCHAR(255) CHARACTER SET utf8mb4 NOT NULL";
    refused_as(&fixture, change, ErrorKind::Unsupported, "VARBINARY(255)").await;
    let change = "ALTER TABLE idem_records MODIFY `key` VARBINARY(64) NOT NULL";
    refused_as(&fixture, change, ErrorKind::Unsupported, "VARBINARY(255)").await;
}

async fn a_table_outside_innodb_is_refused(fixture: Fixture) {
    let change = "ALTER TABLE idem_records ROW_FORMAT = DEFAULT, ENGINE = MyISAM";
    refused_as(&fixture, change, ErrorKind::Unsupported, "InnoDB").await;
}

async fn an_applications_tables_are_left_alone(fixture: Fixture) {
    drop_tables(&fixture).await;
    fixture
        .run_sql("CREATE TABLE records (id INT PRIMARY KEY, what TEXT); INSERT INTO records VALUES (1, 'theirs')")
        .await;
    let store = MySqlStore::open(&fixture.url).await.expect("opened");
    store.claim(&claim("k")).await.expect("claimed");
    store.close().await;
    assert_eq!(fixture.number("SELECT COUNT(*) FROM records WHERE what = 'theirs'").await, 1);
    let tables = "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = DATABASE()";
    assert_eq!(fixture.number(tables).await, 3);
}

async fn servers_that_cannot_be_used_are_typed_errors(fixture: Fixture) {
    let opts = || OptsBuilder::from_opts(Opts::from_url(&fixture.url).expect("a URL"));
    let open = async |opts: OptsBuilder| MySqlStore::builder(opts).open().await.expect_err("refused");

    let free = std::net::TcpListener::bind("127.0.0.1:0").expect("bound").local_addr().expect("bound").port();
    let nobody = open(opts().ip_or_hostname("127.0.0.1").tcp_port(free)).await;
    assert_eq!((nobody.kind(), nobody.is_retryable()), (ErrorKind::Unavailable, true), "{nobody}");

    let stranger = open(opts().pass(Some("wrong-password"))).await;
    assert_eq!((stranger.kind(), stranger.is_retryable()), (ErrorKind::Unavailable, false), "{stranger}");
    assert!(!format!("{stranger} {stranger:?}").contains("wrong-password"));

    let nowhere = open(opts().db_name(Some("idem_no_such_database"))).await;
    assert_eq!(nowhere.kind(), ErrorKind::Schema, "{nowhere}");

    let unsaid = open(opts().db_name(None::<String>)).await;
    assert_eq!(unsaid.kind(), ErrorKind::Unsupported, "{unsaid}");
    assert!(unsaid.message().contains("URL"), "{unsaid}");

    for url in ["postgres://root:secret@localhost/x", "mysql://root:secret@localhost/x?no_such_option=1", "secret"] {
        let error = MySqlStore::open(url).await.expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(!format!("{error} {error:?}").contains("secret"), "{error:?}");
    }

    // A user who may read and write the tables, and not make them.
    let name = format!("idem_{}", std::process::id());
    let database: String = {
        let mut connection: Conn = fixture.connection().await;
        let database: Option<String> = connection.query_first("SELECT DATABASE()").await.expect("read");
        database.expect("named")
    };
    fixture
        .run_sql(format!(
            "DROP USER IF EXISTS '{name}'@'%'; CREATE USER '{name}'@'%' IDENTIFIED BY 'p';
             GRANT SELECT, INSERT, UPDATE, DELETE ON {database}.* TO '{name}'@'%'"
        ))
        .await;
    let limited = || opts().user(Some(name.clone())).pass(Some("p"));
    let store = MySqlStore::builder(limited()).open().await.expect("opened: the tables are there");
    assert!(matches!(store.claim(&claim("k")).await, Ok(Claimed::Acquired(_))));
    store.close().await;
    drop_tables(&fixture).await;
    let refused = open(limited()).await;
    assert_eq!((refused.kind(), refused.is_retryable()), (ErrorKind::Unavailable, false), "{refused}");
    fixture.run_sql(format!("DROP USER '{name}'@'%'")).await;
}

async fn what_was_answered_survives_the_store(fixture: Fixture) {
    let grant = fixture.acquire(&claim("done")).await;
    fixture.complete(&grant, succeeded("kept")).await;
    let running = fixture.acquire(&claim("running")).await;
    fixture.store.close().await;
    let refusal = fixture.store.claim(&claim("done")).await.expect_err("closed");
    assert_eq!((refusal.kind(), refusal.is_retryable()), (ErrorKind::Unavailable, false));
    let reopened = fixture.with(|builder| builder).await;
    assert!(matches!(reopened.claim(&claim("done")).await, Claimed::Replay(_)));
    assert!(matches!(reopened.claim(&claim("running")).await, Claimed::InFlight { .. }));
    let renewed = reopened.store.renew(&idem_core::Renew::new(running.lease)).await;
    assert_eq!(renewed.ok(), Some(idem_core::Renewed::Held));
    reopened.store.close().await;
}
