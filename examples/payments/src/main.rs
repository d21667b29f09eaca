//! An HTTP API whose payments happen exactly once.
//!
//! `POST /payments` charges a card at a payment provider (simulated, in this process, over HTTP) and writes an order. Both
//! happen once per `Idempotency-Key`, however often the request is sent, and whatever is killed in between.

mod api;
mod auth;
mod greeting;
mod orders;
mod provider;
mod store;

use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use idem_core::{Config, Idem, PurgePlan, Span};
use tokio::net::TcpListener;
use tracing_subscriber::EnvFilter;

use crate::store::{Opened, StoreUrl};

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Payments that happen exactly once.
#[derive(Parser)]
struct Arguments {
    /// Where records and orders are kept: sqlite:PATH, postgres://…, mysql://…, or memory: (gone at the end).
    #[arg(long, default_value = "sqlite:payments.db")]
    store: StoreUrl,
    /// The file of the simulated provider's ledger. Without it, one beside the SQLite file, or payments.provider here.
    #[arg(long)]
    ledger: Option<PathBuf>,
    /// Where to listen.
    #[arg(long, default_value = "127.0.0.1:8080")]
    listen: SocketAddr,
    /// How long an owner may be silent before somebody else takes over its key.
    #[arg(long, default_value = "5s", value_parser = lease)]
    lease: Span,
    /// How long the provider takes for a charge.
    #[arg(long, default_value = "300ms", value_parser = humantime::parse_duration)]
    latency: Duration,
}

fn lease(text: &str) -> Result<Span, BoxError> {
    Ok(Span::try_from(humantime::parse_duration(text)?)?)
}

#[tokio::main]
async fn main() -> ExitCode {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("warn"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    match serve(Arguments::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("payments: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn serve(arguments: Arguments) -> Result<(), BoxError> {
    let Opened { store, orders, ledger } = arguments.store.open(arguments.ledger.as_deref()).await?;
    let provider = provider::start(ledger, arguments.latency).await?;

    let mut config = Config::default();
    config.lease = arguments.lease;
    let idem = Idem::with_config(store, config);
    let _purger = idem.purge_in_background(PurgePlan::default());

    let listener = TcpListener::bind(arguments.listen).await.map_err(|error| {
        format!("cannot listen on {}: {error}; another address: --listen 127.0.0.1:0", arguments.listen)
    })?;
    let app = api::router(idem.clone(), orders.clone(), provider);
    let greeting = greeting::text(listener.local_addr()?, &arguments.store, arguments.lease);
    // Somebody who does not listen to the greeting is served all the same.
    let _ = std::io::stdout().write_all(greeting.as_bytes());
    axum::serve(listener, app).with_graceful_shutdown(interrupted()).await?;

    // Handlers run in their own tasks: wait until what they did is recorded.
    let left = idem.drain(Duration::from_secs(10)).await;
    if left > 0 {
        eprintln!("payments: {left} still running; their keys are taken over when their leases are over");
    }
    orders.close().await;
    Ok(())
}

async fn interrupted() {
    // Without a handler for the signal the process ends by it, which is as safe.
    let _ = tokio::signal::ctrl_c().await;
}
