//! Orders: in the same database as the records, so that both are committed together.

mod memory;
mod mysql;
mod postgres;
mod sqlite;

use std::path::PathBuf;

use axum::body::{Body, to_bytes};
use axum::http;
use axum::response::Response;
use idem_core::{Completed, End};
use idem_http::Attempt;
use idem_mysql::MySqlStore;
use idem_postgres::PostgresStore;
use idem_sqlite::SqliteStore;
use serde::Serialize;
use url::Url;

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
    Sqlite(sqlite::Table),
    Postgres(postgres::Table),
    MySql(mysql::Table),
    Memory(memory::Table),
}

impl Orders {
    pub(crate) async fn in_sqlite(store: SqliteStore, path: PathBuf) -> Result<Orders, BoxError> {
        Ok(Orders::Sqlite(sqlite::Table::open(store, path).await?))
    }

    pub(crate) async fn in_postgres(store: PostgresStore, url: &Url) -> Result<Orders, BoxError> {
        Ok(Orders::Postgres(postgres::Table::open(store, url).await?))
    }

    pub(crate) async fn in_mysql(store: MySqlStore, url: &Url) -> Result<Orders, BoxError> {
        Ok(Orders::MySql(mysql::Table::open(store, url).await?))
    }

    pub(crate) fn in_memory() -> Orders {
        Orders::Memory(memory::Table::default())
    }

    /// Writes the order, and the response as the record of this attempt: both or neither.
    pub(crate) async fn settle(
        &self,
        attempt: &Attempt,
        order: Order,
        response: Response,
    ) -> Result<Settled, BoxError> {
        // Memory has no transaction to join: the layer completes the record when this returns.
        if let Orders::Memory(table) = self {
            table.insert(order);
            return Ok(Settled::Written(response));
        }
        let response = buffered(response).await?;
        let (lease, end) = (attempt.lease(), End::Succeeded(attempt.record(&response)));
        let completed = match self {
            Orders::Sqlite(table) => table.settle(lease, end, order).await?,
            Orders::Postgres(table) => table.settle(lease, end, order).await?,
            Orders::MySql(table) => table.settle(lease, end, order).await?,
            Orders::Memory(_) => return Err("settled above".into()),
        };
        Ok(match completed {
            Completed::Stored | Completed::AlreadyStored => Settled::Written(response.map(Body::from)),
            Completed::Lost => Settled::Lost,
        })
    }

    /// This user's orders, oldest first.
    pub(crate) async fn of(&self, user: &str) -> Result<Vec<Order>, BoxError> {
        match self {
            Orders::Sqlite(table) => table.of(user).await,
            Orders::Postgres(table) => table.of(user).await,
            Orders::MySql(table) => table.of(user).await,
            Orders::Memory(table) => Ok(table.of(user)),
        }
    }

    pub(crate) async fn close(&self) {
        match self {
            Orders::Sqlite(table) => table.close().await,
            Orders::Postgres(table) => table.close().await,
            Orders::MySql(table) => table.close().await,
            Orders::Memory(_) => {}
        }
    }
}

async fn buffered(response: Response) -> Result<http::Response<Vec<u8>>, BoxError> {
    let (parts, body) = response.into_parts();
    Ok(http::Response::from_parts(parts, to_bytes(body, usize::MAX).await?.to_vec()))
}
