//! What the store costs a server: transaction ids, WAL, updates that stay on their page, round trips.
//!
//! `cargo run -p idem-postgres --example cost` starts a server for it; `… --example cost postgres://…` measures on that one,
//! where nobody else may write meanwhile. It ends with an error when a replay costs anything, or completions move.

mod server;

use std::error::Error;
use std::process::ExitCode;

use conformance::fault::Proxy;
use idem_core::{Claim, Claimed, Complete, End, Fingerprint, Grant, Identity, Key, Operation, Response, Scope, Store};
use idem_postgres::PostgresStore;
use idem_postgres::sqlx::postgres::PgConnectOptions;
use server::{Hands, given_or_started};

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

const TIMES: u32 = 1_000;
/// How many keys are being worked on at any time: their records grow on the page where they were claimed.
const IN_FLIGHT: usize = 16;
/// Of a hundred updates.
const HOT: i64 = 95;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match measure().await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => {
            eprintln!("cost: dearer than promised, or somebody else wrote to this server meanwhile");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("cost: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn measure() -> Outcome<bool> {
    let (url, started) = given_or_started().await?;
    let options: PgConnectOptions = url.parse()?;
    let mut hands = Hands::new(&options).await?;
    if started.is_some() {
        hands.quieten().await?;
    }
    let schema = hands.make_schema().await?;
    let measured = measure_in(&options, &mut hands, &schema).await;
    hands.drop_schema(&schema).await?;
    if let Some(server) = started {
        server.close().await;
    }
    measured
}

async fn measure_in(options: &PgConnectOptions, hands: &mut Hands, schema: &str) -> Outcome<bool> {
    let server = (options.get_host().to_owned(), options.get_port());
    let server = tokio::net::lookup_host(server).await?.next().ok_or("the server's name has no address")?;
    // It counts how often the line was gone there and back.
    let line = Proxy::before(server).await?;
    let through = options.clone().host(&line.address().ip().to_string()).port(line.address().port());
    let store = PostgresStore::builder(through).schema(schema).open().await?;
    println!("{}, {TIMES} of each\n", hands.version().await?);
    println!("{:<26} {:>12} {:>16} {:>14}", "", "round trips", "transaction ids", "bytes of WAL");

    // The first ones prepare the statements, and leave hint bits behind.
    let grant = acquire(&store, "warm").await?;
    complete(&store, grant).await?;
    replay(&store, "warm").await?;

    let mut before = hands.counters(&line).await?;
    for number in 0..TIMES {
        acquire(&store, &format!("left-{number:08}")).await?;
    }
    before = hands.show("claim", &line, before).await?;
    let numbers: Vec<u32> = (0..TIMES).collect();
    for together in numbers.chunks(IN_FLIGHT) {
        let mut grants = Vec::new();
        for number in together {
            grants.push(acquire(&store, &format!("{number:08}")).await?);
        }
        for grant in grants {
            complete(&store, grant).await?;
        }
    }
    before = hands.show("claim and completion", &line, before).await?;
    // The first reader of a page may prune it: that is what is left of the completions.
    for number in 0..TIMES {
        replay(&store, &format!("{number:08}")).await?;
    }
    before = hands.show("first replay", &line, before).await?;
    for number in 0..TIMES {
        replay(&store, &format!("{number:08}")).await?;
    }
    let replays = hands.show("replay", &line, before).await?.since(before);
    store.close().await;
    println!(
        "\nEvery second round trip is the driver's, when a connection goes back to the pool: nobody waits for it."
    );
    let (updates, hot) = hands.updates(schema, i64::from(TIMES)).await?;
    println!("{hot} of {updates} completions are HOT ({:.1} %)", 100.0 * hot as f64 / updates as f64);
    Ok(replays.costs_nothing() && hot * 100 >= updates * HOT)
}

fn claim(key: &str) -> Outcome<Claim> {
    let operation = Operation::new("cost")?;
    let fingerprint = Fingerprint::of(&operation).field("body", b"the same").finish();
    Ok(Claim::builder(Identity::new(Scope::global(), Key::new(key)?), operation, fingerprint).build()?)
}

async fn acquire(store: &PostgresStore, key: &str) -> Outcome<Grant> {
    match store.claim(&claim(key)?).await? {
        Claimed::Acquired(grant) => Ok(grant),
        other => Err(format!("a new key: {other:?}").into()),
    }
}

async fn complete(store: &PostgresStore, grant: Grant) -> Outcome<()> {
    let response = Response::new(201).with_meta(vec![1; 40]).with_body(vec![7; 400]);
    store.complete(&Complete::new(grant.lease, End::Succeeded(response.into()))).await?;
    Ok(())
}

async fn replay(store: &PostgresStore, key: &str) -> Outcome<()> {
    match store.claim(&claim(key)?).await? {
        Claimed::Replay(_) => Ok(()),
        other => Err(format!("a key that is done: {other:?}").into()),
    }
}
