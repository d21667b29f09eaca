//! The harness of a remote store.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use async_trait::async_trait;
use idem_core::machine::Rules;
use idem_core::{Identity, Record, Span, Store};

use super::client::{Client, Driver};
use super::server::Server;
use crate::Profile;
use crate::base::Ageable as _;
use crate::harness::{
    Absent, Aged, Declaration, Guard, Harness, HookError, Hooked, How, Implementation, Namespace, OpenError, Reach,
    Schema, Server as Control,
};
use crate::mutants::Landed;

/// A store behind a connection, and its server.
pub(super) struct Remote {
    name: String,
    driver: Driver,
    landed: Landed,
    server: Arc<Server>,
}

impl Remote {
    pub(super) fn new(name: &str, driver: Driver, landed: Landed) -> Remote {
        Remote { name: name.to_owned(), driver, server: Server::new(driver, landed.clone()), landed }
    }
}

#[async_trait]
impl Harness for Remote {
    fn identity(&self) -> Implementation {
        Implementation::new(self.name.as_str(), env!("CARGO_PKG_VERSION"))
    }

    fn declare(&self) -> Declaration {
        Declaration::core()
            .with(Profile::Shared)
            .with(Profile::Durable)
            .with(Profile::Networked)
            .with(Profile::Maintained)
    }

    async fn prepare(&self) -> Result<(), Absent> {
        if !self.server.is_young() {
            return Ok(()); // It was killed, and is for its trial to start.
        }
        let absent = |error: std::io::Error| Absent { reason: format!("no port: {error}"), required: true };
        self.server.listen().await.map(drop).map_err(absent)
    }

    async fn open(&self, namespace: &Namespace, how: &How) -> Result<(Guard, Arc<dyn Store>), OpenError> {
        if how.schema != Schema::Current || how.session_time_zone.is_some() || how.clock_off_by.is_some() {
            return Err(OpenError::Unsupported("a store in memory has no tables and no sessions".into()));
        }
        let (guard, address) = match how.reach {
            Reach::Direct => (Guard::none(), self.address().await?),
            Reach::Through(address) => (Guard::none(), address),
            Reach::Nowhere => {
                let silent = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(OpenError::environment)?;
                let address = silent.local_addr().map_err(OpenError::environment)?;
                (Guard::of(silent), address)
            }
        };
        // The records are there from now on, with these rules.
        self.server.records(namespace, how.rules);
        let mut client = Client::new(Arc::clone(&self.server), address, self.driver, self.landed.clone());
        client.namespace = namespace.clone();
        client.rules = how.rules;
        client.deadline = how.deadline;
        Ok((guard, Arc::new(client)))
    }

    async fn clear(&self, namespace: &Namespace) {
        self.server.clear(namespace);
    }

    async fn age(&self, namespace: &Namespace, identity: &Identity, by: Span) -> Hooked<Aged> {
        let aged = self.server.records(namespace, Rules::default()).age(identity, by);
        Ok(if aged { Aged::Older } else { Aged::NoRecord })
    }

    async fn peek(&self, namespace: &Namespace, identity: &Identity) -> Hooked<Option<Record>> {
        Ok(self.server.records(namespace, Rules::default()).peek(identity))
    }

    async fn kill_connections(&self, namespace: &Namespace) -> Hooked<()> {
        self.server.kill_connections(namespace);
        Ok(())
    }

    async fn address(&self) -> Hooked<SocketAddr> {
        self.server.address().ok_or_else(|| HookError::failed("the server is down"))
    }

    async fn apart(&self) -> Hooked<(Guard, Arc<dyn Harness>)> {
        Ok((Guard::none(), Arc::new(Remote::new(&self.name, self.driver, self.landed.clone()))))
    }

    fn server(&self) -> Option<&dyn Control> {
        Some(&self.server)
    }
}
