//! The provider as this service sees it.

use axum::http::StatusCode;
use serde::{Deserialize, Serialize};

use super::ledger::Charge;
use crate::BoxError;

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
    pub(super) fn new(address: String) -> Provider {
        Provider { http: reqwest::Client::new(), charges: format!("{address}/charges") }
    }

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
