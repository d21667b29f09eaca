//! Orders in the records' SQLite file: written on the store's own writer thread.

use std::path::{Path, PathBuf};

use idem_core::{Completed, End, Lease};
use idem_sqlite::SqliteStore;
use idem_sqlite::rusqlite::{self, Connection, OpenFlags, params};

use super::Order;
use crate::BoxError;

#[derive(Clone)]
pub(crate) struct Table {
    store: SqliteStore,
    path: PathBuf,
}

impl Table {
    pub(super) async fn open(store: SqliteStore, path: PathBuf) -> Result<Table, BoxError> {
        store
            .transaction(|transaction| {
                transaction.execute_batch(
                    "CREATE TABLE IF NOT EXISTS payment_orders (
                       number INTEGER PRIMARY KEY, customer TEXT NOT NULL, item TEXT NOT NULL,
                       amount INTEGER NOT NULL, charge INTEGER NOT NULL
                     ) STRICT;",
                )
            })
            .await?;
        Ok(Table { store, path })
    }

    pub(super) async fn settle(&self, lease: &Lease, end: End, order: Order) -> Result<Completed, BoxError> {
        let work = move |transaction: &rusqlite::Transaction<'_>| {
            transaction.execute(
                "INSERT INTO payment_orders (customer, item, amount, charge) VALUES (?1, ?2, ?3, ?4)",
                params![order.user, order.item, order.amount, order.charge],
            )?;
            Ok::<_, rusqlite::Error>(end)
        };
        Ok(self.store.settle(lease, work).await?)
    }

    pub(super) async fn of(&self, user: &str) -> Result<Vec<Order>, BoxError> {
        let (path, user) = (self.path.clone(), user.to_owned());
        Ok(tokio::task::spawn_blocking(move || read(&path, &user)).await??)
    }

    pub(super) async fn close(&self) {
        self.store.close().await;
    }
}

/// A reader of its own: in WAL mode it disturbs no writer.
fn read(path: &Path, user: &str) -> rusqlite::Result<Vec<Order>> {
    let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    let mut select = connection
        .prepare("SELECT customer, item, amount, charge FROM payment_orders WHERE customer = ?1 ORDER BY number")?;
    let rows = select.query_map([user], |row| {
        Ok(Order { user: row.get(0)?, item: row.get(1)?, amount: row.get(2)?, charge: row.get(3)? })
    })?;
    rows.collect()
}
