//! Answers that never arrive: what the store finds out, and what it says when it cannot.

#![allow(clippy::expect_used)] // A test fails by panicking.

mod common;

use std::num::NonZeroU32;

use common::proxy::{Lose, Proxy};
use common::*;
use idem_core::{Completed, End, ErrorKind, Final, Release, Released, Renew, Renewed, Replay, Store};
use idem_postgres::sqlx;
use idem_postgres::sqlx::postgres::{PgPool, PgPoolOptions};
use idem_postgres::{Once, PostgresStore};

/// A place, a proxy before its server, and a store and a pool of the application's behind it.
struct Lossy {
    place: Place,
    proxy: Proxy,
    store: PostgresStore,
    pool: PgPool,
}

impl Lossy {
    async fn new(word: &'static str, lose: Lose) -> Option<Lossy> {
        let place = Place::new().await?;
        place.sql("CREATE TABLE orders (what text)").await;
        let proxy = Proxy::new(place.address(), word, lose).await;
        let through = place.options().host("127.0.0.1").port(proxy.address.port());
        let store = PostgresStore::builder(through.clone()).schema(&place.schema).connections(NonZeroU32::MIN);
        let store = store.open().await.expect("opened");
        let pool =
            PgPoolOptions::new().connect_lazy_with(through.options([("idle_in_transaction_session_timeout", "60s")]));
        Some(Lossy { place, proxy, store, pool })
    }

    async fn orders(&self) -> i64 {
        // A commit that was sent may still be under way: its locks are waited for.
        self.place.sql("BEGIN; LOCK TABLE orders IN ACCESS EXCLUSIVE MODE; COMMIT").await;
        self.place.number("SELECT count(*) FROM orders").await
    }

    /// Settles with a row of the application's; the COMMIT is what gets lost.
    async fn settle(&self, lease: idem_core::Lease) -> Result<Completed, idem_core::Error> {
        let mut tx = self.pool.begin().await.expect("begun");
        sqlx::query("INSERT INTO orders VALUES ('book')").execute(&mut *tx).await.expect("ordered");
        self.proxy.arm();
        self.store.settle(tx, &idem_core::Complete::new(lease, succeeded("x"))).await
    }
}

fn done() -> Replay {
    Replay { end: Final::Succeeded, recorded: response("x").into() }
}

#[tokio::test]
async fn j1_a_commit_whose_reply_is_lost_is_resolved() {
    for lose in [Lose::Answer, Lose::Message] {
        let Some(lossy) = Lossy::new("COMMIT", lose).await else { return };
        let grant = acquired(lossy.store.claim(&claim("k")).await.expect("claimed"));
        let settled = lossy.settle(grant.lease.clone()).await;
        assert!(lossy.proxy.fired());
        match lose {
            Lose::Answer => {
                assert_eq!(settled.ok(), Some(Completed::Stored), "committed, and found out");
                assert_eq!(lossy.orders().await, 1);
            }
            Lose::Message => {
                let error = settled.expect_err("not committed, and found out");
                assert_eq!((error.kind(), error.is_retryable()), (ErrorKind::TransactionAborted, true), "{error:?}");
                assert_eq!(lossy.orders().await, 0);
                let again = lossy.settle(grant.lease).await;
                assert!(again.is_err() && lossy.proxy.fired(), "lost once more");
            }
        }
    }
}

#[tokio::test]
async fn j2_a_commit_of_once_whose_reply_is_lost_is_resolved() {
    for lose in [Lose::Answer, Lose::Message] {
        let Some(lossy) = Lossy::new("COMMIT", lose).await else { return };
        let tx = lossy.pool.begin().await.expect("begun");
        let Ok(Once::First(mut first)) = lossy.store.once(tx, &claim("k")).await else { panic!("not the first") };
        sqlx::query("INSERT INTO orders VALUES ('book')").execute(&mut *first).await.expect("ordered");
        lossy.proxy.arm();
        let committed = first.commit(done()).await;
        assert!(lossy.proxy.fired());
        match lose {
            Lose::Answer => {
                assert_eq!(committed.ok(), Some(done()));
                assert_eq!(lossy.orders().await, 1);
            }
            Lose::Message => {
                assert_eq!(committed.expect_err("not committed").kind(), ErrorKind::TransactionAborted);
                assert_eq!(lossy.orders().await, 0);
                assert!(lossy.store.get(&identity("k")).await.expect("read").is_none());
            }
        }
    }
}

#[tokio::test]
async fn x4_lost_answers_are_asked_for_again_with_the_same_token() {
    for lose in [Lose::Answer, Lose::Message] {
        let Some(lossy) = Lossy::new("needle", lose).await else { return };
        let asked = claim("needle");
        lossy.proxy.arm();
        let grant = acquired(lossy.store.claim(&asked).await.expect("asked again"));
        assert!(lossy.proxy.fired());
        assert_eq!((grant.lease.attempt, grant.lease.token), (1, asked.token()));

        lossy.proxy.arm();
        assert_eq!(lossy.store.renew(&Renew::new(grant.lease.clone())).await.ok(), Some(Renewed::Held));
        assert!(lossy.proxy.fired());

        lossy.proxy.arm();
        let complete = idem_core::Complete::new(grant.lease.clone(), succeeded("x"));
        assert_eq!(lossy.store.complete(&complete).await.ok(), Some(Completed::Stored), "it was this very request");
        assert!(lossy.proxy.fired());
        let other = idem_core::Complete::new(grant.lease, End::Unknown(None));
        assert_eq!(lossy.store.complete(&other).await.ok(), Some(Completed::AlreadyStored), "F2");

        lossy.place.sql("DELETE FROM idem_records").await;
        let grant = acquired(lossy.store.claim(&claim("needle")).await.expect("claimed"));
        lossy.proxy.arm();
        assert_eq!(lossy.store.release(&Release::new(grant.lease)).await.ok(), Some(Released::Released));
        assert!(lossy.proxy.fired());
    }
}
