//! A payment that happens once: `cargo run -p idem-sqlite --example quickstart`, and again, and again.

use idem_core::{Claim, Claimed, Completed, End, Fingerprint, Identity, Key, Operation, Response, Scope, Store};
use idem_sqlite::{SqliteStore, TransactionError, rusqlite};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::temp_dir().join("idem-quickstart.db");
    let store = SqliteStore::open(&path).await?;
    store
        .transaction(|tx| tx.execute_batch("CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, item TEXT)"))
        .await?;

    // Whose key, which key, and what makes two requests the same request.
    let body = "one book";
    let operation = Operation::new("POST /orders")?;
    let fingerprint = Fingerprint::of(&operation).field("body", body.as_bytes()).finish();
    let identity = Identity::new(Scope::new("customer-7")?, Key::new("order-1")?);

    match store.claim(&Claim::builder(identity, operation, fingerprint).build()?).await? {
        Claimed::Acquired(grant) => {
            // Only one caller gets here. The outside call goes here, with a key that the provider knows too.
            let settled = store
                .settle(&grant.lease, move |tx| {
                    tx.execute("INSERT INTO orders (item) VALUES (?1)", [body])?;
                    let response = Response::new(201).with_body(format!("order {}", tx.last_insert_rowid()));
                    Ok::<_, rusqlite::Error>(End::Succeeded(response.into()))
                })
                .await;
            match settled {
                Ok(Completed::Stored) => println!("ran: the order and its record are committed"),
                Ok(Completed::AlreadyStored | Completed::Lost) => println!("somebody else ended it"),
                Err(TransactionError::Work(error)) => println!("rolled back: {error}"),
                Err(TransactionError::Store(error)) => println!("the store says: {error}"),
            }
        }
        Claimed::Replay(replay) => println!("done before: {:?}", replay.recorded),
        Claimed::InFlight { retry_after } => println!("running; try again in {retry_after:?}"),
        Claimed::Mismatch => println!("the key was used for another order"),
        Claimed::Uncertain(_) | Claimed::Spent(_) => println!("not run again"),
    }
    let orders: i64 =
        rusqlite::Connection::open(&path)?.query_row("SELECT count(*) FROM orders", (), |row| row.get(0))?;
    println!("orders: {orders} (in {})", path.display());
    store.close().await;
    Ok(())
}
