//! Orders in the records' MySQL or MariaDB database: on a pool of the application's own.

use idem_core::{Complete, Completed, End, Lease};
use idem_mysql::MySqlStore;
use idem_mysql::mysql_async::prelude::Queryable;
use idem_mysql::mysql_async::{Pool, TxOpts};
use url::Url;

use super::Order;
use crate::BoxError;

#[derive(Clone)]
pub(crate) struct Table {
    store: MySqlStore,
    pool: Pool,
}

impl Table {
    pub(super) async fn open(store: MySqlStore, url: &Url) -> Result<Table, BoxError> {
        let pool = Pool::from_url(url.as_str())?;
        let mut connection = pool.get_conn().await?;
        connection
            .query_drop(
                "CREATE TABLE IF NOT EXISTS payment_orders (
                   number BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, customer VARCHAR(255) NOT NULL,
                   item TEXT NOT NULL, amount BIGINT NOT NULL, charge BIGINT NOT NULL
                 ) ENGINE = InnoDB, CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
            )
            .await?;
        Ok(Table { store, pool })
    }

    pub(super) async fn settle(&self, lease: &Lease, end: End, order: Order) -> Result<Completed, BoxError> {
        let mut transaction = self.pool.start_transaction(TxOpts::new()).await?;
        transaction
            .exec_drop(
                "INSERT INTO payment_orders (customer, item, amount, charge) VALUES (?, ?, ?, ?)",
                (order.user, order.item, order.amount, order.charge),
            )
            .await?;
        Ok(self.store.settle(transaction, &Complete::new(lease.clone(), end)).await?)
    }

    pub(super) async fn of(&self, user: &str) -> Result<Vec<Order>, BoxError> {
        let select = "SELECT customer, item, amount, charge FROM payment_orders WHERE customer = ? ORDER BY number";
        let mut connection = self.pool.get_conn().await?;
        let order = |(user, item, amount, charge)| Order { user, item, amount, charge };
        Ok(connection.exec_map(select, (user,), order).await?)
    }

    pub(super) async fn close(&self) {
        if let Err(error) = self.pool.clone().disconnect().await {
            tracing::warn!(%error, "the pool of the orders did not end");
        }
        self.store.close().await;
    }
}
