//! Looks for the payment, and makes it when there is none. Between the two, everybody else looks as well.

use std::sync::Arc;

use async_trait::async_trait;

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
            .execute(
                "CREATE TABLE IF NOT EXISTS race_charges (
                   idempotency_key VARCHAR(255), charge VARCHAR(255) NOT NULL, amount BIGINT NOT NULL)",
                &[],
            )
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
        let select = "SELECT charge, amount FROM race_charges WHERE idempotency_key = ?";
        if self.connections.first(select, &[key.into()]).await?.is_some() {
            return Ok(());
        }
        let charge = self.provider.charge().await;
        let insert = "INSERT INTO race_charges (idempotency_key, charge, amount) VALUES (?, ?, ?)";
        self.connections.execute(insert, &[key.into(), charge.as_str().into(), 10_000.into()]).await?;
        Ok(())
    }
}
