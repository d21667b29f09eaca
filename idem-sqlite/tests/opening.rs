//! What opening does to a file, and which files and settings it refuses.

#![allow(clippy::expect_used)] // A test fails by panicking.

mod common;

use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::{Arc, Barrier};
use std::time::Duration;

use common::*;
use idem_core::{Claimed, ErrorKind, Store};
use idem_sqlite::SqliteStore;
use idem_sqlite::rusqlite::Connection;

/// Everything that the schema says, in order.
fn schema(connection: &Connection) -> Vec<(String, Option<String>)> {
    let mut statement = connection.prepare("SELECT name, sql FROM sqlite_schema ORDER BY name").expect("prepared");
    let rows = statement.query_map((), |row| Ok((row.get(0)?, row.get(1)?))).expect("read");
    rows.collect::<Result<_, _>>().expect("read")
}

async fn refusal(path: impl AsRef<Path>) -> idem_core::Error {
    SqliteStore::open(path).await.expect_err("refused")
}

#[tokio::test]
async fn wal_and_full_are_set_and_the_tables_are_strict() {
    let fixture = Fixture::new().await;
    let connection = fixture.connection();
    let mode: String = connection.query_row("PRAGMA journal_mode", (), |row| row.get(0)).expect("read");
    assert_eq!(mode, "wal");
    let seen: (i64, i64) = {
        let read = fixture.store.transaction(|transaction| -> idem_sqlite::rusqlite::Result<_> {
            let synchronous = transaction.pragma_query_value(None, "synchronous", |row| row.get(0))?;
            let full = transaction.pragma_query_value(None, "fullfsync", |row| row.get(0))?;
            Ok((synchronous, full))
        });
        read.await.expect("read")
    };
    assert_eq!(seen, (2, 1));
    let strict: i64 = connection
        .query_row(
            "SELECT count(*) FROM pragma_table_list WHERE name LIKE 'idem\\_%' ESCAPE '\\' AND strict AND NOT wr",
            (),
            |row| row.get(0),
        )
        .expect("read");
    assert_eq!(strict, 2, "strict, and with a rowid");
}

#[tokio::test]
async fn opening_twice_changes_nothing() {
    let fixture = Fixture::new().await;
    let before = schema(&fixture.connection());
    let watcher = fixture.connection();
    let data_version = || -> i64 { watcher.query_row("PRAGMA data_version", (), |row| row.get(0)).expect("read") };
    let seen = data_version();
    let again = SqliteStore::open(&fixture.path).await.expect("opened");
    assert_eq!(data_version(), seen, "a file that is up to date is not written to");
    assert_eq!(schema(&fixture.connection()), before);
    fixture.acquire(&claim("k")).await;
    assert!(matches!(again.claim(&claim("k")).await, Ok(Claimed::InFlight { .. })), "two stores on one file");
}

#[test]
fn eight_at_once_make_the_tables_once() {
    for _ in 0..5 {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("idem.db");
        let barrier = Arc::new(Barrier::new(8));
        let openers: Vec<_> = (0..8)
            .map(|_| {
                let (path, barrier) = (path.clone(), Arc::clone(&barrier));
                std::thread::spawn(move || {
                    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("built");
                    barrier.wait();
                    runtime.block_on(async {
                        let store = SqliteStore::open(&path).await.expect("opened");
                        matches!(store.claim(&claim("k")).await.expect("claimed"), Claimed::Acquired(_))
                    })
                })
            })
            .collect();
        let acquired: Vec<bool> = openers.into_iter().map(|opener| opener.join().expect("ran")).collect();
        assert_eq!(acquired.iter().filter(|&&acquired| acquired).count(), 1);
        let versions: i64 =
            connection(&path).query_row("SELECT count(*) FROM idem_schema", (), |row| row.get(0)).expect("read");
        assert_eq!(versions, 1);
    }
}

#[tokio::test]
async fn an_applications_file_keeps_what_it_has() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("app.db");
    let app = connection(&path);
    app.execute_batch(
        "PRAGMA user_version = 42; PRAGMA application_id = 7;
         CREATE TABLE records (id INTEGER PRIMARY KEY, what TEXT); CREATE INDEX records_what ON records (what);
         CREATE VIEW v AS SELECT what FROM records; INSERT INTO records (what) VALUES ('theirs');",
    )
    .expect("made");
    let before = schema(&app);
    let store = SqliteStore::open(&path).await.expect("opened");
    store.claim(&claim("k")).await.expect("claimed");
    let theirs: Vec<_> = schema(&app).into_iter().filter(|(name, _)| !name.contains("idem_")).collect();
    assert_eq!(theirs, before);
    let kept: (i64, i64, String) = app
        .query_row("SELECT u.user_version, a.application_id, r.what FROM pragma_user_version u, pragma_application_id a, records r", (), |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
        })
        .expect("read");
    assert_eq!(kept, (42, 7, "theirs".to_owned()));
}

#[tokio::test]
async fn a_newer_schema_is_refused_and_left_alone() {
    let fixture = Fixture::new().await;
    fixture.store.close().await;
    fixture.connection().execute("INSERT INTO idem_schema VALUES (2, 0)", ()).expect("moved on");
    let error = refusal(&fixture.path).await;
    assert_eq!((error.kind(), error.is_retryable()), (ErrorKind::Schema, false));
    assert!(error.message().contains("newer"), "{error}");
}

#[tokio::test]
async fn a_foreign_table_of_our_name_is_refused_and_left_alone() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("app.db");
    let app = connection(&path);
    app.execute_batch("CREATE TABLE idem_records (mine TEXT)").expect("made");
    let before = schema(&app);
    assert_eq!(refusal(&path).await.kind(), ErrorKind::Schema);
    assert_eq!(schema(&app), before, "nothing of a half migration stays");
}

#[tokio::test]
async fn tables_that_were_changed_are_found_when_opening() {
    let fixture = Fixture::new().await;
    fixture.store.close().await;
    fixture.connection().execute_batch("ALTER TABLE idem_records RENAME COLUMN history TO past").expect("changed");
    assert_eq!(refusal(&fixture.path).await.kind(), ErrorKind::Schema);
}

#[tokio::test]
async fn memory_and_uris_are_refused() {
    for path in ["", ":memory:", "file::memory:", "file:idem.db?cache=shared", "file:/tmp/idem.db?nolock=1"] {
        assert_eq!(refusal(path).await.kind(), ErrorKind::Unsupported, "{path}");
    }
}

#[tokio::test]
async fn what_is_no_database_is_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let error = refusal(dir.path()).await;
    assert_eq!((error.kind(), error.is_retryable()), (ErrorKind::Unavailable, false), "a directory");
    let error = refusal(dir.path().join("missing").join("idem.db")).await;
    assert_eq!(error.kind(), ErrorKind::Unavailable, "a directory that is not there");
    let garbage = dir.path().join("garbage");
    std::fs::write(&garbage, vec![b'x'; 8_192]).expect("written");
    assert_eq!(refusal(&garbage).await.kind(), ErrorKind::Schema, "not a database");
}

#[tokio::test]
async fn settings_that_cannot_work_are_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let builder = || SqliteStore::builder(dir.path().join("idem.db"));
    let too_long = builder().response_limit(1_000_000_000).open().await.expect_err("refused");
    assert_eq!(too_long.kind(), ErrorKind::InvalidInput);
    let no_time = builder().deadline(Duration::ZERO).open().await.expect_err("refused");
    assert_eq!(no_time.kind(), ErrorKind::InvalidInput);
    assert!(builder().deadline(Duration::MAX).readers(NonZeroUsize::MIN).open().await.is_ok());
}

#[tokio::test]
async fn a_file_that_stays_locked_is_refused_at_the_deadline() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("idem.db");
    let other = connection(&path);
    other.execute_batch("BEGIN EXCLUSIVE; CREATE TABLE t (x)").expect("locked");
    let opening = SqliteStore::builder(&path).deadline(Duration::from_millis(50)).open();
    let error = opening.await.expect_err("refused");
    assert_eq!((error.kind(), error.is_retryable()), (ErrorKind::Unavailable, true));
}

#[tokio::test]
async fn what_on_open_refuses_is_an_error() {
    let dir = tempfile::tempdir().expect("a directory");
    let builder = SqliteStore::builder(dir.path().join("idem.db"));
    let opening = builder.on_open(|connection| connection.execute_batch("SELECT no_such_function()")).open();
    assert!(opening.await.is_err());
}
