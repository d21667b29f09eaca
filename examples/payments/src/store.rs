//! Where records, orders and the provider's ledger are kept.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use idem_core::{MemoryStore, Store};
use idem_sqlite::SqliteStore;

use crate::BoxError;
use crate::orders::Orders;
use crate::provider::Ledger;

#[derive(Clone, Debug)]
pub(crate) enum StoreUrl {
    Sqlite(PathBuf),
    Memory,
}

impl FromStr for StoreUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<StoreUrl, String> {
        match text.split_once(':') {
            Some(("sqlite", path)) if !path.is_empty() => Ok(StoreUrl::Sqlite(path.into())),
            Some(("memory", "")) => Ok(StoreUrl::Memory),
            _ => Err("expected sqlite:PATH or memory:".to_owned()),
        }
    }
}

impl fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoreUrl::Sqlite(path) => write!(f, "sqlite:{}", path.display()),
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
    pub(crate) async fn open(&self) -> Result<Opened, BoxError> {
        match self {
            StoreUrl::Sqlite(path) => {
                let store = SqliteStore::open(path).await?;
                let orders = Orders::in_sqlite(store.clone(), path.clone()).await?;
                // The provider is somebody else: its ledger is a file of its own.
                let mut ledger = path.clone().into_os_string();
                ledger.push(".provider");
                Ok(Opened { store: Arc::new(store), orders, ledger: Ledger::open(ledger.as_ref())? })
            }
            StoreUrl::Memory => Ok(Opened {
                store: Arc::new(MemoryStore::new()),
                orders: Orders::in_memory(),
                ledger: Ledger::in_memory()?,
            }),
        }
    }
}
