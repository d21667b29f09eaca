//! The provider as this service sees it.

use std::time::Duration;

use axum::http::StatusCode;
use serde::{Deserialize, Serialize};

use super::ledger::Charge;
use crate::BoxError;

/// How long a connection may take: whoever is not reached in this time has heard nothing.
const CONNECT: Duration = Duration::from_secs(2);

/// What is asked of the provider.
#[derive(Serialize, Deserialize)]
pub(super) struct Order {
    pub(super) amount: u32,
    pub(super) card: String,
}

/// Why there is no charge, as far as this side can tell.
pub(crate) enum Refusal {
    /// The card was declined, for good.
    Declined,
    /// The provider never heard of it.
    NotReached,
    /// It may have been charged.
    NoAnswer,
}

#[derive(Clone)]
pub(crate) struct Provider {
    http: reqwest::Client,
    charges: String,
}

impl Provider {
    /// The provider at this address. What it does not answer with this patience is not known.
    pub(crate) fn new(address: &str, patience: Duration) -> Result<Provider, BoxError> {
        let http = reqwest::Client::builder().connect_timeout(CONNECT).timeout(patience).build()?;
        Ok(Provider { http, charges: format!("{address}/charges") })
    }

    /// Charges the card, or finds the charge that this key made before.
    ///
    /// Dropped, it may have been charged.
    pub(crate) async fn charge(&self, key: &str, amount: u32, card: &str) -> Result<Charge, Refusal> {
        let request = self.http.post(&self.charges).header("idempotency-key", key);
        let answer = request.json(&Order { amount, card: card.to_owned() }).send().await;
        match answer {
            Ok(answer) if answer.status() == StatusCode::OK => answer.json().await.map_err(|_| Refusal::NoAnswer),
            Ok(answer) if answer.status() == StatusCode::PAYMENT_REQUIRED => Err(Refusal::Declined),
            Err(error) if error.is_connect() => Err(Refusal::NotReached),
            Ok(_) | Err(_) => Err(Refusal::NoAnswer),
        }
    }

    pub(crate) async fn charges(&self) -> Result<Vec<Charge>, BoxError> {
        Ok(self.http.get(&self.charges).send().await?.error_for_status()?.json().await?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_provider_that_does_not_answer_may_have_charged() {
        let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = format!("http://{}", silent.local_addr().expect("bound"));
        let provider = Provider::new(&address, Duration::from_millis(50)).expect("made");
        // The system takes the connection, and nobody ever reads what comes.
        assert!(matches!(provider.charge("k", 1, "visa").await, Err(Refusal::NoAnswer)));
        drop(silent);
        assert!(matches!(provider.charge("k", 1, "visa").await, Err(Refusal::NotReached)));
    }
}
