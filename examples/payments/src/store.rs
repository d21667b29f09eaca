//! Where records, orders and the provider's ledger are kept.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use idem_core::{MemoryStore, Store};
use idem_mysql::MySqlStore;
use idem_postgres::PostgresStore;
use idem_sqlite::SqliteStore;
use url::Url;

use crate::BoxError;
use crate::orders::Orders;
use crate::provider::Ledger;

#[derive(Clone, Debug)]
pub(crate) enum StoreUrl {
    Sqlite(PathBuf),
    Postgres(Url),
    MySql(Url),
    Memory,
}

impl FromStr for StoreUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<StoreUrl, String> {
        let server = || Url::parse(text).map_err(|error| format!("not a URL: {error}"));
        match text.split_once(':') {
            Some(("sqlite", path)) if !path.is_empty() => Ok(StoreUrl::Sqlite(path.into())),
            Some(("postgres" | "postgresql", _)) => server().map(StoreUrl::Postgres),
            Some(("mysql", _)) => server().map(StoreUrl::MySql),
            Some(("memory", "")) => Ok(StoreUrl::Memory),
            _ => Err("expected sqlite:PATH, postgres://…, mysql://… or memory:".to_owned()),
        }
    }
}

impl fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoreUrl::Sqlite(path) => write!(f, "sqlite:{}", path.display()),
            // Without its user and query: either may hold the password.
            StoreUrl::Postgres(url) | StoreUrl::MySql(url) => {
                write!(f, "{}://{}", url.scheme(), url.host_str().unwrap_or_default())?;
                url.port().map_or(Ok(()), |port| write!(f, ":{port}"))?;
                f.write_str(url.path())
            }
            StoreUrl::Memory => f.write_str("memory:"),
        }
    }
}

pub(crate) struct Opened {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) orders: Orders,
    pub(crate) ledger: Ledger,
}

impl StoreUrl {
    /// Opens it. The provider is somebody else: its ledger is a file of its own, whatever the store is.
    pub(crate) async fn open(&self, ledger: Option<&Path>) -> Result<Opened, BoxError> {
        let ledger = match (ledger, self) {
            (Some(path), _) => Ledger::open(path)?,
            (None, StoreUrl::Sqlite(path)) => {
                let mut beside = path.clone().into_os_string();
                beside.push(".provider");
                Ledger::open(beside.as_ref())?
            }
            (None, StoreUrl::Postgres(_) | StoreUrl::MySql(_)) => Ledger::open("payments.provider".as_ref())?,
            (None, StoreUrl::Memory) => Ledger::in_memory()?,
        };
        let (store, orders): (Arc<dyn Store>, Orders) = match self {
            StoreUrl::Sqlite(path) => {
                let store = SqliteStore::open(path).await?;
                (Arc::new(store.clone()), Orders::in_sqlite(store, path.clone()).await?)
            }
            StoreUrl::Postgres(url) => {
                let store = PostgresStore::open(url.as_str()).await?;
                (Arc::new(store.clone()), Orders::in_postgres(store, url).await?)
            }
            StoreUrl::MySql(url) => {
                let store = MySqlStore::open(url.as_str()).await?;
                (Arc::new(store.clone()), Orders::in_mysql(store, url).await?)
            }
            StoreUrl::Memory => (Arc::new(MemoryStore::new()), Orders::in_memory()),
        };
        Ok(Opened { store, orders, ledger })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_shown_without_its_password() {
        let shown = |text: &str| text.parse::<StoreUrl>().expect("a store").to_string();
        assert_eq!(shown("postgres://app:secret@db:5433/shop?password=secret"), "postgres://db:5433/shop");
        assert_eq!(shown("mysql://app:secret@db/shop"), "mysql://db/shop");
        assert_eq!(shown("sqlite:a.db"), "sqlite:a.db");
    }

    #[test]
    fn what_is_no_store_is_refused_with_what_is() {
        for text in ["redis://x", "sqlite:", "shop.db"] {
            assert!(text.parse::<StoreUrl>().expect_err("no store").contains("postgres://"), "{text}");
        }
    }
}
