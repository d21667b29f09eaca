//! `settle`, `once` and `complete_in`: the application's rows and the record, both or neither.

#![allow(clippy::expect_used)] // A test fails by panicking.

mod common;

use std::time::{Duration, Instant};

use common::*;
use idem_core::{
    Claim, Claimed, Complete, Completed, End, ErrorKind, Final, HowEnded, OnUncertain, Renew, Renewed, Replay,
    Response, State, Store,
};
use idem_postgres::sqlx::{self, Executor, PgConnection, PgPool};
use idem_postgres::{Answered, First, Once, PoolTransaction};

const ISOLATIONS: [&str; 3] = ["read committed", "repeatable read", "serializable"];

/// A store, tables of the application's, and pools of its own at one isolation level.
struct Shop {
    fixture: Fixture,
    pool: PgPool,
}

impl Shop {
    async fn new(isolation: &str) -> Option<Shop> {
        let fixture = Fixture::new().await?;
        fixture
            .sql(
                "CREATE TABLE orders (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, what text NOT NULL,
                                      parent bigint REFERENCES orders (id) DEFERRABLE INITIALLY DEFERRED)",
            )
            .await;
        let pool = fixture.place.pool_with(8, isolation);
        Some(Shop { fixture, pool })
    }

    async fn begin(&self) -> PoolTransaction {
        self.pool.begin().await.expect("begun")
    }

    async fn orders(&self) -> i64 {
        self.fixture.place.number("SELECT count(*) FROM orders").await
    }

    async fn settle(&self, grant: &idem_core::Grant, end: End) -> Result<Completed, idem_core::Error> {
        let mut tx = self.begin().await;
        order(&mut tx, "book").await;
        self.fixture.store.settle(tx, &Complete::new(grant.lease.clone(), end)).await
    }

    async fn once(&self, claim: &Claim) -> Result<Once, idem_core::Error> {
        self.fixture.store.once(self.begin().await, claim).await
    }

    async fn first(&self, claim: &Claim) -> First {
        match self.once(claim).await {
            Ok(Once::First(first)) => first,
            other => panic!("not the first: {other:?}"),
        }
    }

    async fn answered(&self, claim: &Claim) -> (Answered, PoolTransaction) {
        match self.once(claim).await {
            Ok(Once::Answered(answered, tx)) => (answered, tx),
            other => panic!("not answered: {other:?}"),
        }
    }
}

async fn order(connection: &mut PgConnection, what: &str) {
    sqlx::query("INSERT INTO orders (what) VALUES ($1)").bind(what).execute(connection).await.expect("ordered");
}

fn done(body: &'static str) -> Replay {
    Replay { end: Final::Succeeded, recorded: response(body).into() }
}

#[tokio::test]
async fn j1_settle_commits_rows_and_record_together_at_every_isolation() {
    for isolation in ISOLATIONS {
        let Some(shop) = Shop::new(isolation).await else { return };
        let grant = shop.fixture.acquire(&claim("k")).await;
        assert_eq!(shop.settle(&grant, succeeded("ordered")).await.ok(), Some(Completed::Stored), "{isolation}");
        assert_eq!(shop.orders().await, 1);
        assert_eq!(shop.fixture.claim(&claim("k")).await, Claimed::Replay(done("ordered")));
        assert_eq!(shop.settle(&grant, succeeded("again")).await.ok(), Some(Completed::AlreadyStored), "F5b");
        assert_eq!(shop.orders().await, 1, "the rows of a repeat are rolled back");
    }
}

#[tokio::test]
async fn j1_settle_of_a_lost_lease_rolls_back_and_a_lapsed_one_that_nobody_took_does_not() {
    let Some(shop) = Shop::new("read committed").await else { return };
    let first = shop.fixture.acquire(&claim("k")).await;
    shop.fixture.age(&identity("k"), secs(31)).await;
    let second = shop.fixture.acquire(&claim("k")).await;
    assert_eq!(shop.settle(&first, succeeded("late")).await.ok(), Some(Completed::Lost));
    assert_eq!(shop.orders().await, 0);
    shop.fixture.age(&identity("k"), secs(31)).await;
    assert_eq!(shop.settle(&second, succeeded("lapsed")).await.ok(), Some(Completed::Stored), "F1");
    shop.fixture.sql("DELETE FROM idem_records").await; // purged by hand
    assert_eq!(shop.settle(&second, succeeded("gone")).await.ok(), Some(Completed::Lost), "F3");
    assert_eq!((shop.orders().await, shop.fixture.rows().await), (1, 0));
}

#[tokio::test]
async fn j1_a_settle_that_is_rolled_back_leaves_the_attempt_as_it_was() {
    let Some(shop) = Shop::new("read committed").await else { return };
    let grant = shop.fixture.acquire(&claim("k")).await;
    let before = shop.fixture.get(&identity("k")).await;
    let mut tx = shop.begin().await;
    order(&mut tx, "book").await;
    tx.rollback().await.expect("rolled back");
    assert_eq!((shop.orders().await, shop.fixture.get(&identity("k")).await), (0, before));

    let mut tx = shop.begin().await;
    tx.execute("INSERT INTO orders (what, parent) VALUES ('orphan', 99)").await.expect("checked at commit");
    let complete = Complete::new(grant.lease.clone(), succeeded("never"));
    let error = shop.fixture.store.settle(tx, &complete).await.expect_err("refused at commit");
    assert_eq!((error.kind(), error.is_retryable()), (ErrorKind::TransactionAborted, false));

    let mut tx = shop.begin().await;
    tx.execute("SELECT 1 / 0").await.expect_err("on purpose, and not minded");
    let error = shop.fixture.store.settle(tx, &complete).await.expect_err("the transaction was spoilt before");
    assert_eq!(error.kind(), ErrorKind::TransactionAborted);
    assert_eq!(shop.fixture.get(&identity("k")).await.map(|record| record.state), Some(State::Processing));
    assert_eq!(shop.settle(&grant, succeeded("after all")).await.ok(), Some(Completed::Stored));
    assert_eq!(shop.orders().await, 1);
}

#[tokio::test]
async fn f7_a_response_that_is_too_long_rolls_back() {
    let Some(mut shop) = Shop::new("read committed").await else { return };
    shop.fixture.store = shop.fixture.place.builder().response_limit(4).open().await.expect("opened");
    let grant = shop.fixture.acquire(&claim("k")).await;
    let error = shop.settle(&grant, succeeded("too long")).await.expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::TooLarge);
    let mut first = shop.first(&claim("other")).await;
    order(&mut first, "book").await;
    assert_eq!(first.commit(done("too long")).await.expect_err("refused").kind(), ErrorKind::TooLarge);
    assert_eq!((shop.orders().await, shop.fixture.rows().await), (0, 1));
}

#[tokio::test]
async fn j1_a_renewal_during_a_settle_aborts_it_where_snapshots_are_kept_and_not_at_read_committed() {
    for isolation in ISOLATIONS {
        let Some(shop) = Shop::new(isolation).await else { return };
        let grant = shop.fixture.acquire(&claim("k")).await;
        let mut tx = shop.begin().await;
        order(&mut tx, "book").await; // The snapshot is taken here.
        let renewed = shop.fixture.store.renew(&Renew::new(grant.lease.clone()).lasting(secs(60))).await;
        assert_eq!(renewed.ok(), Some(Renewed::Held));
        let settled = shop.fixture.store.settle(tx, &Complete::new(grant.lease.clone(), succeeded("x"))).await;
        if isolation == "read committed" {
            assert_eq!(settled.ok(), Some(Completed::Stored));
            continue;
        }
        let error = settled.expect_err("aborted");
        assert_eq!((error.kind(), error.is_retryable()), (ErrorKind::TransactionAborted, true), "{isolation}");
        assert_eq!(shop.orders().await, 0);
        assert_eq!(shop.settle(&grant, succeeded("again")).await.ok(), Some(Completed::Stored));
        assert_eq!(shop.orders().await, 1);
    }
}

#[tokio::test]
async fn c11_claims_during_a_settle_are_in_flight_at_once_and_take_nothing_over() {
    let Some(shop) = Shop::new("read committed").await else { return };
    let grant = shop.fixture.acquire(&claim("k")).await;
    let mut tx = shop.begin().await;
    let complete = Complete::new(grant.lease.clone(), succeeded("x"));
    let completed = shop.fixture.store.complete_in(&mut tx, &complete).await;
    assert_eq!(completed.ok(), Some(Completed::Stored));
    let asked = Instant::now();
    assert!(matches!(shop.fixture.claim(&claim("k")).await, Claimed::InFlight { .. }));
    assert!(asked.elapsed() < Duration::from_secs(1), "the row is read, not waited for");
    tx.commit().await.expect("committed");
    assert!(matches!(shop.fixture.claim(&claim("k")).await, Claimed::Replay(_)));
}

#[tokio::test]
async fn c11_a_takeover_behind_an_open_settle_ends_in_time() {
    let Some(mut shop) = Shop::new("read committed").await else { return };
    let deadline = Duration::from_millis(1_200);
    shop.fixture.store = shop.fixture.place.builder().deadline(deadline).open().await.expect("opened");
    let grant = shop.fixture.acquire(&claim("k")).await;
    shop.fixture.age(&identity("k"), secs(31)).await;
    let mut tx = shop.begin().await;
    let complete = Complete::new(grant.lease, succeeded("x"));
    assert_eq!(shop.fixture.store.complete_in(&mut tx, &complete).await.ok(), Some(Completed::Stored));
    let asked = Instant::now();
    assert!(matches!(shop.fixture.claim(&claim("k")).await, Claimed::InFlight { .. }));
    assert!(asked.elapsed() < deadline + Duration::from_secs(1));
    tx.rollback().await.expect("rolled back");
    assert_eq!(shop.fixture.acquire(&claim("k")).await.lease.attempt, 2);
}

#[tokio::test]
async fn f5b_after_a_refused_completion_the_transaction_cannot_commit() {
    let Some(shop) = Shop::new("read committed").await else { return };
    let grant = shop.fixture.acquire(&claim("k")).await;
    shop.fixture.complete(&grant, succeeded("first")).await;
    let stale = {
        let mut lease = grant.lease.clone();
        lease.token = idem_core::Token::random();
        lease
    };
    for (lease, expected) in [(grant.lease, Completed::AlreadyStored), (stale, Completed::Lost)] {
        let mut tx = shop.begin().await;
        order(&mut tx, "book").await;
        let complete = Complete::new(lease, succeeded("second"));
        assert_eq!(shop.fixture.store.complete_in(&mut tx, &complete).await.ok(), Some(expected));
        let refused = tx.execute("INSERT INTO orders (what) VALUES ('more')").await.expect_err("spoilt");
        assert_eq!(
            refused.into_database_error().and_then(|error| error.code().map(String::from)).as_deref(),
            Some("25P02")
        );
        let _ = tx.commit().await; // PostgreSQL makes it a rollback.
        assert_eq!(shop.orders().await, 0, "{expected:?}");
    }
}

#[tokio::test]
async fn j2_once_runs_once_at_every_isolation() {
    for isolation in ISOLATIONS {
        let Some(shop) = Shop::new(isolation).await else { return };
        let mut first = shop.first(&claim("k")).await;
        assert_eq!(first.grant().lease.attempt, 1);
        order(&mut first, "book").await;
        assert_eq!(first.commit(done("first")).await.ok(), Some(done("first")));
        let (answer, mut tx) = shop.answered(&claim("k")).await;
        assert_eq!(answer, Answered::Done(done("first")));
        order(&mut tx, "something else").await;
        tx.commit().await.expect("J3: the transaction is usable");
        assert_eq!(shop.orders().await, 2, "{isolation}");
        let refused = Replay { end: Final::Failed, recorded: Response::new(422).into() };
        shop.first(&claim("refused")).await.commit(refused.clone()).await.expect("committed");
        assert_eq!(shop.fixture.claim(&claim("refused")).await, Claimed::Replay(refused));
    }
}

#[tokio::test]
async fn j2_what_is_not_committed_leaves_nothing() {
    let Some(shop) = Shop::new("read committed").await else { return };
    let mut first = shop.first(&claim("k")).await;
    order(&mut first, "book").await;
    drop(first);
    let mut first = shop.first(&claim("k")).await;
    order(&mut first, "book").await;
    first.rollback().await.expect("rolled back");
    assert_eq!((shop.orders().await, shop.fixture.rows().await), (0, 0));
    let mut first = shop.first(&claim("k")).await;
    first.execute("INSERT INTO orders (what, parent) VALUES ('orphan', 99)").await.expect("checked at commit");
    let error = first.commit(done("never")).await.expect_err("refused at commit");
    assert_eq!((error.kind(), error.is_retryable()), (ErrorKind::TransactionAborted, false));
    assert_eq!((shop.orders().await, shop.fixture.rows().await), (0, 0));
}

#[tokio::test]
async fn j3_j4_behind_an_open_once_others_are_answered_in_time() {
    for isolation in ISOLATIONS {
        let Some(mut shop) = Shop::new(isolation).await else { return };
        let deadline = Duration::from_millis(1_200);
        shop.fixture.store = shop.fixture.place.builder().deadline(deadline).open().await.expect("opened");
        let mut first = shop.first(&claim("k")).await;
        order(&mut first, "book").await;

        let asked = Instant::now();
        let (answer, mut tx) = shop.answered(&claim("k")).await;
        assert!(asked.elapsed() < Duration::from_secs(1), "J3: a once does not wait");
        assert!(matches!(answer, Answered::Busy { retry_after } if !retry_after.is_zero()), "{answer:?}");
        order(&mut tx, "other work").await;
        tx.commit().await.expect("usable");

        let asked = Instant::now();
        assert!(matches!(shop.fixture.claim(&claim("k")).await, Claimed::InFlight { .. }), "J4");
        assert!(asked.elapsed() < deadline + Duration::from_secs(1));

        first.commit(done("first")).await.expect("committed");
        assert!(matches!(shop.fixture.claim(&claim("k")).await, Claimed::Replay(_)));
        assert_eq!(shop.orders().await, 2);
    }
}

#[tokio::test]
async fn j3_a_claim_that_was_committed_after_the_snapshot_aborts_where_snapshots_are_kept() {
    for isolation in ISOLATIONS {
        let Some(shop) = Shop::new(isolation).await else { return };
        let mut tx = shop.begin().await;
        order(&mut tx, "book").await; // The snapshot is taken here.
        let grant = shop.fixture.acquire(&claim("k")).await;
        shop.fixture.complete(&grant, succeeded("other")).await;
        match (shop.fixture.store.once(tx, &claim("k")).await, isolation) {
            (Ok(Once::Answered(Answered::Done(replay), mut tx)), "read committed") => {
                assert_eq!(replay, done("other"));
                order(&mut tx, "usable").await;
                tx.commit().await.expect("committed");
                assert_eq!(shop.orders().await, 2);
            }
            (Err(error), "repeatable read" | "serializable") => {
                assert_eq!((error.kind(), error.is_retryable()), (ErrorKind::TransactionAborted, true));
                assert_eq!(shop.orders().await, 0);
            }
            (other, _) => panic!("{isolation}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn j2_once_answers_for_those_who_may_not_run() {
    let Some(shop) = Shop::new("read committed").await else { return };
    let held = || claiming("held").on_uncertain(OnUncertain::Hold).build().expect("valid");
    let grant = shop.fixture.acquire(&held()).await;
    assert!(matches!(shop.answered(&held()).await.0, Answered::Busy { retry_after } if !retry_after.is_zero()));
    let other = Claim::builder(identity("held"), operation(), fingerprint("b")).build().expect("valid");
    assert_eq!(shop.answered(&other).await.0, Answered::Mismatch);
    shop.fixture.store.renew(&Renew::new(grant.lease)).await.expect("announced");
    shop.fixture.age(&identity("held"), secs(31)).await;
    assert!(matches!(shop.answered(&held()).await.0, Answered::Uncertain(uncertain) if uncertain.attempt == 1));

    let lapsed = shop.fixture.acquire(&claim("lapsed")).await;
    shop.fixture.age(&identity("lapsed"), secs(31)).await;
    let first = shop.first(&claim("lapsed")).await;
    assert_eq!(first.grant().previous.as_ref().map(|past| past.how), Some(HowEnded::Lapsed));
    first.commit(done("ran")).await.expect("committed");
    assert_eq!(shop.fixture.complete(&lapsed, succeeded("late")).await, Completed::Lost);
}

#[tokio::test]
async fn j2_once_does_not_wait_for_the_owner_of_a_lapsed_record_who_is_settling_it() {
    let Some(shop) = Shop::new("read committed").await else { return };
    let grant = shop.fixture.acquire(&claim("k")).await;
    shop.fixture.age(&identity("k"), secs(31)).await;
    let mut settling = shop.begin().await;
    let complete = Complete::new(grant.lease, succeeded("settled"));
    assert_eq!(shop.fixture.store.complete_in(&mut settling, &complete).await.ok(), Some(Completed::Stored));
    let (answer, mut tx) = shop.answered(&claim("k")).await;
    assert!(matches!(answer, Answered::Busy { .. }), "{answer:?}");
    order(&mut tx, "usable").await;
    tx.rollback().await.expect("rolled back");
    settling.commit().await.expect("committed");
    assert_eq!(shop.answered(&claim("k")).await.0, Answered::Done(done("settled")));
}

#[tokio::test]
async fn j2_once_needs_an_end_to_silent_clients() {
    let Some(shop) = Shop::new("read committed").await else { return };
    let mut tx = shop.begin().await;
    tx.execute("SET LOCAL idle_in_transaction_session_timeout = 0").await.expect("set");
    let error = shop.fixture.store.once(tx, &claim("k")).await.expect_err("refused");
    assert_eq!((error.kind(), error.is_retryable()), (ErrorKind::Unsupported, false));
    assert!(error.message().contains("idle_in_transaction_session_timeout"));
    assert_eq!(shop.fixture.rows().await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn j2_once_runs_once_for_all_at_once_at_every_isolation() {
    for isolation in ISOLATIONS {
        let Some(shop) = Shop::new(isolation).await else { return };
        let all = (0..32).map(|_| {
            let (store, pool) = (shop.fixture.store.clone(), shop.pool.clone());
            tokio::spawn(async move {
                // The caller of a transaction begins anew when it was aborted, and asks again while another is busy.
                loop {
                    let tx = pool.begin().await.expect("begun");
                    match store.once(tx, &claim("k")).await {
                        Ok(Once::First(mut first)) => {
                            order(&mut first, "book").await;
                            match first.commit(done("first")).await {
                                Ok(_) => return 1,
                                Err(error) => assert_eq!(error.kind(), ErrorKind::TransactionAborted),
                            }
                        }
                        Ok(Once::Answered(Answered::Done(replay), _)) => {
                            assert_eq!(replay, done("first"));
                            return 0;
                        }
                        Ok(Once::Answered(Answered::Busy { .. }, _)) => tokio::task::yield_now().await,
                        Ok(other) => panic!("{other:?}"),
                        Err(error) => assert_eq!(error.kind(), ErrorKind::TransactionAborted, "{error:?}"),
                    }
                }
            })
        });
        let firsts: u32 = futures::future::join_all(all).await.into_iter().map(|first| first.expect("ran")).sum();
        assert_eq!((firsts, shop.orders().await), (1, 1), "{isolation}");
    }
}

/// Ends the session of a transaction, so that the next word to it is not answered.
async fn cut(shop: &Shop, tx: &mut PgConnection) {
    let session: i32 = sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(tx).await.expect("asked");
    let ended = format!("SELECT pg_terminate_backend({session}, 5000)::int::bigint");
    assert_eq!(shop.fixture.place.number(&ended).await, 1);
}

#[tokio::test]
async fn a_session_that_ends_inside_the_transaction_aborts_it() {
    let Some(shop) = Shop::new("read committed").await else { return };
    let grant = shop.fixture.acquire(&claim("k")).await;
    let mut tx = shop.begin().await;
    order(&mut tx, "book").await;
    cut(&shop, &mut tx).await;
    let complete = Complete::new(grant.lease.clone(), succeeded("never"));
    let error = shop.fixture.store.settle(tx, &complete).await.expect_err("gone");
    assert_eq!((error.kind(), error.is_retryable()), (ErrorKind::TransactionAborted, true));
    assert_eq!(shop.orders().await, 0);
    assert_eq!(shop.settle(&grant, succeeded("again")).await.ok(), Some(Completed::Stored));
}

#[tokio::test]
async fn x6_no_key_is_in_what_an_application_is_told() {
    let Some(shop) = Shop::new("read committed").await else { return };
    // A constraint of somebody's, whose message has the whole row in it.
    shop.fixture.sql("ALTER TABLE idem_records ADD CONSTRAINT no CHECK (key <> 'secret-key')").await;
    let error = shop.fixture.store.claim(&claim("secret-key")).await.expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::Schema);
    let told = format!("{error} {error:?} {:?}", std::error::Error::source(&error));
    assert!(!told.contains("secret-key") && told.contains("23514"), "{told}");
}
