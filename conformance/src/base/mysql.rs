//! `idem-mysql`, on real servers of MySQL and MariaDB.

mod hands;
mod rows;
mod script;

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::sync::Arc;

use async_trait::async_trait;
use idem_core::{ErrorKind, Identity, Record, Span, Store};
use idem_mysql::mysql_async::{self, Opts};
use idem_mysql::{Builder, MySqlStore};

use super::reach::way_in;
use super::{Apart, Place};
use crate::harness::{
    Absent, Aged, Declaration, Guard, Harness, HookError, Hooked, How, Implementation, Namespace, Obstacle, OpenError,
    Schema, Script, Scripted, Server, Setting,
};

use hands::Hands;

/// The harness of `idem-mysql`: one database for each namespace, which is how its connections are known too.
pub struct MySql {
    place: Place,
    hands: Hands,
    apart: Apart<MySql>,
}

impl MySql {
    /// Works on the server of this place.
    #[must_use]
    pub fn new(place: Place) -> MySql {
        MySql { place, hands: Hands::default(), apart: Apart::default() }
    }

    /// How a client of this namespace reaches the server.
    async fn options(&self, namespace: &Namespace, by: Option<SocketAddr>) -> Hooked<Opts> {
        let endpoint = self.place.endpoint().await?.database(namespace.as_str());
        let endpoint = by.map_or_else(|| endpoint.clone(), |address| endpoint.through(address));
        Opts::from_url(endpoint.url()).map_err(not_a_url)
    }

    async fn builder(&self, namespace: &Namespace, how: &How, by: Option<SocketAddr>) -> Hooked<Builder> {
        let builder = MySqlStore::builder(self.options(namespace, by).await?).rules(how.rules).deadline(how.deadline);
        let builder = match how.session_time_zone {
            Some(hours) => builder.on_connect(format!("SET SESSION time_zone = '{hours:+03}:00'")),
            None => builder,
        };
        let connections = how.pool.and_then(|number| NonZeroUsize::try_from(number).ok());
        Ok(connections.into_iter().fold(builder, Builder::connections))
    }

    async fn change(&self, statements: &[String]) -> Hooked<()> {
        self.hands.run(&self.place.endpoint().await?, statements).await
    }
}

#[async_trait]
impl Harness for MySql {
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
        rows::lay(&mut self.hands.connection(&self.place.endpoint().await?).await?, namespace).await?;
        let (guard, by) = way_in(how.reach)?;
        let open = || async { self.builder(namespace, how, by).await.map_err(OpenError::from) };
        let store = match how.schema {
            Schema::Current => open().await?.open().await?,
            Schema::Newer => {
                // The version has moved on since, as after a deployment that was rolled back.
                open().await?.open().await?.close().await;
                self.change(&[rows::mark_as_newer(namespace)]).await?;
                open().await?.open().await?
            }
            Schema::Missing => match open().await?.expect_tables().open().await {
                Ok(store) => store,
                Err(error) if error.kind() == ErrorKind::Schema => {
                    // It does not open without them; they can still go away under an open handle.
                    let store = open().await?.open().await?;
                    self.change(&[rows::drop_tables(namespace)]).await?;
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
            Ok(()) => self.change(&[rows::clear(namespace)]).await,
            failed => failed,
        };
        if let Err(error) = cleared {
            eprintln!("{}: the database {namespace} is left behind: {error:?}", self.place.name());
        }
    }

    async fn age(&self, namespace: &Namespace, identity: &Identity, by: Span) -> Hooked<Aged> {
        rows::age(&mut self.hands.connection(&self.place.endpoint().await?).await?, namespace, identity, by).await
    }

    async fn peek(&self, namespace: &Namespace, identity: &Identity) -> Hooked<Option<Record>> {
        rows::peek(&mut self.hands.connection(&self.place.endpoint().await?).await?, namespace, identity).await
    }

    async fn kill_connections(&self, namespace: &Namespace) -> Hooked<()> {
        rows::kill_connections(&mut self.hands.connection(&self.place.endpoint().await?).await?, namespace).await
    }

    async fn address(&self) -> Hooked<SocketAddr> {
        self.place.address().await
    }

    async fn apart(&self) -> Hooked<(Guard, Arc<dyn Harness>)> {
        let (guard, apart) = self.apart.take(&self.place, MySql::new).await?;
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
            Obstacle::OtherConstraint => self.change(&[rows::refuse_inserts(namespace)]).await,
        }
    }

    async fn transaction(&self, namespace: &Namespace, script: Script) -> Hooked<Scripted> {
        let mut observer = self.hands.connection(&self.place.endpoint().await?).await?;
        rows::lay(&mut observer, namespace).await?;
        let (_guard, by) = way_in(script.reach).map_err(HookError::failed)?;
        let builder = self.builder(namespace, &How::usual(), by).await?;
        let store = builder.open().await.map_err(HookError::failed)?;
        let options = self.options(namespace, by).await?;
        let played = script::play(&store, options, &mut observer, script).await;
        store.close().await;
        played
    }

    async fn business_rows(&self, namespace: &Namespace) -> Hooked<Vec<String>> {
        rows::business(&mut self.hands.connection(&self.place.endpoint().await?).await?, namespace).await
    }
}

/// The driver's words may show the URL, and with it a password.
fn not_a_url(_: mysql_async::UrlError) -> HookError {
    HookError::failed("this is not the URL of a MySQL or MariaDB database")
}
