//! The public statements, run by hand as another driver would (J5): a rewrite does nothing unless the record is as it was
//! seen, and the same decision still stands by its own clock (C13).

#![allow(clippy::expect_used)] // A test fails by panicking.

mod common;

use common::*;
use idem_core::{OnUncertain, Record, Renew, Store, Token};
use idem_postgres::sql;
use idem_postgres::sqlx::postgres::{PgConnection, PgRow};
use idem_postgres::sqlx::{self, AssertSqlSafe, Row};

const HOUR: i64 = 3_600_000_000;

struct Hands {
    fixture: Fixture,
    connection: PgConnection,
}

impl Hands {
    async fn new() -> Option<Hands> {
        let fixture = Fixture::new().await?;
        let connection = fixture.place.connection().await;
        Some(Hands { fixture, connection })
    }

    fn text(&self, statement: &str) -> AssertSqlSafe<String> {
        AssertSqlSafe(sql::in_schema(statement, &self.fixture.place.schema).expect("valid"))
    }

    async fn seen(&self, key: &str) -> Record {
        self.fixture.get(&identity(key)).await.expect("there")
    }

    /// Was the record rewritten?
    fn rewritten(&self, row: &PgRow, name: &str) -> bool {
        assert_eq!(row.get::<&str, _>("op"), format!("{}.{name}.1", self.fixture.place.schema));
        assert!(row.get::<i64, _>("now_us") > 0);
        row.get::<Option<i16>, _>("state").is_some()
    }

    async fn take_over(&mut self, key: &str, seen: &Record, within: Option<i64>) -> bool {
        let row = sqlx::query(self.text(sql::TAKE_OVER))
            .bind("global")
            .bind(key)
            .bind(Token::random().as_bytes().to_vec())
            .bind(None::<&str>)
            .bind(within.is_none())
            .bind(30_000_000_i64)
            .bind("[]")
            .bind(within)
            .bind(false)
            .bind(number(seen.fence.get()))
            .bind(seen.token.as_bytes().to_vec())
            .bind(state(seen))
            .bind(number(seen.lease_until.as_micros()))
            .fetch_one(&mut self.connection)
            .await
            .expect("answered");
        self.rewritten(&row, "take_over")
    }

    async fn new_life(&mut self, key: &str, seen: &Record, remember: i64) -> bool {
        let row = sqlx::query(self.text(sql::NEW_LIFE))
            .bind("global")
            .bind(key)
            .bind("test")
            .bind(fingerprint("new").as_bytes().to_vec())
            .bind(Some(HOUR))
            .bind(Token::random().as_bytes().to_vec())
            .bind(None::<&str>)
            .bind(false)
            .bind(30_000_000_i64)
            .bind(HOUR)
            .bind(number(seen.fence.get()))
            .bind(seen.token.as_bytes().to_vec())
            .bind(state(seen))
            .bind(number(seen.lease_until.as_micros()))
            .bind(remember)
            .fetch_one(&mut self.connection)
            .await
            .expect("answered");
        self.rewritten(&row, "new_life")
    }

    async fn repeat(&mut self, key: &str, seen: &Record) -> bool {
        let row = sqlx::query(self.text(sql::REPEAT))
            .bind("global")
            .bind(key)
            .bind(30_000_000_i64)
            .bind(number(seen.fence.get()))
            .bind(seen.token.as_bytes().to_vec())
            .bind(state(seen))
            .bind(number(seen.lease_until.as_micros()))
            .fetch_one(&mut self.connection)
            .await
            .expect("answered");
        self.rewritten(&row, "repeat")
    }
}

fn number(number: u64) -> i64 {
    i64::try_from(number).expect("fits")
}

fn state(record: &Record) -> i16 {
    match record.state {
        idem_core::State::Processing => 1,
        idem_core::State::Succeeded => 2,
        idem_core::State::Failed => 3,
        idem_core::State::Unknown => 4,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn c13_a_takeover_takes_only_what_was_seen() {
    let Some(mut hands) = Hands::new().await else { return };
    let grant = hands.fixture.acquire(&claim("k")).await;
    let running = hands.seen("k").await;
    assert!(!hands.take_over("k", &running, Some(HOUR)).await, "the lease runs by this statement's clock");
    hands.fixture.age(&identity("k"), secs(31)).await;
    let lapsed = hands.seen("k").await;
    hands.fixture.store.renew(&Renew::new(grant.lease.clone())).await.expect("renewed");
    assert!(!hands.take_over("k", &lapsed, Some(HOUR)).await, "renewed since, with the same fence");
    hands.fixture.age(&identity("k"), secs(31)).await;
    assert!(!hands.take_over("k", &lapsed, Some(HOUR)).await, "lapsed again, at another time");
    let lapsed = hands.seen("k").await;
    let mut other = lapsed.clone();
    other.token = Token::random();
    assert!(!hands.take_over("k", &other, Some(HOUR)).await, "another token");
    let mut other = lapsed.clone();
    other.fence = idem_core::Fence::new(lapsed.fence.get() - 1);
    assert!(!hands.take_over("k", &other, Some(HOUR)).await, "another fence");
    assert!(!hands.take_over("k", &lapsed, None).await, "the claimant holds");
    assert!(!hands.take_over("k", &lapsed, Some(60_000_000)).await, "past the claimant's time: aged by 62 s");
    assert!(hands.take_over("k", &lapsed, Some(HOUR)).await);
    assert!(!hands.take_over("k", &lapsed, Some(HOUR)).await, "delivered twice");
    assert_eq!(hands.seen("k").await.attempt, 2);
}

#[tokio::test]
async fn c14_a_renewal_that_left_the_lease_end_alone_still_announced_the_work() {
    let Some(mut hands) = Hands::new().await else { return };
    let held = claiming("k").on_uncertain(OnUncertain::Hold).build().expect("valid");
    hands.fixture.acquire(&held).await;
    hands.fixture.age(&identity("k"), secs(31)).await;
    let lapsed = hands.seen("k").await;
    assert_eq!(lapsed.ran_since, None);
    hands.fixture.sql("UPDATE idem_records SET ran_since = attempt").await;
    assert!(!hands.take_over("k", &lapsed, Some(HOUR)).await, "held: it may have run");
    hands.fixture.sql("UPDATE idem_records SET ran_since = NULL").await;
    assert!(hands.take_over("k", &lapsed, Some(HOUR)).await, "nothing ran");
}

#[tokio::test]
async fn c13_a_new_life_begins_only_where_the_old_one_is_over() {
    let Some(mut hands) = Hands::new().await else { return };
    let grant = hands.fixture.acquire(&claim("k")).await;
    let running = hands.seen("k").await;
    assert!(!hands.new_life("k", &running, 0).await, "processing");
    hands.fixture.complete(&grant, succeeded("x")).await;
    let done = hands.seen("k").await;
    assert!(!hands.new_life("k", &done, 0).await, "inside its retention");
    hands.fixture.age(&identity("k"), secs(86_401)).await;
    hands.fixture.sql("UPDATE idem_records SET lease_until_us = lease_until_us + 1").await;
    let mut over = done.clone();
    over.lease_until = idem_core::StoreTime::from_micros(done.lease_until.as_micros() - 86_401_000_000 + 1);
    assert!(!hands.new_life("k", &done, 0).await, "another lease end than was seen");
    assert!(!hands.new_life("k", &over, HOUR).await, "remembered");
    assert!(hands.new_life("k", &over, 0).await);
    assert!(!hands.new_life("k", &over, 0).await, "delivered twice");
    let born = hands.seen("k").await;
    assert_eq!((born.attempt, born.recorded, born.fingerprint), (1, None, fingerprint("new")));
    assert!(born.fence > grant.lease.fence);
}

#[tokio::test]
async fn c13_a_repeat_is_of_our_own_running_grant() {
    let Some(mut hands) = Hands::new().await else { return };
    let grant = hands.fixture.acquire(&claim("k")).await;
    let seen = hands.seen("k").await;
    assert!(hands.repeat("k", &seen).await);
    assert!(!hands.repeat("k", &seen).await, "the lease end has moved");
    let seen = hands.seen("k").await;
    hands.fixture.complete(&grant, succeeded("x")).await;
    assert!(!hands.repeat("k", &seen).await, "ended since");
    let done = hands.seen("k").await;
    assert!(!hands.repeat("k", &done).await, "what has ended is not granted again");
}
