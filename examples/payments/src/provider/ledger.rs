//! What the provider knows: who was charged what, under which key.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use idem_sqlite::rusqlite::{self, Connection, params};
use serde::{Deserialize, Serialize};

use crate::BoxError;

/// One charge of a card.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Charge {
    pub(crate) id: i64,
    pub(crate) amount: u32,
    pub(crate) card: String,
    /// How often it was asked for.
    pub(crate) requests: u32,
}

#[derive(Clone)]
pub(crate) struct Ledger(Arc<Mutex<Connection>>);

impl Ledger {
    pub(crate) fn open(path: &Path) -> Result<Ledger, BoxError> {
        Ledger::with(Connection::open(path)?)
    }

    pub(crate) fn in_memory() -> Result<Ledger, BoxError> {
        Ledger::with(Connection::open_in_memory()?)
    }

    fn with(connection: Connection) -> Result<Ledger, BoxError> {
        connection.execute_batch(
            "PRAGMA synchronous = FULL;
             CREATE TABLE IF NOT EXISTS charges (
               id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, amount INTEGER NOT NULL, card TEXT NOT NULL,
               requests INTEGER NOT NULL
             ) STRICT;",
        )?;
        Ok(Ledger(Arc::new(Mutex::new(connection))))
    }

    /// Charges, or finds the charge that this key made before.
    pub(crate) async fn charge(&self, key: String, amount: u32, card: String) -> Result<Charge, BoxError> {
        self.run(move |ledger| {
            ledger.query_row(
                "INSERT INTO charges (key, amount, card, requests) VALUES (?1, ?2, ?3, 1)
                 ON CONFLICT (key) DO UPDATE SET requests = requests + 1
                 RETURNING id, amount, card, requests",
                params![key, amount, card],
                charge,
            )
        })
        .await
    }

    /// Every charge, oldest first.
    pub(crate) async fn charges(&self) -> Result<Vec<Charge>, BoxError> {
        self.run(|ledger| {
            let mut select = ledger.prepare("SELECT id, amount, card, requests FROM charges ORDER BY id")?;
            select.query_map([], charge)?.collect()
        })
        .await
    }

    async fn run<T: Send + 'static>(
        &self,
        sql: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, BoxError> {
        let connection = Arc::clone(&self.0);
        let run = move || sql(&connection.lock().unwrap_or_else(PoisonError::into_inner));
        Ok(tokio::task::spawn_blocking(run).await??)
    }
}

fn charge(row: &rusqlite::Row<'_>) -> rusqlite::Result<Charge> {
    Ok(Charge { id: row.get(0)?, amount: row.get(1)?, card: row.get(2)?, requests: row.get(3)? })
}
