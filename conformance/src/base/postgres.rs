//! `idem-postgres`, on real servers.

mod hands;
mod rows;
mod script;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use idem_core::{ErrorKind, Identity, Record, Span, Store};
use idem_postgres::sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use idem_postgres::{Builder, PostgresStore, sqlx};

use super::reach::way_in;
use super::{Apart, Place};
use crate::harness::{
    Absent, Aged, Declaration, Guard, Harness, HookError, Hooked, How, Implementation, Isolation, Namespace, Obstacle,
    OpenError, Schema, Script, Scripted, Server, Setting,
};

use hands::Hands;

/// The harness of `idem-postgres`: one schema for each namespace, and the namespace's name on every connection.
pub struct Postgres {
    place: Place,
    hands: Hands,
    apart: Apart<Postgres>,
}

impl Postgres {
    /// Works on the server of this place.
    #[must_use]
    pub fn new(place: Place) -> Postgres {
        Postgres { place, hands: Hands::default(), apart: Apart::default() }
    }

    /// How a client of this namespace reaches the server.
    async fn options(&self, namespace: &Namespace, by: Option<SocketAddr>) -> Hooked<PgConnectOptions> {
        let endpoint = self.place.endpoint().await?;
        let endpoint = by.map_or_else(|| endpoint.clone(), |address| endpoint.through(address));
        let options: PgConnectOptions = endpoint.url().parse().map_err(not_a_url)?;
        Ok(options.application_name(namespace.as_str()))
    }

    async fn builder(&self, namespace: &Namespace, how: &How, by: Option<SocketAddr>) -> Hooked<Builder> {
        let mut options = self.options(namespace, by).await?;
        if let Some(hours) = how.session_time_zone {
            // In POSIX's words, where the sign says how far UTC is, and not how far the zone is.
            options = options.options([("TimeZone", format!("<{hours:+03}>{:+}", -i16::from(hours)))]);
        }
        let builder = PostgresStore::builder(options).schema(namespace.as_str()).rules(how.rules);
        let builder = builder.deadline(how.deadline);
        Ok(how.pool.into_iter().fold(builder, Builder::connections))
    }

    async fn change(&self, namespace: &Namespace, what: fn(&Namespace) -> String) -> Hooked<()> {
        self.hands.run(&self.place.endpoint().await?, what(namespace)).await
    }
}

#[async_trait]
impl Harness for Postgres {
    fn identity(&self) -> Implementation {
        self.place.implementation()
    }

    fn declare(&self) -> Declaration {
        Place::declaration()
    }

    fn absent(&self) -> Option<Absent> {
        self.place.absent()
    }

    async fn prepare(&self) -> Result<(), Absent> {
        self.place.server().await.map(drop)
    }

    async fn open(&self, namespace: &Namespace, how: &How) -> Result<(Guard, Arc<dyn Store>), OpenError> {
        if how.clock_off_by.is_some() {
            return Err(OpenError::Unsupported("the clock of this process cannot be moved".into()));
        }
        self.change(namespace, rows::lay).await?;
        let (guard, by) = way_in(how.reach)?;
        let open = || async { self.builder(namespace, how, by).await.map_err(OpenError::from) };
        let store = match how.schema {
            Schema::Current => open().await?.open().await?,
            Schema::Newer => {
                // The version has moved on since, as after a deployment that was rolled back.
                open().await?.open().await?.close().await;
                self.change(namespace, rows::mark_as_newer).await?;
                open().await?.open().await?
            }
            Schema::Missing => match open().await?.expect_tables().open().await {
                Ok(store) => store,
                Err(error) if error.kind() == ErrorKind::Schema => {
                    // It does not open without them; they can still go away under an open handle.
                    let store = open().await?.open().await?;
                    self.change(namespace, rows::drop_tables).await?;
                    store
                }
                Err(error) => return Err(error.into()),
            },
            _ => return Err(OpenError::Unsupported("there is no older version of the tables".into())),
        };
        Ok((guard, Arc::new(store)))
    }

    async fn clear(&self, namespace: &Namespace) {
        // A transaction that a trial has left open would be waited for.
        let cleared = match self.kill_connections(namespace).await {
            Ok(()) => self.change(namespace, rows::clear).await,
            failed => failed,
        };
        if let Err(error) = cleared {
            eprintln!("{}: the schema {namespace} is left behind: {error:?}", self.place.name());
        }
    }

    async fn age(&self, namespace: &Namespace, identity: &Identity, by: Span) -> Hooked<Aged> {
        let pool = self.hands.pool(&self.place.endpoint().await?)?;
        rows::age(&pool, namespace, identity, by).await
    }

    async fn peek(&self, namespace: &Namespace, identity: &Identity) -> Hooked<Option<Record>> {
        let pool = self.hands.pool(&self.place.endpoint().await?)?;
        rows::peek(&pool, namespace, identity).await
    }

    async fn kill_connections(&self, namespace: &Namespace) -> Hooked<()> {
        let pool = self.hands.pool(&self.place.endpoint().await?)?;
        rows::kill_connections(&pool, namespace).await
    }

    async fn address(&self) -> Hooked<SocketAddr> {
        self.place.address().await
    }

    async fn apart(&self) -> Hooked<(Guard, Arc<dyn Harness>)> {
        let (guard, apart) = self.apart.take(&self.place, Postgres::new).await?;
        Ok((guard, apart))
    }

    fn server(&self) -> Option<&dyn Server> {
        self.place.control()
    }

    async fn durability(&self) -> Hooked<Vec<Setting>> {
        self.place.settings().await
    }

    async fn obstruct(&self, namespace: &Namespace, obstacle: Obstacle) -> Hooked<()> {
        match obstacle {
            Obstacle::OtherConstraint => self.change(namespace, rows::refuse_inserts).await,
        }
    }

    async fn transaction(&self, namespace: &Namespace, script: Script) -> Hooked<Scripted> {
        self.change(namespace, rows::lay).await?;
        let (_guard, by) = way_in(script.reach).map_err(HookError::failed)?;
        let builder = self.builder(namespace, &How::usual(), by).await?;
        let store = builder.open().await.map_err(HookError::failed)?;
        let isolation = match script.isolation {
            None | Some(Isolation::ReadCommitted) => "read committed",
            Some(Isolation::RepeatableRead) => "repeatable read",
            Some(Isolation::Serializable) => "serializable",
        };
        // As an application has it that knows what `once` needs.
        let options = self.options(namespace, by).await?.options([
            ("search_path", namespace.as_str()),
            ("default_transaction_isolation", isolation),
            ("lock_timeout", "10s"),
            ("idle_in_transaction_session_timeout", "60s"),
        ]);
        let pool = PgPoolOptions::new().max_connections(1).acquire_timeout(Duration::from_secs(30));
        let pool = pool.connect_lazy_with(options);
        let played = script::play(&store, &pool, script).await;
        pool.close().await;
        store.close().await;
        played
    }

    async fn business_rows(&self, namespace: &Namespace) -> Hooked<Vec<String>> {
        let pool = self.hands.pool(&self.place.endpoint().await?)?;
        rows::business(&pool, namespace).await
    }
}

/// The driver's words may show the URL, and with it a password.
fn not_a_url(_: sqlx::Error) -> HookError {
    HookError::failed("this is not the URL of a PostgreSQL database")
}
