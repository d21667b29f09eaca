//! The database that every way uses.

mod mysql;
mod postgres;
mod sqlite;

use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use async_trait::async_trait;
use idem_core::{Store, Token};
use idem_mysql::MySqlStore;
use idem_postgres::PostgresStore;
use idem_sqlite::SqliteStore;
use tempfile::TempDir;
use url::Url;

use crate::ways::BoxError;

/// Where the database is.
#[derive(Clone, Debug)]
pub(crate) enum StoreUrl {
    Sqlite(PathBuf),
    Postgres(Url),
    MySql(Url),
}

impl FromStr for StoreUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<StoreUrl, String> {
        let server = || Url::parse(text).map_err(|error| format!("not a URL: {error}"));
        match text.split_once(':') {
            Some(("sqlite", path)) if !path.is_empty() => Ok(StoreUrl::Sqlite(path.into())),
            Some(("postgres" | "postgresql", _)) => server().map(StoreUrl::Postgres),
            Some(("mysql", _)) => server().map(StoreUrl::MySql),
            _ => Err("expected sqlite:PATH, postgres://… or mysql://…".to_owned()),
        }
    }
}

pub(crate) struct Database {
    store: Arc<dyn Store>,
    connections: Connections,
    /// Deleted with the database.
    _folder: Option<TempDir>,
}

impl Database {
    pub(crate) async fn open(url: Option<&StoreUrl>) -> Result<Database, BoxError> {
        let (url, folder) = match url {
            Some(url) => (url.clone(), None),
            None => {
                let folder = TempDir::with_prefix("idem-race")?;
                (StoreUrl::Sqlite(folder.path().join("race.db")), Some(folder))
            }
        };
        let (store, connections): (Arc<dyn Store>, Connections) = match url {
            StoreUrl::Sqlite(path) => (Arc::new(SqliteStore::open(&path).await?), Arc::new(sqlite::File::new(path))),
            StoreUrl::Postgres(url) => {
                (Arc::new(PostgresStore::open(url.as_str()).await?), Arc::new(postgres::Pool::open(&url).await?))
            }
            StoreUrl::MySql(url) => {
                (Arc::new(MySqlStore::open(url.as_str()).await?), Arc::new(mysql::Pool::open(&url)?))
            }
        };
        Ok(Database { store, connections, _folder: folder })
    }

    /// The store that idem uses.
    pub(crate) fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// Plain connections, as a service's pool gives them.
    pub(crate) fn connections(&self) -> Connections {
        Arc::clone(&self.connections)
    }
}

pub(crate) type Connections = Arc<dyn Sql>;

/// The SQL that the wrong ways need, on any of the databases: each statement on its own, in autocommit. Parameters are
/// `?`, types are those that all of them know.
#[async_trait]
pub(crate) trait Sql: Send + Sync {
    /// Runs a statement; how many rows it changed.
    async fn execute(&self, statement: &str, values: &[Value]) -> Result<u64, BoxError>;

    /// The first row, if there is any: a text and a number.
    async fn first(&self, query: &str, values: &[Value]) -> Result<Option<(String, i64)>, BoxError>;

    /// What makes this INSERT pass over a row whose primary key is there already.
    fn unless_there(&self, insert: &str) -> String {
        format!("{insert} ON CONFLICT DO NOTHING")
    }
}

/// A parameter.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    Text(String),
    Number(i64),
}

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::Text(text.to_owned())
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Value {
        Value::Number(number)
    }
}

/// A key that no earlier run used.
pub(crate) fn fresh_key() -> String {
    Token::random().as_bytes().iter().map(|byte| format!("{byte:02x}")).collect()
}
