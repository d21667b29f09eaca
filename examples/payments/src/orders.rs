//! Orders: in the same database as the records, so that both are committed together.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use axum::body::{Body, to_bytes};
use axum::http;
use axum::response::Response;
use idem_core::{Completed, End};
use idem_http::Attempt;
use idem_sqlite::SqliteStore;
use idem_sqlite::rusqlite::{self, Connection, OpenFlags, params};
use serde::Serialize;

use crate::BoxError;

/// One order. Nothing in its table is unique but its number: a payment that ran twice would show.
#[derive(Clone, Serialize)]
pub(crate) struct Order {
    pub(crate) user: String,
    pub(crate) item: String,
    pub(crate) amount: u32,
    pub(crate) charge: i64,
}

/// What became of an order.
pub(crate) enum Settled {
    /// It is written, and so is the record: this is what the client is told.
    Written(Response),
    /// Another attempt has taken over, and nothing was written.
    Lost,
}

#[derive(Clone)]
pub(crate) enum Orders {
    Sqlite { store: SqliteStore, path: PathBuf },
    Memory(Arc<Mutex<Vec<Order>>>),
}

impl Orders {
    pub(crate) async fn in_sqlite(store: SqliteStore, path: PathBuf) -> Result<Orders, BoxError> {
        store
            .transaction(|transaction| {
                transaction.execute_batch(
                    "CREATE TABLE IF NOT EXISTS orders (
                       number INTEGER PRIMARY KEY, user TEXT NOT NULL, item TEXT NOT NULL,
                       amount INTEGER NOT NULL, charge INTEGER NOT NULL
                     ) STRICT;",
                )
            })
            .await?;
        Ok(Orders::Sqlite { store, path })
    }

    pub(crate) fn in_memory() -> Orders {
        Orders::Memory(Arc::default())
    }

    /// Writes the order, and the response as the record of this attempt: both or neither.
    pub(crate) async fn settle(
        &self,
        attempt: &Attempt,
        order: Order,
        response: Response,
    ) -> Result<Settled, BoxError> {
        match self {
            Orders::Sqlite { store, .. } => {
                let response = buffered(response).await?;
                let end = End::Succeeded(attempt.record(&response));
                let completed = store
                    .settle(attempt.lease(), move |transaction| {
                        transaction.execute(
                            "INSERT INTO orders (user, item, amount, charge) VALUES (?1, ?2, ?3, ?4)",
                            params![order.user, order.item, order.amount, order.charge],
                        )?;
                        Ok::<_, rusqlite::Error>(end)
                    })
                    .await?;
                Ok(match completed {
                    Completed::Stored | Completed::AlreadyStored => Settled::Written(response.map(Body::from)),
                    Completed::Lost => Settled::Lost,
                })
            }
            // Memory has no transaction to join: the layer completes the record when this returns.
            Orders::Memory(orders) => {
                orders.lock().unwrap_or_else(PoisonError::into_inner).push(order);
                Ok(Settled::Written(response))
            }
        }
    }

    /// This user's orders, oldest first.
    pub(crate) async fn of(&self, user: &str) -> Result<Vec<Order>, BoxError> {
        match self {
            Orders::Sqlite { path, .. } => {
                let (path, user) = (path.clone(), user.to_owned());
                Ok(tokio::task::spawn_blocking(move || read(&path, &user)).await??)
            }
            Orders::Memory(orders) => {
                let orders = orders.lock().unwrap_or_else(PoisonError::into_inner);
                Ok(orders.iter().filter(|order| order.user == user).cloned().collect())
            }
        }
    }

    pub(crate) async fn close(&self) {
        if let Orders::Sqlite { store, .. } = self {
            store.close().await;
        }
    }
}

/// A reader of its own: in WAL mode it disturbs no writer.
fn read(path: &std::path::Path, user: &str) -> rusqlite::Result<Vec<Order>> {
    let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    let mut select =
        connection.prepare("SELECT user, item, amount, charge FROM orders WHERE user = ?1 ORDER BY number")?;
    let rows = select.query_map([user], |row| {
        Ok(Order { user: row.get(0)?, item: row.get(1)?, amount: row.get(2)?, charge: row.get(3)? })
    })?;
    rows.collect()
}

async fn buffered(response: Response) -> Result<http::Response<Vec<u8>>, BoxError> {
    let (parts, body) = response.into_parts();
    Ok(http::Response::from_parts(parts, to_bytes(body, usize::MAX).await?.to_vec()))
}
