//! The API: payments, and a look into the provider's ledger.

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router, middleware};
use idem_core::{Idem, Scope};
use idem_http::{Attempt, Ends, IdempotencyLayer, from_extension};
use serde::Deserialize;

use crate::auth::{User, authenticate};
use crate::orders::{Order, Orders};
use crate::provider::{Charge, Provider, Refusal};

#[derive(Clone)]
struct App {
    orders: Orders,
    provider: Provider,
}

/// What a client sends.
#[derive(Deserialize)]
struct Payment {
    /// What is bought.
    item: String,
    /// In the smallest unit of the currency.
    amount: u32,
    /// `visa` is charged, `empty` is declined, `slow` takes ten seconds.
    card: String,
}

pub(crate) fn router(idem: Idem, orders: Orders, provider: Provider) -> Router {
    let scope = from_extension(|user: &User| Ok(Scope::new(&user.0)?));
    Router::new()
        .route("/payments", post(pay).get(list))
        .route("/provider/charges", get(charges))
        .layer(IdempotencyLayer::new(idem, scope))
        .layer(middleware::from_fn(authenticate)) // outside: the last layer sees a request first
        .with_state(App { orders, provider })
}

/// Charges the card and writes the order. Runs once per key and payload; a retry does not get here.
async fn pay(
    State(app): State<App>,
    User(user): User,
    attempt: Attempt,
    Json(payment): Json<Payment>,
) -> Result<Response, Problem> {
    if payment.amount == 0 {
        return Err(Problem(StatusCode::UNPROCESSABLE_ENTITY, "an amount of nothing", Ends::NothingHappened));
    }
    if attempt.check().is_err() {
        return Err(Problem(StatusCode::SERVICE_UNAVAILABLE, "somebody else took over", Ends::Unknown));
    }
    // The same key on every attempt: if an earlier one got this far, the provider recognises it and charges nothing.
    let key = attempt.downstream_key("charge");
    let charge = app.provider.charge(&key, payment.amount, &payment.card).await.map_err(|refusal| match refusal {
        Refusal::Declined => Problem(StatusCode::PAYMENT_REQUIRED, "the card was declined", Ends::Failed),
        Refusal::NotReached => Problem(StatusCode::BAD_GATEWAY, "no provider", Ends::NothingHappened),
        Refusal::NoAnswer => Problem(StatusCode::BAD_GATEWAY, "the provider did not answer", Ends::Unknown),
    })?;
    let order = Order { user, item: payment.item, amount: payment.amount, charge: charge.id };
    let response = (StatusCode::CREATED, Json(order.clone())).into_response();
    // Order and record are committed together. What the record says is what the client is told.
    app.orders.settle(&attempt, order, response).await.map_err(|error| {
        tracing::error!(%error, "the order could not be written");
        Problem(StatusCode::INTERNAL_SERVER_ERROR, "the order could not be written", Ends::Unknown)
    })
}

async fn list(State(app): State<App>, User(user): User) -> Result<Json<Vec<Order>>, StatusCode> {
    app.orders.of(&user).await.map(Json).map_err(|error| {
        tracing::error!(%error, "the orders could not be read");
        StatusCode::INTERNAL_SERVER_ERROR
    })
}

async fn charges(State(app): State<App>) -> Result<Json<Vec<Charge>>, StatusCode> {
    app.provider.charges().await.map(Json).map_err(|error| {
        tracing::error!(%error, "the provider could not be asked");
        StatusCode::BAD_GATEWAY
    })
}

/// A refusal, and what it means for the record. The last of the three overrules what the status would say.
struct Problem(StatusCode, &'static str, Ends);

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let Problem(status, text, ends) = self;
        (status, ends, [(header::CONTENT_TYPE, "text/plain; charset=utf-8")], format!("{text}\n")).into_response()
    }
}
