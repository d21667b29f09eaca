//! The payment provider: simulated, but over HTTP, with latency, idempotency of its own, and a ledger that tells the truth.

mod client;
mod ledger;
mod server;

use std::time::Duration;

use tokio::net::TcpListener;

use crate::BoxError;

/// How long an answer of the provider is waited for: twice as long as its slowest card takes. It may be longer than a
/// lease, because the lease is renewed meanwhile, and who waits stops when it is lost.
const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) use client::{Provider, Refusal};
pub(crate) use ledger::{Charge, Ledger};

/// Starts the provider's server, and gives a client of it.
pub(crate) async fn start(ledger: Ledger, latency: Duration) -> Result<Provider, BoxError> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move { axum::serve(listener, server::router(ledger, latency)).await });
    Provider::new(&format!("http://{address}"), PATIENCE)
}
