//! A payment that happens once: `cargo run -p idem-postgres --example quickstart postgres://…`, and again, and again.

use idem_core::{
    Claim, Claimed, Complete, Completed, End, Fingerprint, Identity, Key, Operation, Response, Scope, Store,
};
use idem_postgres::{PostgresStore, sqlx};
use sqlx::{Executor, PgPool};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::args().nth(1).or_else(|| std::env::var("DATABASE_URL").ok());
    let url = url.ok_or("say the URL of a database: postgres://user@host/database")?;
    let store = PostgresStore::open(&url).await?;
    let pool = PgPool::connect(&url).await?;
    pool.execute("CREATE TABLE IF NOT EXISTS orders (id bigint GENERATED ALWAYS AS IDENTITY, item text)").await?;

    // Whose key, which key, and what makes two requests the same request.
    let body = "one book";
    let operation = Operation::new("POST /orders")?;
    let fingerprint = Fingerprint::of(&operation).field("body", body.as_bytes()).finish();
    let identity = Identity::new(Scope::new("customer-7")?, Key::new("order-1")?);

    match store.claim(&Claim::builder(identity, operation, fingerprint).build()?).await? {
        Claimed::Acquired(grant) => {
            // Only one caller gets here. The outside call goes here, with a key that the provider knows too.
            let mut tx = pool.begin().await?;
            let id: i64 = sqlx::query_scalar("INSERT INTO orders (item) VALUES ($1) RETURNING id")
                .bind(body)
                .fetch_one(&mut *tx)
                .await?;
            let response = Response::new(201).with_body(format!("order {id}"));
            let complete = Complete::new(grant.lease, End::Succeeded(response.into()));
            match store.settle(tx, &complete).await {
                Ok(Completed::Stored) => println!("ran: the order and its record are committed"),
                Ok(Completed::AlreadyStored | Completed::Lost) => println!("somebody else ended it"),
                Err(error) => println!("the store says: {error}"),
            }
        }
        Claimed::Replay(replay) => println!("done before: {:?}", replay.recorded),
        Claimed::InFlight { retry_after } => println!("running; try again in {retry_after:?}"),
        Claimed::Mismatch => println!("the key was used for another order"),
        Claimed::Uncertain(_) | Claimed::Spent(_) => println!("not run again"),
    }
    let orders: i64 = sqlx::query_scalar("SELECT count(*) FROM orders").fetch_one(&pool).await?;
    println!("orders: {orders}");
    store.close().await;
    Ok(())
}
