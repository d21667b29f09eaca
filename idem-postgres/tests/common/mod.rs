//! What the tests share: a real server, a store in a schema of its own, and hands that move time through the data.

#![allow(clippy::expect_used)] // A test fails by panicking.
#![allow(dead_code)] // Each test binary uses its own part of it.

pub(crate) mod counters;
pub(crate) mod proxy;

use std::sync::atomic::{AtomicU32, Ordering};

use conformance::provider::{Kind, Server, wanted};
use idem_core::{
    Claim, ClaimBuilder, Claimed, Complete, Completed, End, Fingerprint, Grant, Identity, Key, Operation, Record,
    Response, Scope, Span, Store,
};
use idem_postgres::sqlx::postgres::{PgConnectOptions, PgConnection, PgPool, PgPoolOptions};
use idem_postgres::sqlx::{self, AssertSqlSafe, Connection, Executor, Row};
use idem_postgres::{Builder, PostgresStore};
use tokio::sync::OnceCell;

static SHARED: OnceCell<Option<Server>> = OnceCell::const_new();

/// A server of the test's own, or none, said why; an error when one is required.
pub(crate) async fn own_server() -> Option<Server> {
    wanted(Kind::Postgres).await
}

/// The server that the tests of one program share.
pub(crate) async fn server() -> Option<Server> {
    SHARED.get_or_init(own_server).await.clone()
}

/// A schema of its own on a server, and a store in it.
pub(crate) struct Fixture {
    pub(crate) store: PostgresStore,
    pub(crate) place: Place,
}

/// A schema of its own on a server.
#[derive(Clone)]
pub(crate) struct Place {
    pub(crate) server: Server,
    pub(crate) schema: String,
    /// One connection of the test's own.
    hands: PgPool,
}

fn options(server: &Server, schema: &str) -> PgConnectOptions {
    let options: PgConnectOptions = server.endpoint().url().parse().expect("a URL");
    options.application_name(schema).options([("search_path", schema)])
}

impl Place {
    pub(crate) async fn new() -> Option<Place> {
        Some(Place::on(server().await?).await)
    }

    pub(crate) async fn on(server: Server) -> Place {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let schema = format!("t{}_{number}", std::process::id());
        let hands = PgPoolOptions::new().max_connections(1).connect_lazy_with(options(&server, &schema));
        let place = Place { server, schema: schema.clone(), hands };
        place.sql(&format!("DROP SCHEMA IF EXISTS {schema} CASCADE; CREATE SCHEMA {schema}")).await;
        place
    }

    /// How a connection to it is made, with its schema first on the path.
    pub(crate) fn options(&self) -> PgConnectOptions {
        options(&self.server, &self.schema)
    }

    /// Where the server listens.
    pub(crate) fn address(&self) -> std::net::SocketAddr {
        let endpoint = self.server.endpoint();
        let host = endpoint.host().expect("a host").parse().expect("an address");
        std::net::SocketAddr::new(host, endpoint.port().unwrap_or(5432))
    }

    /// A connection of the test's own.
    pub(crate) async fn connection(&self) -> PgConnection {
        PgConnection::connect_with(&self.options()).await.expect("connected")
    }

    /// A pool as an application has one.
    pub(crate) fn pool(&self, connections: u32) -> PgPool {
        self.pool_with(connections, "read committed")
    }

    pub(crate) fn pool_with(&self, connections: u32, isolation: &str) -> PgPool {
        let options = self.options().options([
            ("default_transaction_isolation", isolation),
            ("lock_timeout", "2s"),
            ("idle_in_transaction_session_timeout", "60s"),
        ]);
        let pool = PgPoolOptions::new().max_connections(connections).acquire_timeout(secs(60).as_duration());
        idem_postgres::refuse_leaked(pool).connect_lazy_with(options)
    }

    pub(crate) fn builder(&self) -> Builder {
        PostgresStore::builder(self.options()).schema(&self.schema)
    }

    /// Runs statements over a connection of the test's own.
    pub(crate) async fn sql(&self, statements: &str) {
        self.hands.execute(sqlx::raw_sql(AssertSqlSafe(statements))).await.expect(statements);
    }

    /// Runs a statement that answers one number.
    pub(crate) async fn number(&self, statement: &str) -> i64 {
        self.hands.fetch_one(AssertSqlSafe(statement)).await.expect(statement).get(0)
    }

    /// Makes one record older.
    pub(crate) async fn age(&self, identity: &Identity, by: Span) {
        let changed = sqlx::query(
            "UPDATE idem_records SET created_us = created_us - $3, claimed_us = claimed_us - $3,
                    lease_until_us = lease_until_us - $3, ended_us = ended_us - $3, expires_us = expires_us - $3
              WHERE scope = $1 AND key = $2",
        )
        .bind(identity.scope.as_str())
        .bind(identity.key.as_str())
        .bind(i64::try_from(by.as_micros()).expect("fits"))
        .execute(&self.hands)
        .await
        .expect("aged")
        .rows_affected();
        assert_eq!(changed, 1, "there is no record to make older");
    }
}

impl Fixture {
    pub(crate) async fn new() -> Option<Fixture> {
        Fixture::with(|builder| builder).await
    }

    pub(crate) async fn with(configure: impl FnOnce(Builder) -> Builder) -> Option<Fixture> {
        let place = Place::new().await?;
        let store = configure(place.builder()).open().await.expect("opened");
        Some(Fixture { store, place })
    }

    pub(crate) async fn sql(&self, statements: &str) {
        self.place.sql(statements).await;
    }

    pub(crate) async fn age(&self, identity: &Identity, by: Span) {
        self.place.age(identity, by).await;
    }

    pub(crate) async fn rows(&self) -> i64 {
        self.place.number("SELECT count(*) FROM idem_records").await
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
