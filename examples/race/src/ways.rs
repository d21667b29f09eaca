//! The ways to make a payment "idempotent". Each is a real implementation of itself.

mod nothing;
mod select_then_insert;
mod response_cache;
mod first_article;
mod with_idem;

use std::error::Error;
use std::sync::Arc;

use async_trait::async_trait;

use crate::database::Database;
use crate::provider::Provider;

pub(crate) type BoxError = Box<dyn Error + Send + Sync>;

/// What the key has been through before the requests come.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Start {
    /// Nothing.
    New,
    /// An owner claimed it and crashed; its lease is over.
    Lapsed,
    /// An owner ran, and its call to the provider failed.
    Failed,
}

/// One way.
#[async_trait]
pub(crate) trait Way {
    fn name(&self) -> &'static str;

    /// The name for its further rows.
    fn short(&self) -> &'static str {
        self.name()
    }

    /// What it is tried with. A way that keeps no state of a key has nothing to prepare.
    fn starts(&self) -> &'static [Start] {
        &[Start::New]
    }

    fn is_idem(&self) -> bool {
        false
    }

    /// A service that works this way.
    async fn service(&self, database: &Database, provider: Arc<Provider>) -> Result<Arc<dyn Service>, BoxError>;
}

/// A service that takes payments.
#[async_trait]
pub(crate) trait Service: Send + Sync {
    /// Brings the key to where the requests find it.
    async fn prepare(&self, _key: &str, _start: Start) -> Result<(), BoxError> {
        Ok(())
    }

    /// One request. A refusal (in flight) is an answer; an error is a defect of the way.
    async fn pay(&self, key: &str) -> Result<(), BoxError>;
}

/// All of them, the wrong ones first.
pub(crate) fn all() -> Vec<Box<dyn Way>> {
    vec![
        Box::new(nothing::Nothing),
        Box::new(select_then_insert::SelectThenInsert),
        Box::new(response_cache::ResponseCache),
        Box::new(first_article::FirstArticle),
        Box::new(with_idem::WithIdem),
    ]
}
