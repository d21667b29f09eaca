//! `settle`, `once` and `transaction`: the application's rows and the record, both or neither.

#![allow(clippy::expect_used)] // A test fails by panicking.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use common::*;
use idem_core::{
    Claimed, Completed, End, ErrorKind, Final, HowEnded, OnUncertain, Renew, Replay, Response, State, Store,
};
use idem_sqlite::rusqlite::{self, Transaction};
use idem_sqlite::{Once, SqliteStore, TransactionError};

type Outcome<T> = Result<T, TransactionError<rusqlite::Error>>;

const ORDERS: &str = "CREATE TABLE orders (id INTEGER PRIMARY KEY, what TEXT NOT NULL, parent INTEGER
                      REFERENCES orders (id) DEFERRABLE INITIALLY DEFERRED) STRICT";

async fn with_orders() -> Fixture {
    let fixture = Fixture::new().await;
    fixture.connection().execute_batch(ORDERS).expect("made");
    fixture
}

fn order(transaction: &Transaction<'_>, what: &str) -> rusqlite::Result<()> {
    transaction.execute("INSERT INTO orders (what) VALUES (?1)", [what]).map(drop)
}

fn orders(fixture: &Fixture) -> i64 {
    fixture.connection().query_row("SELECT count(*) FROM orders", (), |row| row.get(0)).expect("counted")
}

fn done(body: &'static str) -> Replay {
    Replay { end: Final::Succeeded, recorded: response(body).into() }
}

fn store_error<T: std::fmt::Debug>(outcome: Outcome<T>) -> idem_core::Error {
    match outcome {
        Err(TransactionError::Store(error)) => error,
        other => panic!("not an error of the store: {other:?}"),
    }
}

#[tokio::test]
async fn settle_commits_rows_and_record_together() {
    let fixture = with_orders().await;
    let grant = fixture.acquire(&claim("k")).await;
    let settled: Outcome<_> = fixture
        .store
        .settle(&grant.lease, |transaction| {
            order(transaction, "book")?;
            Ok(succeeded("ordered"))
        })
        .await;
    assert_eq!(settled.ok(), Some(Completed::Stored));
    assert_eq!(orders(&fixture), 1);
    assert!(matches!(fixture.claim(&claim("k")).await, Claimed::Replay(replay) if replay == done("ordered")));
}

#[tokio::test]
async fn settle_repeated_or_lost_does_not_run_the_closure() {
    let fixture = with_orders().await;
    let first = fixture.acquire(&claim("k")).await;
    let ran = Arc::new(AtomicU32::new(0));
    let settle = async |lease| -> Outcome<Completed> {
        let ran = Arc::clone(&ran);
        let work = move |transaction: &Transaction<'_>| {
            ran.fetch_add(1, Ordering::SeqCst);
            order(transaction, "book")?;
            Ok(succeeded("ordered"))
        };
        fixture.store.settle(lease, work).await
    };
    fixture.age(&identity("k"), secs(31));
    let second = fixture.acquire(&claim("k")).await;
    assert_eq!(settle(&first.lease).await.ok(), Some(Completed::Lost));
    assert_eq!(orders(&fixture), 0);
    assert_eq!(settle(&second.lease).await.ok(), Some(Completed::Stored));
    assert_eq!(settle(&second.lease).await.ok(), Some(Completed::AlreadyStored), "F5b");
    assert_eq!(orders(&fixture), 1);
    fixture.connection().execute("DELETE FROM idem_records", ()).expect("purged by hand");
    assert_eq!(settle(&second.lease).await.ok(), Some(Completed::Lost));
    assert_eq!((orders(&fixture), fixture.rows()), (1, 0));
    assert_eq!(ran.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn settle_works_on_a_lapsed_lease_that_nobody_took() {
    let fixture = with_orders().await;
    let grant = fixture.acquire(&claim("k")).await;
    fixture.age(&identity("k"), secs(3_000));
    let settled: Outcome<_> = fixture.store.settle(&grant.lease, |_| Ok(succeeded("late"))).await;
    assert_eq!(settled.ok(), Some(Completed::Stored), "F1");
}

#[tokio::test]
async fn an_error_of_settles_closure_leaves_the_attempt_as_it_was() {
    let fixture = with_orders().await;
    let grant = fixture.acquire(&claim("k")).await;
    let before = fixture.get(&identity("k")).await;
    let settled = fixture
        .store
        .settle(&grant.lease, |transaction| {
            order(transaction, "book").map_err(|_| "sql")?;
            Err::<End, _>("out of stock")
        })
        .await;
    assert!(matches!(settled, Err(TransactionError::Work("out of stock"))));
    assert_eq!((orders(&fixture), fixture.get(&identity("k")).await), (0, before));
    assert_eq!(fixture.complete(&grant, succeeded("after all")).await, Completed::Stored);
}

#[tokio::test]
async fn a_response_that_is_too_long_rolls_back() {
    let fixture = Fixture::with(|builder| builder.response_limit(4)).await;
    fixture.connection().execute_batch(ORDERS).expect("made");
    let grant = fixture.acquire(&claim("k")).await;
    let settled: Outcome<_> = fixture
        .store
        .settle(&grant.lease, |transaction| {
            order(transaction, "book")?;
            Ok(succeeded("too long"))
        })
        .await;
    assert_eq!(store_error(settled).kind(), ErrorKind::TooLarge);
    let once: Outcome<_> = fixture
        .store
        .once(&claim("other"), |transaction, _| {
            order(transaction, "book")?;
            Ok(done("too long"))
        })
        .await;
    assert_eq!(store_error(once).kind(), ErrorKind::TooLarge);
    assert_eq!((orders(&fixture), fixture.rows()), (0, 1));
    assert_eq!(fixture.get(&identity("k")).await.map(|record| record.state), Some(State::Processing));
}

#[tokio::test]
async fn once_runs_once() {
    let fixture = with_orders().await;
    let once = async |key: &str| -> Outcome<Once> {
        fixture
            .store
            .once(&claim(key), |transaction, grant| {
                assert_eq!(grant.lease.attempt, 1);
                order(transaction, "book")?;
                Ok(done("first"))
            })
            .await
    };
    assert_eq!(once("k").await.ok(), Some(Once::First(done("first"))));
    assert_eq!(once("k").await.ok(), Some(Once::Done(done("first"))));
    assert_eq!(once("other").await.ok(), Some(Once::First(done("first"))));
    assert_eq!(orders(&fixture), 2);
    let record = fixture.get(&identity("k")).await.expect("there");
    assert_eq!((record.state, record.attempt), (State::Succeeded, 1));
}

#[tokio::test]
async fn once_keeps_a_final_refusal() {
    let fixture = with_orders().await;
    let refused = Replay { end: Final::Failed, recorded: Response::new(422).into() };
    let answer = refused.clone();
    let once: Outcome<_> = fixture.store.once(&claim("k"), move |_, _| Ok(answer)).await;
    assert_eq!(once.ok(), Some(Once::First(refused.clone())));
    assert_eq!(fixture.claim(&claim("k")).await, Claimed::Replay(refused));
}

#[tokio::test]
async fn once_answers_for_those_who_may_not_run() {
    let fixture = with_orders().await;
    let ran = Arc::new(AtomicU32::new(0));
    let once = async |claim: idem_core::Claim| -> Once {
        let ran = Arc::clone(&ran);
        let outcome: Outcome<Once> = fixture
            .store
            .once(&claim, move |_, _| {
                ran.fetch_add(1, Ordering::SeqCst);
                Ok(done("ran"))
            })
            .await;
        outcome.expect("answered")
    };
    let held = || claiming("held").on_uncertain(OnUncertain::Hold).build().expect("valid");
    let grant = fixture.acquire(&held()).await;
    assert!(matches!(once(held()).await, Once::Busy { retry_after } if !retry_after.is_zero()));
    let other = idem_core::Claim::builder(identity("held"), operation(), fingerprint("b")).build().expect("valid");
    assert_eq!(once(other).await, Once::Mismatch);
    fixture.store.renew(&Renew::new(grant.lease)).await.expect("announced");
    fixture.age(&identity("held"), secs(31));
    assert!(matches!(once(held()).await, Once::Uncertain(uncertain) if uncertain.attempt == 1));
    assert_eq!(ran.load(Ordering::SeqCst), 0);

    let lapsed = fixture.acquire(&claim("lapsed")).await;
    fixture.age(&identity("lapsed"), secs(31));
    assert_eq!(once(claim("lapsed")).await, Once::First(done("ran")));
    let record = fixture.get(&identity("lapsed")).await.expect("there");
    assert_eq!(record.previous().map(|past| past.how), Some(HowEnded::Lapsed));
    assert_eq!(fixture.complete(&lapsed, succeeded("late")).await, Completed::Lost);
    assert_eq!(ran.load(Ordering::SeqCst), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn once_runs_once_for_all_at_once() {
    let fixture = with_orders().await;
    let all = (0..64).map(|_| {
        let store = fixture.store.clone();
        tokio::spawn(async move {
            let outcome: Outcome<Once> = store
                .once(&claim("k"), |transaction, _| {
                    order(transaction, "book")?;
                    Ok(done("first"))
                })
                .await;
            outcome.expect("answered")
        })
    });
    let mut firsts = 0;
    for answer in futures::future::join_all(all).await {
        match answer.expect("ran") {
            Once::First(_) => firsts += 1,
            Once::Done(replay) => assert_eq!(replay, done("first")),
            other => panic!("a claim was seen that was not committed: {other:?}"),
        }
    }
    assert_eq!((firsts, orders(&fixture)), (1, 1));
}

#[tokio::test]
async fn an_error_of_onces_closure_leaves_nothing() {
    let fixture = with_orders().await;
    let failed: Outcome<Once> = fixture
        .store
        .once(&claim("k"), |transaction, _| {
            order(transaction, "book")?;
            transaction.execute("INSERT INTO no_such_table VALUES (1)", ())?;
            Ok(done("never"))
        })
        .await;
    assert!(matches!(failed, Err(TransactionError::Work(_))));
    assert_eq!((orders(&fixture), fixture.rows()), (0, 0));
}

#[tokio::test]
async fn a_panic_in_a_closure_is_an_error_and_the_writer_goes_on() {
    let fixture = with_orders().await;
    let grant = fixture.acquire(&claim("k")).await;
    let settled: Outcome<Completed> = fixture
        .store
        .settle(&grant.lease, |transaction| {
            order(transaction, "book")?;
            panic!("on purpose");
        })
        .await;
    let error = store_error(settled);
    assert_eq!((error.kind(), error.is_retryable()), (ErrorKind::TransactionAborted, false));
    assert_eq!(orders(&fixture), 0);
    assert_eq!(fixture.complete(&grant, succeeded("still there")).await, Completed::Stored);
    let rows: Outcome<()> = fixture.store.transaction(|transaction| order(transaction, "pen")).await;
    assert!(rows.is_ok());
}

#[tokio::test]
async fn a_closure_cannot_end_the_transaction_nor_touch_what_is_the_stores() {
    let fixture = with_orders().await;
    let grant = fixture.acquire(&claim("k")).await;
    let forbidden = [
        "COMMIT",
        "ROLLBACK",
        "END",
        "BEGIN",
        "ATTACH ':memory:' AS other",
        "UPDATE idem_records SET state = 2",
        "UPDATE IDEM_RECORDS SET lease_until_us = 0",
        "INSERT INTO idem_schema VALUES (7, 7)",
        "DELETE FROM idem_records",
        "DROP TABLE idem_records",
        "DROP INDEX idem_records_by_age",
        "ALTER TABLE idem_records ADD COLUMN mine TEXT",
        "CREATE TRIGGER mine AFTER UPDATE ON idem_records BEGIN SELECT 1; END",
        "PRAGMA journal_mode = DELETE",
        "PRAGMA synchronous = OFF",
        "PRAGMA writable_schema = ON",
        "PRAGMA wal_checkpoint(TRUNCATE)",
        "PRAGMA busy_timeout = 30000",
        "PRAGMA busy_timeout(30000)",
        "PRAGMA fullfsync = OFF",
        "PRAGMA checkpoint_fullfsync = OFF",
        "PRAGMA max_page_count = 5",
        "PRAGMA schema_version = 7",
        "CREATE TEMP TABLE idem_records (x)",
        "CREATE TABLE temp.IDEM_RECORDS AS SELECT * FROM main.idem_records",
        "CREATE TEMP VIEW idem_schema AS SELECT 1 AS version",
        "CREATE VIEW temp.idem_schema AS SELECT 1 AS version",
        "CREATE TEMP TABLE mine (x); CREATE INDEX temp.idem_mine ON mine (x)",
    ];
    for statement in forbidden {
        let settled: Outcome<Completed> = fixture
            .store
            .settle(&grant.lease, move |transaction| {
                order(transaction, "book")?;
                transaction.execute_batch(statement)?;
                Ok(succeeded("never"))
            })
            .await;
        match settled {
            Err(TransactionError::Work(refused)) => {
                assert_eq!(
                    refused.sqlite_error_code(),
                    Some(rusqlite::ErrorCode::AuthorizationForStatementDenied),
                    "{statement}"
                );
            }
            other => panic!("{statement}: {other:?}"),
        }
        assert_eq!(orders(&fixture), 0, "{statement}");
    }
    let allowed: Outcome<Completed> = fixture
        .store
        .settle(&grant.lease, |transaction| {
            transaction.execute_batch(
                "SAVEPOINT mine; INSERT INTO orders (what) VALUES ('x'); ROLLBACK TO mine; RELEASE mine;
                 CREATE TABLE more (id INTEGER); CREATE INDEX more_id ON more (id); PRAGMA defer_foreign_keys = ON;
                 CREATE TEMP TABLE scratch (id INTEGER); CREATE INDEX temp.scratch_id ON scratch (id);",
            )?;
            let records: i64 = transaction.query_row("SELECT count(*) FROM idem_records", (), |row| row.get(0))?;
            assert_eq!(records, 1);
            Ok(succeeded("allowed"))
        })
        .await;
    assert_eq!(allowed.expect("allowed"), Completed::Stored);
    fixture.acquire(&claim("after")).await;
}

/// SQLite does not tell the authorizer what a table is renamed to, so the statements name the table in the file.
#[tokio::test]
async fn a_temporary_table_of_the_same_name_hides_nothing() {
    let fixture = Fixture::new().await;
    let hidden: Outcome<i64> = fixture
        .store
        .transaction(|transaction| {
            let ours = "SELECT sql FROM sqlite_schema WHERE name = 'idem_records'";
            let made: String = transaction.query_row(ours, (), |row| row.get(0))?;
            transaction.execute_batch(&made.replacen("idem_records", "temp.mine", 1))?;
            transaction.execute_batch("ALTER TABLE mine RENAME TO idem_records")?;
            transaction.query_row("SELECT count(*) FROM temp.idem_records", (), |row| row.get(0))
        })
        .await;
    assert_eq!(hidden.expect("renamed"), 0);
    let grant = fixture.acquire(&claim("k")).await;
    assert_eq!(fixture.rows(), 1, "the grant is in the file");
    let settled: Outcome<_> = fixture.store.settle(&grant.lease, |_| Ok(succeeded("done"))).await;
    assert_eq!(settled.ok(), Some(Completed::Stored));
    let neighbour = SqliteStore::open(&fixture.path).await.expect("opened");
    assert!(matches!(neighbour.claim(&claim("k")).await, Ok(Claimed::Replay(_))));
}

/// The same from before the tables are made: each of them is made in the file.
#[tokio::test]
async fn temporary_tables_of_on_open_hide_nothing() {
    let fixture = Fixture::with(|builder| {
        builder.on_open(|connection| {
            connection.execute_batch("CREATE TEMP TABLE idem_records (x); CREATE TEMP TABLE idem_schema (x)")
        })
    })
    .await;
    let grant = fixture.acquire(&claim("k")).await;
    assert_eq!(fixture.complete(&grant, succeeded("done")).await, Completed::Stored);
    assert_eq!(fixture.rows(), 1);
    let indexes = "SELECT count(*) FROM sqlite_schema WHERE type = 'index' AND name LIKE 'idem%'";
    let indexes: i64 = fixture.connection().query_row(indexes, (), |row| row.get(0)).expect("read");
    assert_eq!(indexes, 2, "they are in the file, too");
}

/// The driver sets it past the authorizer; it is taken back before the next job waits for a lock by it.
#[tokio::test]
async fn a_closures_own_busy_timeout_ends_with_it() {
    let fixture = Fixture::new().await;
    let timeout = |transaction: &Transaction<'_>| -> rusqlite::Result<i64> {
        transaction.query_row("PRAGMA busy_timeout", (), |row| row.get(0))
    };
    let set: Outcome<i64> = fixture
        .store
        .transaction(move |transaction| {
            transaction.busy_timeout(Duration::from_secs(30))?;
            timeout(transaction)
        })
        .await;
    assert_eq!(set.expect("set"), 30_000);
    let after: Outcome<i64> = fixture.store.transaction(move |transaction| timeout(transaction)).await;
    assert_eq!(after.expect("read"), 0);
}

/// Rows that are forgotten keep their statement going for good: no COMMIT of that connection would ever succeed after
/// a write, and none of its snapshots would be new after a read.
#[tokio::test]
async fn a_statement_that_is_left_unfinished_costs_the_closure_and_nobody_else() {
    let fixture = Fixture::with(|builder| {
        builder.on_open(|connection| connection.execute_batch("CREATE TEMP TABLE of_on_open (x INTEGER)"))
    })
    .await;
    fixture.connection().execute_batch(ORDERS).expect("made");
    let neighbour = SqliteStore::open(&fixture.path).await.expect("opened");
    let insert = "INSERT INTO orders (what) VALUES ('a'), ('b') RETURNING id";
    for (number, statement) in [insert, "SELECT name FROM sqlite_schema"].into_iter().enumerate() {
        let forgetful: Outcome<()> = fixture
            .store
            .transaction(move |transaction| {
                let mut prepared = transaction.prepare(statement)?;
                let mut rows = prepared.query(())?;
                assert!(rows.next()?.is_some());
                std::mem::forget(rows);
                std::mem::forget(prepared);
                Ok(())
            })
            .await;
        let error = store_error(forgetful);
        assert_eq!((error.kind(), error.is_retryable()), (ErrorKind::TransactionAborted, false), "{statement}");
        assert_eq!(orders(&fixture), i64::try_from(number).expect("fits"), "rolled back: {statement}");
        // Another process writes, so that an old snapshot would show.
        acquired(neighbour.claim(&claim(&format!("neighbour {number}"))).await.expect("claimed"));
        fixture.acquire(&claim(&format!("after {number}"))).await;
        let again: Outcome<i64> = fixture
            .store
            .transaction(|transaction| {
                order(transaction, "book")?;
                assert!(transaction.execute_batch("COMMIT").is_err(), "the new connection is watched, too");
                transaction.query_row("SELECT count(*) FROM of_on_open", (), |row| row.get(0))
            })
            .await;
        assert_eq!(again.expect("what on_open prepares is there"), 0);
    }
    fixture.store.close().await;
}

#[tokio::test]
async fn a_transaction_that_sqlite_ended_is_not_taken_for_a_commit() {
    let fixture = with_orders().await;
    let grant = fixture.acquire(&claim("k")).await;
    let settled: Outcome<Completed> = fixture
        .store
        .settle(&grant.lease, |transaction| {
            order(transaction, "book")?;
            // The conflict rolls the whole transaction back, and the closure does not care.
            let _ = transaction.execute("INSERT OR ROLLBACK INTO orders (id, what) VALUES (1, 'again')", ());
            assert!(order(transaction, "outside any transaction").is_err());
            Ok(succeeded("never"))
        })
        .await;
    assert_eq!(orders(&fixture), 0);
    assert_eq!(store_error(settled).kind(), ErrorKind::TransactionAborted);
    assert_eq!(fixture.get(&identity("k")).await.map(|record| record.state), Some(State::Processing));
}

#[tokio::test]
async fn a_deferred_foreign_key_that_fails_at_commit_rolls_back() {
    let fixture = with_orders().await;
    let once: Outcome<Once> = fixture
        .store
        .once(&claim("k"), |transaction, _| {
            transaction.execute("INSERT INTO orders (what, parent) VALUES ('orphan', 99)", ())?;
            Ok(done("never"))
        })
        .await;
    let error = store_error(once);
    assert_eq!((error.kind(), error.is_retryable()), (ErrorKind::TransactionAborted, false));
    assert_eq!((orders(&fixture), fixture.rows()), (0, 0));
    fixture.acquire(&claim("k")).await;
}

#[tokio::test]
async fn transaction_commits_rows_alone() {
    let fixture = with_orders().await;
    let id: Outcome<i64> = fixture
        .store
        .transaction(|transaction| {
            order(transaction, "book")?;
            Ok(transaction.last_insert_rowid())
        })
        .await;
    assert_eq!(id.expect("committed"), 1);
    let failed: Result<(), _> = fixture
        .store
        .transaction(|transaction| {
            order(transaction, "pen").map_err(|_| "sql")?;
            Err("no")
        })
        .await;
    assert!(matches!(failed, Err(TransactionError::Work("no"))));
    assert_eq!((orders(&fixture), fixture.rows()), (1, 0));
}

#[tokio::test]
async fn what_on_open_prepares_is_there_for_closures() {
    let fixture = Fixture::with(|builder| {
        builder.on_open(|connection| connection.execute_batch("CREATE TEMP TABLE mine (x INTEGER)"))
    })
    .await;
    let rows: Outcome<usize> =
        fixture.store.transaction(|transaction| transaction.execute("INSERT INTO mine VALUES (1)", ())).await;
    assert_eq!(rows.expect("there"), 1);
}
