//! Callers that leave, sessions that end, locks that last, and pools that were left dirty.

#![allow(clippy::expect_used)] // A test fails by panicking.

mod common;

use std::num::NonZeroU32;
use std::pin::pin;
use std::task::Poll;
use std::time::{Duration, Instant};

use common::*;
use idem_core::{Claimed, Complete, Completed, End, ErrorKind, Release, Renew, Store};
use idem_postgres::sqlx::postgres::PgPoolOptions;
use idem_postgres::sqlx::{self, Acquire, Executor};
use idem_postgres::{Once, PostgresStore};

async fn pool_of_one() -> Option<Fixture> {
    Fixture::with(|builder| builder.connections(NonZeroU32::MIN)).await
}

/// Polls a future so many times, each when it asks for it, and drops it. Says whether it was ready before.
async fn poll_and_drop<F: Future>(future: F, polls: usize) -> bool {
    let mut future = pin!(future);
    for _ in 0..polls {
        let ready = std::future::poll_fn(|context| Poll::Ready(future.as_mut().poll(context).is_ready())).await;
        if ready {
            return true;
        }
        tokio::task::yield_now().await;
    }
    false
}

async fn idle_in_transaction(fixture: &Fixture) -> i64 {
    fixture
        .place
        .number(
            "SELECT count(*) FROM pg_stat_activity
              WHERE application_name = current_schema() AND state LIKE 'idle in transaction%'",
        )
        .await
}

#[tokio::test]
async fn x3_operations_dropped_at_every_poll_leave_a_pool_of_one_sound() {
    let Some(fixture) = pool_of_one().await else { return };
    let mut early = 0;
    for polls in 0..40 {
        let key = format!("k{polls}");
        let asked = claim(&key);
        early += usize::from(!poll_and_drop(fixture.store.claim(&asked), polls).await);
        // Wholly or not at all: the same token again is the one.
        let grant = fixture.acquire(&asked).await;
        poll_and_drop(fixture.store.renew(&Renew::new(grant.lease.clone())), polls).await;
        poll_and_drop(fixture.store.get(asked.identity()), polls).await;
        poll_and_drop(fixture.store.purge(NonZeroU32::MIN), polls).await;
        if polls % 2 == 0 {
            let complete = Complete::new(grant.lease.clone(), succeeded("x"));
            poll_and_drop(fixture.store.complete(&complete), polls).await;
            let again = fixture.store.complete(&complete).await.expect("answered");
            assert!(matches!(again, Completed::Stored | Completed::AlreadyStored));
        } else {
            poll_and_drop(fixture.store.release(&Release::new(grant.lease.clone())), polls).await;
            let again = fixture.store.release(&Release::new(grant.lease.clone())).await;
            assert_eq!(again.ok(), Some(idem_core::Released::Released));
        }
        assert_eq!(idle_in_transaction(&fixture).await, 0);
    }
    assert!(early > 1, "no claim was dropped before it was ready");
}

#[tokio::test]
async fn x3_joint_transactions_dropped_at_every_poll_happen_wholly_or_not_at_all() {
    let Some(fixture) = pool_of_one().await else { return };
    fixture.sql("CREATE TABLE orders (key text)").await;
    let pool = fixture.place.pool(1);
    for polls in 0..40 {
        let key = format!("k{polls}");
        let grant = fixture.acquire(&claim(&key)).await;
        let mut tx = pool.begin().await.expect("begun");
        sqlx::query("INSERT INTO orders VALUES ($1)").bind(&key).execute(&mut *tx).await.expect("ordered");
        let complete = Complete::new(grant.lease, succeeded("x"));
        poll_and_drop(fixture.store.settle(tx, &complete), polls).await;
        let mut tx = pool.begin().await.expect("begun");
        sqlx::query("INSERT INTO orders VALUES ($1)").bind(&key).execute(&mut *tx).await.expect("ordered");
        fixture.store.settle(tx, &complete).await.expect("settled, now or before");

        let key = format!("once {polls}");
        let once = async {
            let tx = pool.begin().await.expect("begun");
            match fixture.store.once(tx, &claim(&key)).await.expect("answered") {
                Once::First(mut first) => {
                    sqlx::query("INSERT INTO orders VALUES ($1)")
                        .bind(&key)
                        .execute(&mut *first)
                        .await
                        .expect("ordered");
                    let replay = idem_core::Replay { end: idem_core::Final::Succeeded, recorded: response("x").into() };
                    first.commit(replay).await.expect("committed");
                }
                Once::Answered(answered, _) => assert!(matches!(answered, idem_postgres::Answered::Done(_))),
            }
        };
        poll_and_drop(once, polls).await;
        let tx = pool.begin().await.expect("begun");
        if let Once::First(mut first) = fixture.store.once(tx, &claim(&key)).await.expect("answered") {
            sqlx::query("INSERT INTO orders VALUES ($1)").bind(&key).execute(&mut *first).await.expect("ordered");
            let replay = idem_core::Replay { end: idem_core::Final::Succeeded, recorded: response("x").into() };
            first.commit(replay).await.expect("committed");
        }
    }
    let twice = "SELECT count(*) FROM (SELECT key FROM orders GROUP BY key HAVING count(*) <> 1) AS wrong";
    assert_eq!(fixture.place.number(twice).await, 0);
    assert_eq!(fixture.place.number("SELECT count(DISTINCT key) FROM orders").await, 80);
}

#[test]
fn x3_a_runtime_that_is_shut_down_meanwhile_leaves_a_store_that_another_can_use() {
    let place = |runtime: &tokio::runtime::Runtime| runtime.block_on(Place::new());
    let runtime = || tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("built");
    for polls in 0..10 {
        let first = runtime();
        let Some(there) = place(&first) else { return };
        let asked = claim("k");
        let (options, schema) = (there.options(), there.schema.clone());
        first.block_on(async {
            let store = PostgresStore::builder(options.clone()).schema(&schema).open().await.expect("opened");
            poll_and_drop(store.claim(&asked), polls).await;
        });
        first.shutdown_background();
        let second = runtime();
        let complete = second.block_on(async {
            let store = PostgresStore::builder(options.clone()).schema(&schema).open().await.expect("opened");
            let grant = acquired(store.claim(&asked).await.expect("claimed"));
            assert_eq!(grant.lease.attempt, 1);
            let complete = Complete::new(grant.lease, succeeded("x"));
            poll_and_drop(store.complete(&complete), polls).await;
            complete
        });
        second.shutdown_background();
        runtime().block_on(async {
            let store = PostgresStore::builder(options.clone()).schema(&schema).open().await.expect("opened");
            let completed = store.complete(&complete).await.expect("completed, now or before");
            assert!(matches!(completed, Completed::Stored | Completed::AlreadyStored));
            let open = "SELECT count(*) FROM pg_stat_activity
                         WHERE application_name = $1 AND state LIKE 'idle in transaction%'";
            let pool = PgPoolOptions::new().max_connections(1).connect_lazy_with(there.options());
            let open: i64 = sqlx::query_scalar(open).bind(&schema).fetch_one(&pool).await.expect("asked");
            assert_eq!(open, 0, "no session was left in a transaction");
        });
    }
}

#[tokio::test]
async fn a_begin_that_was_dropped_half_way_on_a_shared_pool_swallows_nothing() {
    let Some(place) = Place::new().await else { return };
    // As applications have it: no hook, the driver's own ping.
    let options = place.options().options([("lock_timeout", "2s")]);
    let pool = PgPoolOptions::new().max_connections(1).connect_lazy_with(options);
    let store = PostgresStore::on_pool(pool.clone()).schema(&place.schema).open().await.expect("opened");
    let mut leaked = 0;
    for polls in 0..60 {
        poll_and_drop(pool.begin(), polls % 6).await;
        // What a dropped begin leaves, whenever the drop is: a session inside a transaction, and a client that does not
        // know of it.
        if polls % 2 == 0 {
            pool.acquire().await.expect("had").execute(sqlx::raw_sql("BEGIN")).await.expect("left open");
            leaked += place
                .number(
                    "SELECT count(*) FROM pg_stat_activity
                      WHERE application_name = current_schema() AND pid <> pg_backend_pid() AND xact_start IS NOT NULL",
                )
                .await
                .min(1);
        }
        let key = format!("k{polls}");
        acquired(store.claim(&claim(&key)).await.expect("claimed"));
        let seen = place.number(&format!("SELECT count(*) FROM idem_records WHERE key = '{key}'")).await;
        assert_eq!(seen, 1, "others see it");
    }
    assert_eq!(leaked, 30, "the sessions really were left inside transactions");
}

#[tokio::test]
async fn the_hook_closes_sessions_that_were_left_in_a_transaction_and_keeps_the_others() {
    let Some(place) = Place::new().await else { return };
    let pool = place.pool(1);
    let session =
        async || -> i32 { sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(&pool).await.expect("asked") };
    let first = session().await;
    for _ in 0..20 {
        assert_eq!(session().await, first, "a sound session is kept");
    }
    pool.acquire().await.expect("had").execute(sqlx::raw_sql("BEGIN")).await.expect("left open");
    assert_ne!(session().await, first);
    let mut connection = pool.acquire().await.expect("had");
    let tx = connection.begin().await.expect("begun");
    drop(tx);
    drop(connection);
    session().await;
}

#[tokio::test]
async fn c11_a_claim_behind_an_open_insert_is_in_flight_in_time() {
    let deadline = Duration::from_millis(1_200);
    let Some(fixture) = Fixture::with(|builder| builder.deadline(deadline)).await else { return };
    let mut connection = fixture.place.connection().await;
    connection.execute("BEGIN").await.expect("begun");
    connection
        .execute(
            "INSERT INTO idem_records (scope, key, operation, fingerprint, state, attempt, token, fence, created_us,
                 claimed_us, lease_until_us, expires_us)
             VALUES ('global', 'k', 'test', decode(repeat('00', 32), 'hex'), 1, 1, decode(repeat('00', 16), 'hex'),
                     1, 0, 0, 0, 0)",
        )
        .await
        .expect("inserted");
    let asked = Instant::now();
    let answer = fixture.claim(&claim("k")).await;
    assert!(matches!(answer, Claimed::InFlight { retry_after } if !retry_after.is_zero()), "{answer:?}");
    assert!(asked.elapsed() < deadline + Duration::from_secs(1), "{:?}", asked.elapsed());
    connection.execute("ROLLBACK").await.expect("rolled back");
    fixture.acquire(&claim("k")).await;
}

#[tokio::test]
async fn sessions_that_the_server_ended_are_replaced_unseen() {
    let Some(fixture) = Fixture::new().await else { return };
    for round in 0..5 {
        // Fill the pool, and end every session of it.
        let claims: Vec<_> = (0..8).map(|number| claim(&format!("{round} {number}"))).collect();
        futures::future::join_all(claims.iter().map(|claim| fixture.store.claim(claim))).await;
        fixture
            .place
            .number(
                "SELECT count(pg_terminate_backend(pid, 5000)) FROM pg_stat_activity
                  WHERE application_name = current_schema() AND pid <> pg_backend_pid()",
            )
            .await;
        let grant = fixture.acquire(&claim(&format!("after {round}"))).await;
        assert_eq!(fixture.complete(&grant, End::Unknown(None)).await, Completed::Stored);
    }
}

#[tokio::test]
async fn x5_a_frozen_server_is_answered_for_by_the_deadline_and_serves_again_afterwards() {
    let Some(server) = own_server().await else { return };
    let place = Place::on(server.clone()).await;
    // Long enough for a busy machine to open a connection once it is thawed.
    let deadline = Duration::from_secs(3);
    let builder = place.builder().connections(NonZeroU32::MIN).deadline(deadline);
    let store = builder.open().await.expect("opened");
    acquired(store.claim(&claim("before")).await.expect("claimed"));
    if server.freeze().await.is_err() {
        return; // Somebody else's server.
    }
    let asked = claim("k");
    let begun = Instant::now();
    let error = store.claim(&asked).await.expect_err("frozen");
    assert!(begun.elapsed() < deadline * 3, "{:?}", begun.elapsed());
    assert_eq!((error.kind(), error.is_retryable()), (ErrorKind::Indeterminate, true), "{error:?}");
    let error = store.get(asked.identity()).await.expect_err("frozen");
    assert_eq!((error.kind(), error.is_retryable()), (ErrorKind::Unavailable, true), "a look leaves no doubt");
    server.thaw().await.expect("thawed");
    // What was sent before is still carried out, and until then its open INSERT makes the key one in flight (C11), also
    // for its own token. Once its session is gone there is no doubt left.
    let ghosts = format!(
        "SELECT count(*) FROM pg_stat_activity WHERE application_name = '{}' AND pid <> pg_backend_pid()",
        place.schema
    );
    while place.number(&ghosts).await > 0 {
        tokio::task::yield_now().await;
    }
    let grant = acquired(store.claim(&asked).await.expect("it serves again"));
    assert_eq!((grant.lease.attempt, grant.lease.token), (1, asked.token()));
    let record = store.get(asked.identity()).await.expect("read").expect("there");
    assert_eq!(record.token, asked.token());
}

#[tokio::test]
async fn x5_a_server_that_is_down_is_unavailable_by_the_deadline_and_serves_again_afterwards() {
    let Some(server) = own_server().await else { return };
    let place = Place::on(server.clone()).await;
    let deadline = Duration::from_millis(900);
    let store = place.builder().deadline(deadline).open().await.expect("opened");
    let grant = acquired(store.claim(&claim("before")).await.expect("claimed"));
    if server.sigkill().await.is_err() {
        return; // Somebody else's server.
    }
    let begun = Instant::now();
    let error = store.claim(&claim("k")).await.expect_err("down");
    assert!(begun.elapsed() < deadline * 3, "{:?}", begun.elapsed());
    assert!(matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Indeterminate), "{error:?}");
    assert!(error.is_retryable());
    server.start().await.expect("started");
    // The port may be another one.
    let store = PostgresStore::builder(place.options()).schema(&place.schema).open().await.expect("opened");
    let complete = Complete::new(grant.lease, succeeded("kept"));
    assert_eq!(store.complete(&complete).await.ok(), Some(Completed::Stored));
}
