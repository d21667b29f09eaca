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
use crate::orders::{Order, Orders, Settled};
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
    guarded(routes(), idem).with_state(App { orders, provider })
}

fn routes() -> Router<App> {
    Router::new().route("/payments", post(pay).get(list)).route("/provider/charges", get(charges))
}

fn guarded(routes: Router<App>, idem: Idem) -> Router<App> {
    let scope = from_extension(|user: &User| Ok(Scope::new(&user.0)?));
    // Authentication is outside: the last layer sees a request first.
    routes.layer(IdempotencyLayer::new(idem, scope)).layer(middleware::from_fn(authenticate))
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
        return Err(TAKEN_OVER);
    }
    // The same key on every attempt: if an earlier one got this far, the provider recognises it and charges nothing.
    let key = attempt.downstream_key("charge");
    let charged = tokio::select! {
        charged = app.provider.charge(&key, payment.amount, &payment.card) => charged,
        // Its answer would be somebody else's to use.
        _ = attempt.lost() => return Err(TAKEN_OVER),
    };
    let charge = charged.map_err(|refusal| match refusal {
        Refusal::Declined => Problem(StatusCode::PAYMENT_REQUIRED, "the card was declined", Ends::Failed),
        Refusal::NotReached => Problem(StatusCode::BAD_GATEWAY, "no provider", Ends::NothingHappened),
        Refusal::NoAnswer => Problem(StatusCode::BAD_GATEWAY, "the provider did not answer", Ends::Unknown),
    })?;
    let order = Order { user, item: payment.item, amount: payment.amount, charge: charge.id };
    let response = (StatusCode::CREATED, Json(order.clone())).into_response();
    // Order and record are committed together. What the record says is what the client is told.
    match app.orders.settle(&attempt, order, response).await {
        Ok(Settled::Written(response)) => Ok(response),
        Ok(Settled::Lost) => Err(TAKEN_OVER),
        Err(error) => {
            tracing::error!(%error, "the order could not be written");
            Err(Problem(StatusCode::INTERNAL_SERVER_ERROR, "the order could not be written", Ends::Unknown))
        }
    }
}

/// The lease is lost: who took over finds the charge by its key, and writes the order.
const TAKEN_OVER: Problem = Problem(StatusCode::SERVICE_UNAVAILABLE, "somebody else took over", Ends::Unknown);

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

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::{Arc, OnceLock};
    use std::time::Duration;

    use axum::body::Body;
    use axum::http::Request;
    use axum::middleware::Next;
    use idem_core::{Claim, Claimed, Config, Identity, Key, Span, State as RecordState, Store};
    use idem_sqlite::SqliteStore;
    use idem_sqlite::rusqlite::Connection;
    use serde_json::json;
    use tower::ServiceExt;

    use super::*;

    /// What the provider does once somebody else has taken over.
    #[derive(Clone, Copy)]
    enum Then {
        Answers,
        IsSilent,
    }

    /// Takes the payment under `k` from its owner, as another process does after the owner's lease is over.
    async fn take_over(store: &SqliteStore, path: &Path) {
        let identity = Identity::new(Scope::new("alice").expect("valid"), Key::new("k").expect("valid"));
        let record = store.get(&identity).await.expect("read").expect("there");
        let claim = Claim::builder(identity, record.operation, record.fingerprint).build().expect("valid");
        let lapse = || Connection::open(path)?.execute("UPDATE idem_records SET lease_until_us = 1", ());
        // The owner may renew in between.
        while !matches!(store.claim(&claim).await.expect("answered"), Claimed::Acquired(_)) {
            lapse().expect("lapsed");
        }
    }

    async fn provider(store: SqliteStore, path: &Path, then: Then) -> Provider {
        let path = path.to_owned();
        let charge = async move || {
            take_over(&store, &path).await;
            match then {
                Then::Answers => Json(json!({"id": 1, "amount": 1000, "card": "visa", "requests": 1})),
                Then::IsSilent => std::future::pending().await,
            }
        };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = format!("http://{}", listener.local_addr().expect("bound"));
        let router = Router::new().route("/charges", post(charge));
        tokio::spawn(async move { axum::serve(listener, router).await });
        Provider::new(&address, Duration::from_secs(60)).expect("made")
    }

    /// Whoever was taken over writes no order and tells of none, whether it hears of it by a renewal or by the store.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_payment_that_is_taken_over_is_not_confirmed() {
        for (lease, then) in [(30_000, Then::Answers), (300, Then::IsSilent)] {
            let folder = tempfile::tempdir().expect("a folder");
            let path = folder.path().join("payments.db");
            let store = SqliteStore::open(&path).await.expect("opened");
            let orders = Orders::in_sqlite(store.clone(), path.clone()).await.expect("made");
            let provider = provider(store.clone(), &path, then).await;
            let mut config = Config::default();
            config.lease = Span::try_from(Duration::from_millis(lease)).expect("valid");
            let idem = Idem::with_config(Arc::new(store.clone()), config);
            let request = Request::post("/payments")
                .header("authorization", "Bearer token-of-alice")
                .header("idempotency-key", "k")
                .header("content-type", "application/json")
                .body(Body::from(json!({"item": "shoes", "amount": 1000, "card": "visa"}).to_string()))
                .expect("valid");
            // What the handler itself says, before the layer compares it with the record.
            let said = Arc::new(OnceLock::new());
            let hear = Arc::clone(&said);
            let listener = move |request: Request<Body>, next: Next| {
                let hear = Arc::clone(&hear);
                async move {
                    let response = next.run(request).await;
                    hear.set(response.status()).expect("it runs once");
                    response
                }
            };
            let routes = routes().layer(middleware::from_fn(listener));
            let app = guarded(routes, idem).with_state(App { orders: orders.clone(), provider });
            let answer = app.oneshot(request).await.expect("infallible");
            assert_eq!(said.get(), Some(&StatusCode::SERVICE_UNAVAILABLE));
            assert_eq!(answer.status(), StatusCode::SERVICE_UNAVAILABLE);
            assert!(orders.of("alice").await.expect("read").is_empty());
            let identity = Identity::new(Scope::new("alice").expect("valid"), Key::new("k").expect("valid"));
            let record = store.get(&identity).await.expect("read").expect("there");
            assert_eq!((record.state, record.attempt), (RecordState::Processing, 2), "it is the other's");
        }
    }
}
