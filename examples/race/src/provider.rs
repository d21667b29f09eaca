//! The payment provider: slow as providers are, and without idempotency of its own, so that every call is a charge.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// How long a charge takes: the second article's ten milliseconds.
const LATENCY: Duration = Duration::from_millis(10);

#[derive(Default)]
pub(crate) struct Provider {
    ledger: AtomicUsize,
}

impl Provider {
    /// Charges the card, and answers with the number of the charge.
    pub(crate) async fn charge(&self) -> String {
        tokio::time::sleep(LATENCY).await;
        format!("charge {}", self.ledger.fetch_add(1, Ordering::SeqCst) + 1)
    }

    /// How often the card was charged.
    pub(crate) fn charges(&self) -> usize {
        self.ledger.load(Ordering::SeqCst)
    }
}
