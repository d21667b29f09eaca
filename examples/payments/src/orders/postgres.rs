//! Orders in the records' PostgreSQL database: on a pool of the application's own.

use idem_core::{Complete, Completed, End, Lease};
use idem_postgres::sqlx::{self, Executor, PgPool, Row};
use idem_postgres::{PostgresStore, refuse_leaked};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use url::Url;

use super::Order;
use crate::BoxError;

#[derive(Clone)]
pub(crate) struct Table {
    store: PostgresStore,
    pool: PgPool,
}

impl Table {
    pub(super) async fn open(store: PostgresStore, url: &Url) -> Result<Table, BoxError> {
        let options: PgConnectOptions = url.as_str().parse()?;
        // A client that leaves may drop a `begin` half way.
        let pool = refuse_leaked(PgPoolOptions::new()).connect_with(options).await?;
        // Two processes that start at once would both see no table, and one of them would fail.
        let mut transaction = pool.begin().await?;
        transaction.execute("SELECT pg_advisory_xact_lock(hashtext('payment_orders'))").await?;
        transaction
            .execute(
                "CREATE TABLE IF NOT EXISTS payment_orders (
                   number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, customer text NOT NULL, item text NOT NULL,
                   amount bigint NOT NULL, charge bigint NOT NULL)",
            )
            .await?;
        transaction.commit().await?;
        Ok(Table { store, pool })
    }

    pub(super) async fn settle(&self, lease: &Lease, end: End, order: Order) -> Result<Completed, BoxError> {
        let mut transaction = self.pool.begin().await?;
        sqlx::query("INSERT INTO payment_orders (customer, item, amount, charge) VALUES ($1, $2, $3, $4)")
            .bind(order.user)
            .bind(order.item)
            .bind(i64::from(order.amount))
            .bind(order.charge)
            .execute(&mut *transaction)
            .await?;
        Ok(self.store.settle(transaction, &Complete::new(lease.clone(), end)).await?)
    }

    pub(super) async fn of(&self, user: &str) -> Result<Vec<Order>, BoxError> {
        let select = "SELECT customer, item, amount, charge FROM payment_orders WHERE customer = $1 ORDER BY number";
        let rows = sqlx::query(select).bind(user).fetch_all(&self.pool).await?;
        rows.iter()
            .map(|row| {
                let amount = row.try_get::<i64, _>(2)?.try_into()?;
                Ok(Order { user: row.try_get(0)?, item: row.try_get(1)?, amount, charge: row.try_get(3)? })
            })
            .collect()
    }

    pub(super) async fn close(&self) {
        self.pool.close().await;
        self.store.close().await;
    }
}
