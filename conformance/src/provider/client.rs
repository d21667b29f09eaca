//! What is asked of a live server, over its own client.

#[cfg(feature = "mysql")]
mod mysql;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "redis")]
mod redis;

use std::time::Duration;

use serde::Serialize;

use super::{Endpoint, Kind};

/// No answer of a healthy server takes longer; a frozen one would keep the question for ever.
const ANSWER: Duration = Duration::from_secs(5);

/// What a live server says about itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Facts {
    /// The product, as far as the client can tell.
    pub kind: Kind,
    /// The version, in the server's words.
    pub version: String,
    /// Names this server among all of its kind: system identifier, server UUID, run id.
    pub identity: String,
    pub(super) nonce: String,
}

/// A setting, read from the live server.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Setting {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: String,
    /// The value without which an acknowledged write may be lost, for the settings that decide it.
    pub durable: Option<&'static str>,
}

impl Setting {
    /// Does it decide durability, and has it another value than it should?
    #[must_use]
    pub fn endangers(&self) -> bool {
        self.durable.is_some_and(|wanted| !self.value.eq_ignore_ascii_case(wanted))
    }
}

/// Runs `SELECT 1` or `PING` and reads the facts, over a new connection, in bounded time.
pub(super) async fn facts(kind: Kind, endpoint: &Endpoint) -> Result<Facts, String> {
    bounded(async {
        match kind {
            #[cfg(feature = "postgres")]
            Kind::Postgres => postgres::facts(endpoint.url()).await,
            #[cfg(feature = "mysql")]
            Kind::MySql | Kind::MariaDb => mysql::facts(endpoint.url()).await,
            #[cfg(feature = "redis")]
            Kind::Redis | Kind::Valkey => redis::facts(endpoint.url()).await,
            #[allow(unreachable_patterns)]
            other => Err(format!("{endpoint}: {}", missing(other))),
        }
    })
    .await
}

/// Reads the settings that decide durability, and those beside them that a report should show.
pub(super) async fn settings(kind: Kind, endpoint: &Endpoint) -> Result<Vec<Setting>, String> {
    let read = bounded::<Vec<(String, String)>>(async {
        match kind {
            #[cfg(feature = "postgres")]
            Kind::Postgres => postgres::settings(endpoint.url()).await,
            #[cfg(feature = "mysql")]
            Kind::MySql | Kind::MariaDb => mysql::settings(endpoint.url()).await,
            #[cfg(feature = "redis")]
            Kind::Redis | Kind::Valkey => redis::settings(endpoint.url()).await,
            #[allow(unreachable_patterns)]
            other => Err(format!("{endpoint}: {}", missing(other))),
        }
    });
    let wanted = kind.spec().durability;
    let settings: Vec<Setting> = read
        .await?
        .into_iter()
        .map(|(name, value)| {
            let durable = wanted.iter().find(|(other, _)| *other == name).map(|(_, value)| *value);
            Setting { name, value, durable }
        })
        .collect();
    match wanted.iter().find(|(name, _)| !settings.iter().any(|setting| setting.name == *name)) {
        None => Ok(settings),
        Some((name, _)) => Err(format!("the server does not say {name}")),
    }
}

/// Is the client for this kind compiled in?
pub(super) fn compiled(kind: Kind) -> bool {
    match kind {
        Kind::Postgres => cfg!(feature = "postgres"),
        Kind::MySql | Kind::MariaDb => cfg!(feature = "mysql"),
        Kind::Redis | Kind::Valkey => cfg!(feature = "redis"),
    }
}

/// Why a kind whose client is not compiled in gives no server.
pub(super) fn missing(kind: Kind) -> String {
    format!("no client: the conformance crate was built without its feature `{}`", kind.spec().feature)
}

async fn bounded<T>(question: impl Future<Output = Result<T, String>>) -> Result<T, String> {
    match tokio::time::timeout(ANSWER, question).await {
        Ok(answer) => answer,
        Err(_) => Err(format!("no answer within {} s", ANSWER.as_secs())),
    }
}
