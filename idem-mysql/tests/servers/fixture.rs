//! A database of a trial's own with a store on it, and hands that move time through the data.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use conformance::provider::{Kind, Way};
use futures::future::BoxFuture;
use idem_core::{
    Claim, ClaimBuilder, Claimed, Complete, Completed, End, Fingerprint, Grant, Identity, Key, Operation, Record,
    Response, Scope, Span, Store,
};
use idem_mysql::mysql_async::prelude::Queryable;
use idem_mysql::mysql_async::{Conn, Opts};
use idem_mysql::{Builder, MySqlStore};

use tokio::sync::Mutex;

use crate::place::Place;

/// A database, which goes with the trial, and a store on it.
#[derive(Clone)]
pub(crate) struct Fixture {
    pub(crate) kind: Kind,
    pub(crate) way: Way,
    pub(crate) url: String,
    pub(crate) store: MySqlStore,
}

static DATABASES: AtomicU32 = AtomicU32::new(0);

/// Runs a trial on a runtime of its own.
pub(crate) fn run(place: &Place, trial: fn(Fixture) -> BoxFuture<'static, ()>) {
    let number = DATABASES.fetch_add(1, Ordering::Relaxed);
    let name = format!("idem_{}_{number}", std::process::id());
    let url = place.url(&name);
    // Servers are started, and their databases made, outside the trial's runtime.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("built");
    let database = |statement: String| {
        let admin = place.url("");
        runtime.block_on(async move {
            let mut admin = Conn::from_url(admin).await.expect("connected");
            admin.query_drop(statement).await.expect("done");
            admin.disconnect().await.expect("disconnected");
        });
    };
    database(format!("CREATE DATABASE {name}"));
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        runtime.block_on(async {
            let store = MySqlStore::open(&url).await.expect("opened");
            let fixture = Fixture { kind: place.kind(), way: place.way(), url, store: store.clone() };
            trial(fixture).await;
            store.close().await;
        });
    }));
    // Whatever a trial left running ends with its runtime's connections; a failed one may hold locks on its tables.
    match outcome {
        Ok(()) => database(format!("DROP DATABASE {name}")),
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

impl Fixture {
    pub(crate) fn builder(&self) -> Builder {
        MySqlStore::builder(Opts::from_url(&self.url).expect("a URL"))
    }

    /// Another store on the same database.
    pub(crate) async fn with(&self, configure: impl FnOnce(Builder) -> Builder) -> Fixture {
        let store = configure(self.builder()).open().await.expect("opened");
        Fixture { store, ..self.clone() }
    }

    /// A connection of the test's own, as an application would have it: without what the store sets.
    pub(crate) async fn connection(&self) -> Conn {
        Conn::from_url(&self.url).await.expect("a connection of the test's own")
    }

    pub(crate) async fn run_sql(&self, statement: impl AsRef<str>) {
        let mut connection = self.connection().await;
        connection.query_drop(statement.as_ref()).await.expect("done");
        connection.disconnect().await.expect("disconnected");
    }

    pub(crate) async fn number(&self, query: impl AsRef<str>) -> i64 {
        let mut connection = self.connection().await;
        let number: Option<i64> = connection.query_first(query.as_ref()).await.expect("read");
        connection.disconnect().await.expect("disconnected");
        number.expect("a row")
    }

    /// Makes one record older.
    pub(crate) async fn age(&self, identity: &Identity, by: Span) {
        let mut connection = self.connection().await;
        let by = by.as_micros();
        let (scope, key) = (identity.scope.as_str(), identity.key.as_str());
        connection
            .exec_drop(
                "UPDATE idem_records SET created_us = created_us - ?, claimed_us = claimed_us - ?,
                        lease_until_us = lease_until_us - ?, ended_us = ended_us - ?, expires_us = expires_us - ?
                  WHERE scope = ? AND `key` = ?",
                (by, by, by, by, by, scope, key),
            )
            .await
            .expect("aged");
        assert_eq!(connection.affected_rows(), 1, "there is no record to make older");
        connection.disconnect().await.expect("disconnected");
    }

    pub(crate) async fn rows(&self) -> i64 {
        self.number("SELECT COUNT(*) FROM idem_records").await
    }

    pub(crate) async fn get(&self, identity: &Identity) -> Option<Record> {
        self.store.get(identity).await.expect("read")
    }

    pub(crate) async fn claim(&self, claim: &Claim) -> Claimed {
        self.store.claim(claim).await.expect("claimed")
    }

    /// Claims, and is the one.
    pub(crate) async fn acquire(&self, claim: &Claim) -> Grant {
        acquired(self.claim(claim).await)
    }

    pub(crate) async fn complete(&self, grant: &Grant, end: End) -> Completed {
        self.store.complete(&Complete::new(grant.lease.clone(), end)).await.expect("completed")
    }
}

pub(crate) fn identity(key: &str) -> Identity {
    Identity::new(Scope::global(), Key::new(key).expect("valid"))
}

pub(crate) fn operation() -> Operation {
    Operation::new("test").expect("valid")
}

pub(crate) fn fingerprint(body: &str) -> Fingerprint {
    Fingerprint::of(&operation()).field("body", body.as_bytes()).finish()
}

/// A claim of this key for the body "a".
pub(crate) fn claiming(key: &str) -> ClaimBuilder {
    Claim::builder(identity(key), operation(), fingerprint("a"))
}

pub(crate) fn claim(key: &str) -> Claim {
    claiming(key).build().expect("valid")
}

/// A claim of this key for another body.
pub(crate) fn other_claim(key: &str) -> Claim {
    Claim::builder(identity(key), operation(), fingerprint("other")).build().expect("valid")
}

pub(crate) fn acquired(claimed: Claimed) -> Grant {
    match claimed {
        Claimed::Acquired(grant) => grant,
        other => panic!("not acquired: {other:?}"),
    }
}

pub(crate) fn succeeded(body: &'static str) -> End {
    End::Succeeded(response(body).into())
}

pub(crate) fn response(body: &'static str) -> Response {
    Response::new(201).with_body(body.as_bytes())
}

pub(crate) fn secs(secs: u64) -> Span {
    Span::saturating_secs(secs)
}

/// Inserts a record by hand, as a client in the middle of its claim would.
pub(crate) const INSERT_BY_HAND: &str = "INSERT INTO idem_records
    (scope, `key`, operation, fingerprint, state, attempt, token, fence, created_us, claimed_us, lease_until_us, expires_us,
     history)
    VALUES ('global', 'k', 'test', REPEAT('f', 32), 1, 1, REPEAT('t', 16), 1, 1, 1, 1, 1, '[]')";

impl Fixture {
    /// The connections to this database that wait for a lock, as a query of their numbers. MySQL's `information_schema`
    /// shows statements beside them, and fails on binary parameters of others; MariaDB has no other place to look.
    fn waiters(&self) -> &'static str {
        match self.kind {
            Kind::MySql => {
                "SELECT DISTINCT p.processlist_id AS id FROM performance_schema.data_lock_waits w
                   JOIN performance_schema.threads p ON p.thread_id = w.requesting_thread_id
                  WHERE p.processlist_db = DATABASE()"
            }
            _ => {
                "SELECT p.id FROM information_schema.innodb_trx t
                   JOIN information_schema.processlist p ON p.id = t.trx_mysql_thread_id
                  WHERE t.trx_state = 'LOCK WAIT' AND p.db = DATABASE()"
            }
        }
    }

    /// How many connections to this database are in a transaction.
    pub(crate) async fn in_transaction(&self) -> i64 {
        let query = match self.kind {
            Kind::MySql => {
                "SELECT COUNT(*) FROM performance_schema.events_transactions_current t
                   JOIN performance_schema.threads p ON p.thread_id = t.thread_id
                  WHERE t.state = 'ACTIVE' AND p.processlist_db = DATABASE() AND p.processlist_id <> CONNECTION_ID()"
            }
            _ => {
                "SELECT COUNT(*) FROM information_schema.innodb_trx t
                   JOIN information_schema.processlist p ON p.id = t.trx_mysql_thread_id
                  WHERE p.db = DATABASE() AND p.id <> CONNECTION_ID()"
            }
        };
        self.look(query).await
    }

    /// Reads what a server tells of its transactions. MariaDB refreshes that only when nobody read it for a tenth of a
    /// second, so whoever asks all the time sees an old answer for ever: one trial at a time asks, with a pause before.
    async fn look(&self, query: impl AsRef<str>) -> i64 {
        static ONE_AT_A_TIME: Mutex<()> = Mutex::const_new(());
        if self.kind == Kind::MySql {
            return self.number(query).await;
        }
        let _alone = ONE_AT_A_TIME.lock().await;
        tokio::time::sleep(Duration::from_millis(120)).await;
        self.number(query).await
    }

    /// The number of the one connection that waits for a lock, once there is one.
    pub(crate) async fn waiter(&self) -> i64 {
        loop {
            self.until_waiting(1).await;
            let id = self.look(format!("SELECT COALESCE(MAX(id), 0) FROM ({}) w", self.waiters())).await;
            if id > 0 {
                return id;
            }
        }
    }

    /// How many connections wait for a lock.
    pub(crate) async fn waiting(&self) -> i64 {
        self.look(format!("SELECT COUNT(*) FROM ({}) w", self.waiters())).await
    }

    pub(crate) async fn until_waiting(&self, statements: i64) {
        while self.waiting().await != statements {
            tokio::task::yield_now().await;
        }
    }

    /// The same store, but patient: what waits for a lock waits for whoever arranged it.
    pub(crate) async fn patient(&self) -> Fixture {
        self.with(|builder| {
            builder.on_connect("SET SESSION innodb_lock_wait_timeout = 50").deadline(Duration::from_secs(60))
        })
        .await
    }
}
