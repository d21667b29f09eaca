//! Group commit, the bounded queue, deadlines and callers that go away.

#![allow(clippy::expect_used)] // A test fails by panicking.

mod common;

use std::num::NonZeroUsize;
use std::time::Duration;

use common::*;
use futures::FutureExt;
use futures::future::join_all;
use idem_core::{Claimed, Complete, Completed, End, ErrorKind, Final, Recorded, Replay, Response, State, Store};
use idem_sqlite::rusqlite::Connection;
use idem_sqlite::{SqliteStore, TransactionError};

/// Holds the write lock, as another process would.
fn lock(fixture: &Fixture) -> Connection {
    let connection = fixture.connection();
    connection.execute_batch("BEGIN IMMEDIATE").expect("locked");
    connection
}

fn unlock(connection: &Connection) {
    connection.execute_batch("COMMIT").expect("unlocked");
}

/// Waits until so many jobs wait behind the one that the writer has taken.
async fn until_queued(fixture: &Fixture, jobs: usize) {
    while fixture.store.stats().queued != jobs {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn what_waits_together_is_committed_together() {
    let fixture = Fixture::new().await;
    let held = lock(&fixture);
    let before = fixture.store.stats();
    let claims: Vec<_> = (0..130).map(|number| claim(&format!("k{number}"))).collect();
    let claiming = join_all(claims.iter().map(|claim| fixture.store.claim(claim)));
    let unlocking = async {
        until_queued(&fixture, 129).await;
        unlock(&held);
    };
    let (answers, ()) = futures::join!(claiming, unlocking);
    assert!(answers.iter().all(|answer| matches!(answer, Ok(Claimed::Acquired(_)))));
    let after = fixture.store.stats();
    assert_eq!((after.ran - before.ran, after.commits - before.commits), (130, 3), "64 to a commit");
}

#[tokio::test]
async fn a_reader_sees_what_was_answered_and_nothing_before() {
    let fixture = Fixture::new().await;
    let held = lock(&fixture);
    let asked = [claim("first"), claim("second")];
    let claiming = join_all(asked.iter().map(|claim| fixture.store.claim(claim)));
    let meanwhile = async {
        until_queued(&fixture, 1).await; // The writer has the other.
        for claim in &asked {
            assert_eq!(fixture.get(claim.identity()).await, None);
        }
        unlock(&held);
    };
    let (answers, ()) = futures::join!(claiming, meanwhile);
    assert!(answers.iter().all(|answer| matches!(answer, Ok(Claimed::Acquired(_)))));
    for claim in &asked {
        assert_eq!(fixture.get(claim.identity()).await.map(|record| record.state), Some(State::Processing));
    }
}

#[tokio::test]
async fn finished_records_are_replayed_while_somebody_holds_the_write_lock() {
    let fixture = Fixture::new().await;
    let grant = fixture.acquire(&claim("done")).await;
    fixture.complete(&grant, succeeded("x")).await;
    fixture.acquire(&claim("running")).await;
    let held = lock(&fixture);
    assert!(matches!(fixture.claim(&claim("done")).await, Claimed::Replay(_)));
    assert!(matches!(fixture.claim(&claim("running")).await, Claimed::InFlight { .. }));
    assert!(fixture.get(&identity("done")).await.is_some());
    unlock(&held);
}

#[tokio::test]
async fn one_more_than_the_queue_takes_is_refused_at_once() {
    let size = NonZeroUsize::new(4).expect("above 0");
    let fixture = Fixture::with(|builder| builder.queue(size)).await;
    let mut leases = Vec::new();
    for number in 0..6 {
        leases.push(fixture.acquire(&claim(&format!("k{number}"))).await.lease);
    }
    let held = lock(&fixture);
    let completes: Vec<_> = leases.iter().map(|lease| Complete::new(lease.clone(), succeeded("x"))).collect();
    let first = fixture.store.complete(&completes[0]);
    let rest = async {
        // The writer has taken the first and waits for the lock with it; four fit behind it.
        while fixture.store.stats().queued != 0 {
            tokio::task::yield_now().await;
        }
        let four = join_all(completes[1..5].iter().map(|complete| fixture.store.complete(complete)));
        let one_more = async {
            until_queued(&fixture, 4).await;
            let refused = fixture.store.complete(&completes[5]).now_or_never().expect("at once").expect_err("refused");
            assert_eq!((refused.kind(), refused.is_retryable()), (ErrorKind::Unavailable, true));
            assert!(refused.message().contains("queue is full"), "{refused}");
            unlock(&held);
        };
        futures::join!(four, one_more).0
    };
    let (first, rest) = futures::join!(first, rest);
    assert_eq!(first.ok(), Some(Completed::Stored));
    assert!(rest.into_iter().all(|answer| answer.is_ok_and(|answer| answer == Completed::Stored)));
    assert_eq!(fixture.get(&identity("k5")).await.map(|record| record.state), Some(State::Processing));
    assert_eq!(fixture.store.complete(&completes[5]).await.ok(), Some(Completed::Stored), "and later it fits");
}

/// Another store on the same file, as another process would have it, that waits for a quarter of a second.
async fn impatient(fixture: &Fixture) -> SqliteStore {
    SqliteStore::builder(&fixture.path).deadline(Duration::from_millis(250)).open().await.expect("opened")
}

#[tokio::test]
async fn a_lock_that_stays_is_a_typed_error_at_the_deadline_and_nothing_happened() {
    let fixture = Fixture::new().await;
    fixture.connection().execute_batch("CREATE TABLE rows (x INTEGER)").expect("made");
    let store = impatient(&fixture).await;
    let held = lock(&fixture);
    let refused = store.claim(&claim("k")).await.expect_err("locked");
    assert_eq!((refused.kind(), refused.is_retryable()), (ErrorKind::Unavailable, true));
    let refused = store
        .transaction(|transaction| transaction.execute("INSERT INTO rows VALUES (1)", ()))
        .await
        .expect_err("locked");
    assert!(matches!(refused, TransactionError::Store(error) if error.kind() == ErrorKind::Unavailable));
    unlock(&held);
    store.close().await;
    let rows: i64 = fixture.connection().query_row("SELECT count(*) FROM rows", (), |row| row.get(0)).expect("read");
    assert_eq!((fixture.rows(), rows), (0, 0), "what was refused is not done later");
}

#[tokio::test]
async fn what_its_caller_left_is_not_done_after_the_deadline() {
    let fixture = Fixture::new().await;
    let leases = [fixture.acquire(&claim("first")).await.lease, fixture.acquire(&claim("second")).await.lease];
    let store = impatient(&fixture).await;
    let held = lock(&fixture);
    let completes = leases.map(|lease| Complete::new(lease, succeeded("x")));
    // Both are queued, and both callers are gone at once.
    assert!(completes.iter().all(|complete| store.complete(complete).now_or_never().is_none()));
    // A third one waits for the lock as long as anybody may.
    assert!(store.claim(&claim("third")).await.is_err());
    unlock(&held);
    store.close().await;
    for key in ["first", "second"] {
        assert_eq!(fixture.get(&identity(key)).await.map(|record| record.state), Some(State::Processing));
    }
}

#[tokio::test]
async fn a_closure_may_take_longer_than_the_deadline() {
    let fixture = Fixture::new().await;
    let store = impatient(&fixture).await;
    let (go_on, wait) = std::sync::mpsc::channel();
    let (started, has_started) = tokio::sync::oneshot::channel();
    let running = store.transaction(move |transaction| {
        started.send(()).expect("heard");
        wait.recv().expect("told");
        transaction.execute("CREATE TABLE late (x)", ())
    });
    let other = async {
        has_started.await.expect("started");
        // Its own deadline passes behind the closure, which therefore has run past the same deadline.
        let refused = store.claim(&claim("k")).await.expect_err("too late");
        assert_eq!(refused.kind(), ErrorKind::Unavailable);
        go_on.send(()).expect("heard");
    };
    let (ran, ()) = futures::join!(running, other);
    assert!(ran.is_ok());
}

#[tokio::test]
async fn a_caller_that_goes_away_leaves_it_done_or_not_done() {
    let fixture = Fixture::new().await;
    for polls in 1..6 {
        let asked = claim(&format!("k{polls}"));
        {
            let mut claiming = Box::pin(fixture.store.claim(&asked));
            for _ in 0..polls {
                if futures::poll!(claiming.as_mut()).is_ready() {
                    break;
                }
                tokio::task::yield_now().await;
            }
        }
        // Repeating with the same token tells, and a stranger meets nothing half done.
        let grant = fixture.acquire(&asked).await;
        assert!(matches!(fixture.claim(&claim(&format!("k{polls}"))).await, Claimed::InFlight { .. }));
        let complete = Complete::new(grant.lease.clone(), succeeded("x"));
        let _ = fixture.store.complete(&complete).now_or_never();
        let again = fixture.store.complete(&complete).await.expect("completed");
        assert_eq!(again, Completed::AlreadyStored, "the first was queued when its caller went away, and was done");
    }
}

#[tokio::test]
async fn a_dropped_store_finishes_what_is_queued() {
    let fixture = Fixture::new().await;
    let grant = fixture.acquire(&claim("k")).await;
    let held = lock(&fixture);
    let Fixture { store, path, dir: _dir } = fixture;
    let complete = Complete::new(grant.lease, succeeded("last"));
    assert!(store.complete(&complete).now_or_never().is_none());
    let last = store.clone();
    drop(store);
    unlock(&held);
    last.close().await;
    let state: i64 = connection(&path).query_row("SELECT state FROM idem_records", (), |row| row.get(0)).expect("read");
    assert_eq!(state, 2);
    drop(held);
    assert!(!path.with_extension("db-wal").exists(), "the log was moved into the file");
}

#[tokio::test]
async fn a_full_disk_fails_nobody_but_the_one_that_needs_the_room() {
    let fixture =
        Fixture::with(|builder| builder.on_open(|connection| connection.execute_batch("PRAGMA max_page_count = 40")))
            .await;
    let mut leases = Vec::new();
    for number in 0..8 {
        leases.push(fixture.acquire(&claim(&format!("k{number}"))).await.lease);
    }
    let completes: Vec<_> = leases
        .into_iter()
        .enumerate()
        .map(|(number, lease)| {
            let body = vec![b'x'; if number == 3 { 500_000 } else { 10 }];
            Complete::new(lease, idem_core::End::Succeeded(idem_core::Response::new(200).with_body(body).into()))
        })
        .collect();
    let held = lock(&fixture);
    let completing = join_all(completes.iter().map(|complete| fixture.store.complete(complete)));
    let unlocking = async {
        until_queued(&fixture, 7).await;
        unlock(&held);
    };
    let before = fixture.store.stats();
    let (answers, ()) = futures::join!(completing, unlocking);
    let after = fixture.store.stats();
    assert_eq!((after.ran - before.ran, after.commits - before.commits), (8, 7), "each got a transaction of its own");
    for (number, answer) in answers.into_iter().enumerate() {
        if number == 3 {
            let error = answer.expect_err("no room");
            assert_eq!((error.kind(), error.is_retryable()), (ErrorKind::Unavailable, true));
            assert!(error.message().contains("full"), "{error}");
        } else {
            assert_eq!(answer.ok(), Some(Completed::Stored), "{number}");
        }
    }
    assert_eq!(fixture.get(&identity("k3")).await.map(|record| record.state), Some(State::Processing));
}

/// A response that finds no room leaves the attempt as it was, and a tombstone in its place does fit.
#[tokio::test]
async fn after_a_full_disk_there_is_room_for_a_tombstone() {
    let fixture =
        Fixture::with(|builder| builder.on_open(|connection| connection.execute_batch("PRAGMA max_page_count = 40")))
            .await;
    let grant = fixture.acquire(&claim("k")).await;
    let before = fixture.get(&identity("k")).await;
    let long = End::Succeeded(Response::new(201).with_body(vec![b'x'; 500_000]).into());
    let complete = Complete::new(grant.lease.clone(), long.clone());
    for _ in 0..3 {
        let full = fixture.store.complete(&complete).await.expect_err("no room");
        assert_eq!((full.kind(), full.is_retryable()), (ErrorKind::Unavailable, true));
        assert_eq!(fixture.get(&identity("k")).await, before, "nothing was applied");
    }
    assert_eq!(fixture.complete(&grant, long.without_response()).await, Completed::Stored);
    let tombstone = Replay { end: Final::Succeeded, recorded: Recorded::Tombstone { code: 201 } };
    assert_eq!(fixture.claim(&claim("k")).await, Claimed::Replay(tombstone));
}

#[tokio::test]
async fn errors_show_no_key_and_no_response() {
    let fixture = Fixture::new().await;
    let asked = claim("secret-key");
    let grant = fixture.acquire(&asked).await;
    let complete = Complete::new(grant.lease, succeeded("secret-body"));
    let shown = |error: idem_core::Error| {
        let text = format!("{error} {error:?} {:?}", std::error::Error::source(&error).map(ToString::to_string));
        assert!(!text.contains("secret"), "{text}");
    };
    fixture
        .connection()
        .execute_batch("CREATE TRIGGER refuse BEFORE UPDATE ON idem_records BEGIN SELECT RAISE(ABORT, 'no'); END")
        .expect("made");
    shown(fixture.store.complete(&complete).await.expect_err("refused"));
    fixture
        .connection()
        .execute_batch(
            "DROP TRIGGER refuse; PRAGMA ignore_check_constraints = ON; UPDATE idem_records SET history = key",
        )
        .expect("broken");
    let unreadable = fixture.store.get(asked.identity()).await.expect_err("unreadable");
    assert_eq!(unreadable.kind(), ErrorKind::Schema);
    shown(unreadable);
    fixture.connection().execute_batch("DROP TABLE idem_records").expect("dropped");
    let gone = fixture.store.complete(&complete).await.expect_err("gone");
    assert_eq!(gone.kind(), ErrorKind::Schema);
    shown(gone);
}
