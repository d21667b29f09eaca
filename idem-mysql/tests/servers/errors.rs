//! The errors that a server can be made to give, as callers see them; and what they do not show.

use idem_core::{Claimed, Complete, Completed, Error, ErrorKind, State, Store};
use idem_mysql::mysql_async::TxOpts;
use idem_mysql::mysql_async::prelude::Queryable;

use crate::fixture::*;
use crate::{Run, trials};

pub(crate) const TRIALS: &[Run] = trials![
    tables_that_are_gone_or_changed_are_the_schemas_fault,
    what_an_application_put_on_the_table_refuses,
    a_killed_query_is_tried_by_the_caller_again,
    a_lost_connection_is_tried_again_inside_with_the_same_token,
    a_purge_in_doubt_is_not_repeated,
    x6_errors_show_no_key_and_no_response,
];

async fn claim_error(fixture: &Fixture, change: &str) -> (ErrorKind, bool) {
    fixture.run_sql(change).await;
    let error = fixture.store.claim(&claim("new")).await.expect_err(change);
    (error.kind(), error.is_retryable())
}

async fn tables_that_are_gone_or_changed_are_the_schemas_fault(fixture: Fixture) {
    let changes = [
        ("ALTER TABLE idem_records ADD CONSTRAINT mine CHECK (fence < 5)", "DROP CONSTRAINT mine"), // 3819, 4025
        ("ALTER TABLE idem_records MODIFY operation VARBINARY(2) NOT NULL", "MODIFY operation VARBINARY(255) NOT NULL"), // 1406
        ("ALTER TABLE idem_records MODIFY fence INT NOT NULL", "MODIFY fence BIGINT NOT NULL"), // 1264
        ("ALTER TABLE idem_records MODIFY owner VARBINARY(255) NOT NULL", "MODIFY owner VARBINARY(255) NULL"), // 1048
        (
            "ALTER TABLE idem_records CHANGE operation what VARBINARY(255) NOT NULL",
            "CHANGE what operation VARBINARY(255) NOT NULL",
        ), // 1054
    ];
    for (change, back) in changes {
        assert_eq!(claim_error(&fixture, change).await, (ErrorKind::Schema, false), "{change}");
        fixture.run_sql(format!("ALTER TABLE idem_records {back}")).await;
    }
    fixture.acquire(&claim("new")).await;
    assert_eq!(claim_error(&fixture, "DROP TABLE idem_records").await, (ErrorKind::Schema, false)); // 1146
}

async fn what_an_application_put_on_the_table_refuses(fixture: Fixture) {
    let trigger = "CREATE TRIGGER mine BEFORE INSERT ON idem_records FOR EACH ROW SIGNAL SQLSTATE '45000'";
    assert_eq!(claim_error(&fixture, trigger).await, (ErrorKind::TransactionAborted, false)); // 1644
    fixture
        .run_sql("DROP TRIGGER mine; CREATE TABLE allowed (operation VARBINARY(255) PRIMARY KEY) ENGINE = InnoDB")
        .await;
    let foreign = "ALTER TABLE idem_records ADD CONSTRAINT mine FOREIGN KEY (operation) REFERENCES allowed (operation)";
    assert_eq!(claim_error(&fixture, foreign).await, (ErrorKind::TransactionAborted, false)); // 1452
    fixture.run_sql("ALTER TABLE idem_records DROP FOREIGN KEY mine").await;
    fixture.acquire(&claim("new")).await;
}

async fn a_killed_query_is_tried_by_the_caller_again(fixture: Fixture) {
    let patient = fixture.patient().await;
    let mut other = fixture.connection().await;
    let mut open = other.start_transaction(TxOpts::new()).await.expect("begun");
    open.query_drop(INSERT_BY_HAND).await.expect("inserted");
    let asked = claim("k");
    let killing = async {
        let id = fixture.waiter().await;
        fixture.run_sql(format!("KILL QUERY {id}")).await;
    };
    let (claimed, ()) = futures::join!(patient.store.claim(&asked), killing);
    let error = claimed.expect_err("interrupted");
    assert_eq!((error.kind(), error.is_retryable()), (ErrorKind::Unavailable, true), "{error:?}"); // 1317
    open.rollback().await.expect("rolled back");
    assert_eq!(fixture.rows().await, 0, "and nothing was applied");
    patient.store.close().await;
}

async fn a_lost_connection_is_tried_again_inside_with_the_same_token(fixture: Fixture) {
    let patient = fixture.patient().await;
    let mut other = fixture.connection().await;
    let mut open = other.start_transaction(TxOpts::new()).await.expect("begun");
    open.query_drop(INSERT_BY_HAND).await.expect("inserted");
    let asked = claim("k");
    let killing = async {
        let first = fixture.waiter().await;
        fixture.run_sql(format!("KILL {first}")).await;
        // It is sent again, on another connection.
        while fixture.waiter().await == first {}
        open.rollback().await.expect("rolled back");
    };
    let (claimed, ()) = futures::join!(patient.store.claim(&asked), killing);
    let grant = acquired(claimed.expect("no error comes out"));
    assert_eq!((grant.lease.token, grant.lease.attempt), (asked.token(), 1));

    // The same for a completion, behind a lock on its record.
    let mut open = other.start_transaction(TxOpts::new()).await.expect("begun");
    open.query_drop("SELECT state FROM idem_records WHERE `key` = 'k' FOR UPDATE").await.expect("locked");
    let complete = Complete::new(grant.lease.clone(), succeeded("x"));
    let killing = async {
        let first = fixture.waiter().await;
        fixture.run_sql(format!("KILL {first}")).await;
        while fixture.waiter().await == first {}
        open.rollback().await.expect("rolled back");
    };
    let (completed, ()) = futures::join!(patient.store.complete(&complete), killing);
    assert_eq!(completed.ok(), Some(Completed::Stored));
    assert!(matches!(patient.claim(&claim("k")).await, Claimed::Replay(_)));
    patient.store.close().await;
}

async fn a_purge_in_doubt_is_not_repeated(fixture: Fixture) {
    // A purge waits for no row, so a trigger makes it wait for another one.
    fixture.run_sql("CREATE TABLE gate (id INT PRIMARY KEY) ENGINE = InnoDB; INSERT INTO gate VALUES (1)").await;
    let grant = fixture.acquire(&claim("k")).await;
    fixture.complete(&grant, succeeded("x")).await;
    fixture.age(&identity("k"), secs(100_000)).await;
    fixture
        .run_sql("CREATE TRIGGER mine AFTER DELETE ON idem_records FOR EACH ROW UPDATE gate SET id = 1 WHERE id = 1")
        .await;
    let patient = fixture.patient().await;
    let mut other = fixture.connection().await;
    let mut open = other.start_transaction(TxOpts::new()).await.expect("begun");
    open.query_drop("SELECT id FROM gate FOR UPDATE").await.expect("locked");
    let killing = async {
        let id = fixture.waiter().await;
        fixture.run_sql(format!("KILL {id}")).await;
    };
    let (purged, ()) = futures::join!(patient.store.purge(std::num::NonZeroU32::MIN), killing);
    assert_eq!(purged.expect_err("in doubt").kind(), ErrorKind::Indeterminate);
    open.rollback().await.expect("rolled back");
    patient.store.close().await;
}

async fn x6_errors_show_no_key_and_no_response(fixture: Fixture) {
    let shown = |error: Error| {
        let text = format!("{error} {error:?} {:?}", std::error::Error::source(&error).map(ToString::to_string));
        assert!(!text.contains("secret"), "{text}");
        error
    };
    let asked = claim("secret-key");
    let grant = fixture.acquire(&asked).await;
    let complete = Complete::new(grant.lease, succeeded("secret-body"));
    let trigger = "CREATE TRIGGER mine BEFORE UPDATE ON idem_records FOR EACH ROW
                   SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'secret'";
    fixture.run_sql(trigger).await;
    let refused = shown(fixture.store.complete(&complete).await.expect_err("refused"));
    assert!(format!("{refused:?}").contains("1644"), "but the number is there: {refused:?}");
    // A second unique key, made behind the store's back: its duplicate's text holds the value.
    fixture.run_sql("DROP TRIGGER mine; ALTER TABLE idem_records ADD UNIQUE KEY mine (scope)").await;
    let other = claim("secret-other");
    let duplicate = fixture.store.claim(&other).await;
    assert!(!matches!(duplicate, Ok(Claimed::Acquired(_))), "{duplicate:?}");
    duplicate.err().map(shown);
    fixture.run_sql("ALTER TABLE idem_records DROP KEY mine; UPDATE idem_records SET history = `key`").await;
    let unreadable = shown(fixture.store.get(asked.identity()).await.expect_err("unreadable"));
    assert_eq!(unreadable.kind(), ErrorKind::Schema);
    fixture.run_sql("UPDATE idem_records SET history = '[]', operation = ''").await;
    let unreadable = shown(fixture.store.get(asked.identity()).await.expect_err("unreadable"));
    assert_eq!(unreadable.kind(), ErrorKind::Schema);
    fixture.run_sql("UPDATE idem_records SET operation = 'test'").await;
    assert_eq!(fixture.get(asked.identity()).await.map(|record| record.state), Some(State::Processing));
}
