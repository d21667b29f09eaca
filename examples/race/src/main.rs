//! Sends one payment ten times, in a row and at once, through every way that people make it "idempotent", and counts
//! how often the customer was charged.

mod database;
mod provider;
mod ways;

use std::num::NonZeroUsize;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;
use tokio::sync::Barrier;
use tokio::task::JoinSet;

use crate::database::{Database, StoreUrl};
use crate::provider::Provider;
use crate::ways::{BoxError, Start, Way};

/// One key, many requests: how often is the customer charged?
#[derive(Parser)]
struct Arguments {
    /// Requests for each run.
    #[arg(long, default_value = "10")]
    requests: NonZeroUsize,
    /// The database: sqlite:PATH, postgres://… or mysql://…. Without it, a new file that is deleted afterwards.
    #[arg(long)]
    store: Option<StoreUrl>,
}

#[tokio::main]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match race(&arguments).await {
        Ok(ExactlyOnce::Yes) => ExitCode::SUCCESS,
        Ok(ExactlyOnce::No) => {
            eprintln!("idem charged more or less than once: please report this as a bug");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("race: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Did idem's own rows show one charge everywhere?
enum ExactlyOnce {
    Yes,
    No,
}

async fn race(arguments: &Arguments) -> Result<ExactlyOnce, BoxError> {
    let database = Database::open(arguments.store.as_ref()).await?;
    let requests = arguments.requests.get();
    println!("One payment, one key, {requests} requests. Charges made:\n");
    println!("{:<46} {:>8} {:>8}", "", "in a row", "at once");
    let mut exactly_once = ExactlyOnce::Yes;
    for way in ways::all() {
        for start in way.starts() {
            let in_a_row = charges(&database, way.as_ref(), *start, requests, Pace::InARow).await?;
            let at_once = charges(&database, way.as_ref(), *start, requests, Pace::AtOnce).await?;
            println!("{:<46} {in_a_row:>8} {at_once:>8}", label(way.as_ref(), *start));
            if way.is_idem() && (in_a_row, at_once) != (1, 1) {
                exactly_once = ExactlyOnce::No;
            }
        }
    }
    Ok(exactly_once)
}

fn label(way: &dyn Way, start: Start) -> String {
    match start {
        Start::New => way.name().to_owned(),
        Start::Lapsed => format!("  {}, its first owner crashed", way.short()),
        Start::Failed => format!("  {}, its first try failed", way.short()),
    }
}

#[derive(Clone, Copy)]
enum Pace {
    InARow,
    AtOnce,
}

/// Runs one way with a key of its own and a provider of its own, and reads the provider's ledger.
async fn charges(
    database: &Database,
    way: &dyn Way,
    start: Start,
    requests: usize,
    pace: Pace,
) -> Result<usize, BoxError> {
    let provider = Arc::new(Provider::default());
    let service = way.service(database, Arc::clone(&provider)).await?;
    let key = database::fresh_key();
    service.prepare(&key, start).await?;
    match pace {
        Pace::InARow => {
            for _ in 0..requests {
                service.pay(&key).await?;
            }
        }
        Pace::AtOnce => {
            let (mut clients, gate) = (JoinSet::new(), Arc::new(Barrier::new(requests)));
            for _ in 0..requests {
                let (service, gate, key) = (Arc::clone(&service), Arc::clone(&gate), key.clone());
                clients.spawn(async move {
                    gate.wait().await;
                    service.pay(&key).await
                });
            }
            while let Some(answer) = clients.join_next().await {
                answer??;
            }
        }
    }
    Ok(provider.charges())
}
