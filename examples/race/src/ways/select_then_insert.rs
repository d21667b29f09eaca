//! Looks for the payment, and makes it when there is none. Between the two, everybody else looks as well.

use std::sync::Arc;

use async_trait::async_trait;
use idem_sqlite::rusqlite::OptionalExtension;

use super::{BoxError, Service, Way};
use crate::database::{Connections, Database};
use crate::provider::Provider;

pub(super) struct SelectThenInsert;

#[async_trait]
impl Way for SelectThenInsert {
    fn name(&self) -> &'static str {
        "SELECT, then INSERT"
    }

    async fn service(&self, database: &Database, provider: Arc<Provider>) -> Result<Arc<dyn Service>, BoxError> {
        let connections = database.connections();
        connections
            .run(|sql| {
                sql.execute_batch(
                    "CREATE TABLE IF NOT EXISTS race_charges (idempotency_key TEXT, charge TEXT NOT NULL)",
                )
            })
            .await?;
        Ok(Arc::new(Payments { connections, provider }))
    }
}

struct Payments {
    connections: Connections,
    provider: Arc<Provider>,
}

#[async_trait]
impl Service for Payments {
    async fn pay(&self, key: &str) -> Result<(), BoxError> {
        let wanted = key.to_owned();
        let existing: Option<String> = self
            .connections
            .run(move |sql| {
                sql.query_row("SELECT charge FROM race_charges WHERE idempotency_key = ?1", [wanted], |row| row.get(0))
                    .optional()
            })
            .await?;
        if existing.is_some() {
            return Ok(());
        }
        let (key, charge) = (key.to_owned(), self.provider.charge().await);
        self.connections
            .run(move |sql| {
                sql.execute("INSERT INTO race_charges (idempotency_key, charge) VALUES (?1, ?2)", [key, charge])
            })
            .await?;
        Ok(())
    }
}
