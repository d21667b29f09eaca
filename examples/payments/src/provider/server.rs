//! The provider's side of the wire.

use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use axum::{Json, Router};
use tokio::time::sleep;

use super::client::Order;
use super::ledger::{Charge, Ledger};

/// How long a `slow` card takes: long enough to kill somebody meanwhile.
const SLOW: Duration = Duration::from_secs(10);

#[derive(Clone)]
struct Till {
    ledger: Ledger,
    latency: Duration,
}

pub(super) fn router(ledger: Ledger, latency: Duration) -> Router {
    Router::new().route("/charges", post(charge).get(list)).with_state(Till { ledger, latency })
}

async fn charge(
    State(till): State<Till>,
    headers: HeaderMap,
    Json(order): Json<Order>,
) -> Result<Json<Charge>, StatusCode> {
    let key = headers.get("idempotency-key").and_then(|key| key.to_str().ok()).ok_or(StatusCode::BAD_REQUEST)?;
    if order.card == "empty" {
        return Err(StatusCode::PAYMENT_REQUIRED);
    }
    let latency = if order.card == "slow" { SLOW } else { till.latency };
    // Half of the time passes before the charge is made and half after it, so a crash meets both.
    sleep(latency / 2).await;
    let charge = till.ledger.charge(key.to_owned(), order.amount, order.card).await;
    sleep(latency / 2).await;
    charge.map(Json).map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)
}

async fn list(State(till): State<Till>) -> Result<Json<Vec<Charge>>, StatusCode> {
    till.ledger.charges().await.map(Json).map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)
}
