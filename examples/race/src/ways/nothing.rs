//! No idempotency: every request is a payment.

use std::sync::Arc;

use async_trait::async_trait;

use super::{BoxError, Service, Way};
use crate::database::Database;
use crate::provider::Provider;

pub(super) struct Nothing;

#[async_trait]
impl Way for Nothing {
    fn name(&self) -> &'static str {
        "no idempotency"
    }

    async fn service(&self, _: &Database, provider: Arc<Provider>) -> Result<Arc<dyn Service>, BoxError> {
        Ok(Arc::new(Payments(provider)))
    }
}

struct Payments(Arc<Provider>);

#[async_trait]
impl Service for Payments {
    async fn pay(&self, _: &str) -> Result<(), BoxError> {
        self.0.charge().await;
        Ok(())
    }
}
