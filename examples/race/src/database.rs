//! The database that every way uses.

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use idem_core::Token;
use idem_sqlite::SqliteStore;
use idem_sqlite::rusqlite::{self, Connection};
use tempfile::TempDir;

use crate::ways::BoxError;

/// Where the database is.
#[derive(Clone, Debug)]
pub(crate) struct StoreUrl(PathBuf);

impl FromStr for StoreUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<StoreUrl, String> {
        match text.strip_prefix("sqlite:") {
            Some(path) if !path.is_empty() => Ok(StoreUrl(path.into())),
            _ => Err("expected sqlite:PATH".to_owned()),
        }
    }
}

pub(crate) struct Database {
    path: PathBuf,
    store: SqliteStore,
    /// Deleted with the last handle.
    _folder: Option<TempDir>,
}

impl Database {
    pub(crate) async fn open(url: Option<&StoreUrl>) -> Result<Database, BoxError> {
        let (path, folder) = match url {
            Some(StoreUrl(path)) => (path.clone(), None),
            None => {
                let folder = TempDir::with_prefix("idem-race")?;
                (folder.path().join("race.db"), Some(folder))
            }
        };
        let store = SqliteStore::open(&path).await?;
        Ok(Database { path, store, _folder: folder })
    }

    /// The store that idem uses.
    pub(crate) fn store(&self) -> &SqliteStore {
        &self.store
    }

    /// A way to open plain connections, as a service's pool would.
    pub(crate) fn connections(&self) -> Connections {
        Connections(self.path.clone())
    }
}

/// Opens a connection for each statement: what a pool gives, without the bookkeeping.
#[derive(Clone)]
pub(crate) struct Connections(PathBuf);

impl Connections {
    /// Runs some SQL on a connection of its own, away from the runtime's threads.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        sql: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, BoxError> {
        let path = self.0.clone();
        Ok(tokio::task::spawn_blocking(move || sql(&connect(&path)?)).await??)
    }
}

fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let connection = Connection::open(path)?;
    connection.busy_timeout(Duration::from_secs(10))?;
    Ok(connection)
}

/// A key that no earlier run used.
pub(crate) fn fresh_key() -> String {
    Token::random().as_bytes().iter().map(|byte| format!("{byte:02x}")).collect()
}
