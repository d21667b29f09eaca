//! Ready-made harnesses. Each is behind a feature, and all are off by default.

#[cfg(any(feature = "mysql", feature = "postgres"))]
mod apart;
mod in_memory;
#[cfg(feature = "memory")]
mod memory;
#[cfg(feature = "mysql")]
mod mysql;
#[cfg(any(feature = "mysql", feature = "postgres"))]
mod place;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "sqlite")]
mod sqlite;

#[cfg(any(feature = "mysql", feature = "postgres"))]
mod columns;
#[cfg(any(feature = "mysql", feature = "postgres"))]
mod reach;
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
mod script;

use std::sync::Arc;

#[cfg(any(feature = "mysql", feature = "postgres"))]
use apart::Apart;
pub use in_memory::{Ageable, InMemory, Sharing};
#[cfg(feature = "memory")]
pub use memory::memory;
#[cfg(feature = "mysql")]
pub use mysql::MySql;
#[cfg(any(feature = "mysql", feature = "postgres"))]
pub use place::Place;
#[cfg(feature = "postgres")]
pub use postgres::Postgres;
#[cfg(feature = "sqlite")]
pub use sqlite::Sqlite;

use crate::Harness;
#[cfg(any(feature = "mysql", feature = "postgres"))]
use crate::provider::Kind;

/// A backend that there is a harness for, whether this build has it or not.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Base {
    /// Its name. One of a server may have a release behind it, to certify on that one: `postgres18`.
    pub name: &'static str,
    /// The feature of this crate that brings it.
    pub feature: &'static str,
}

/// Every backend that there is a harness for.
pub const ALL: &[Base] = &[
    Base { name: "memory", feature: "memory" },
    Base { name: "sqlite", feature: "sqlite" },
    Base { name: "postgres", feature: "postgres" },
    Base { name: "mysql", feature: "mysql" },
    Base { name: "mariadb", feature: "mysql" },
];

/// Why there is no harness.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Missing {
    /// Nobody has written one.
    Unknown,
    /// This build was made without the feature of this name.
    Feature(&'static str),
    /// What it takes is not there, for this reason.
    Refused(String),
}

/// The harness of this backend, at this URL where it has one. Without a URL, a server is had by the first way that gives
/// one, or by those that give the release behind the name.
///
/// Starts no server: the first trial does.
///
/// # Errors
/// When there is none.
pub async fn find(name: &str, url: Option<&str>) -> Result<Arc<dyn Harness>, Missing> {
    let release = |base: &Base| name.strip_prefix(base.name).is_some_and(|rest| rest.is_empty() || is_release(rest));
    let base = ALL.iter().find(|base| release(base)).ok_or(Missing::Unknown)?;
    match base.name {
        #[cfg(feature = "memory")]
        "memory" if name == base.name => Ok(Arc::new(memory())),
        #[cfg(feature = "sqlite")]
        "sqlite" if name == base.name => Ok(Arc::new(Sqlite::new(url))),
        #[cfg(feature = "postgres")]
        "postgres" => Ok(Arc::new(Postgres::new(place(Kind::Postgres, name, url).await?))),
        #[cfg(feature = "mysql")]
        "mysql" => Ok(Arc::new(MySql::new(place(Kind::MySql, name, url).await?))),
        #[cfg(feature = "mysql")]
        "mariadb" => Ok(Arc::new(MySql::new(place(Kind::MariaDb, name, url).await?))),
        "memory" | "sqlite" if name != base.name => Err(Missing::Unknown),
        _ => {
            // Not every build has a backend with a URL.
            let _ = url;
            Err(Missing::Feature(base.feature))
        }
    }
}

/// Every harness of this build; one for each release of a server that this machine has. Starts no server.
///
/// # Errors
/// A variable of the environment that says something impossible.
#[allow(clippy::vec_init_then_push, unused_mut)] // What is pushed depends on the features.
pub async fn every() -> Result<Vec<Arc<dyn Harness>>, String> {
    let mut all: Vec<Arc<dyn Harness>> = Vec::new();
    #[cfg(feature = "memory")]
    all.push(Arc::new(memory()));
    #[cfg(feature = "sqlite")]
    all.push(Arc::new(Sqlite::new(None)));
    #[cfg(feature = "postgres")]
    for place in Place::all(Kind::Postgres).await? {
        all.push(Arc::new(Postgres::new(place)));
    }
    #[cfg(feature = "mysql")]
    for kind in [Kind::MySql, Kind::MariaDb] {
        for place in Place::all(kind).await? {
            all.push(Arc::new(MySql::new(place)));
        }
    }
    Ok(all)
}

/// Ends what harnesses have started. For the end of `main`, after the last of them is dropped.
///
/// # Errors
/// What could not be ended.
pub async fn end() -> Result<(), String> {
    #[cfg(feature = "servers")]
    return crate::provider::shutdown().await;
    #[cfg(not(feature = "servers"))]
    Ok(())
}

fn is_release(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_digit()) && text.chars().all(|c| c.is_ascii_digit() || c == '.')
}

#[cfg(any(feature = "mysql", feature = "postgres"))]
async fn place(kind: Kind, name: &str, url: Option<&str>) -> Result<Place, Missing> {
    if let Some(url) = url {
        return Ok(Place::at(kind, url));
    }
    if name == kind.name() {
        return Place::any(kind).map_err(Missing::Refused);
    }
    let places = Place::all(kind).await.map_err(Missing::Refused)?;
    let names: Vec<&str> = places.iter().map(Place::name).collect();
    let refused = Missing::Refused(format!("there is no {name} on this machine, only: {}", names.join(", ")));
    places.into_iter().find(|place| place.name() == name).ok_or(refused)
}
