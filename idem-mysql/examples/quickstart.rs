//! An order that happens once: `cargo run -p idem-mysql --example quickstart`, and again, and again.
//!
//! The database is that of `DATABASE_URL`, such as `mysql://root:password@127.0.0.1:3306/test`.

use idem_core::{
    Claim, Claimed, Complete, Completed, End, Fingerprint, Identity, Key, Operation, Response, Scope, Store,
};
use idem_mysql::MySqlStore;
use idem_mysql::mysql_async::prelude::Queryable;
use idem_mysql::mysql_async::{Pool, TxOpts};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::var("DATABASE_URL").map_err(|_| "DATABASE_URL names no database")?;
    let store = MySqlStore::open(&url).await?;
    // The application's own connections, and its own table.
    let pool = Pool::from_url(&url)?;
    let mut connection = pool.get_conn().await?;
    connection
        .query_drop(
            "CREATE TABLE IF NOT EXISTS orders (id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, item TEXT NOT NULL)
             ENGINE = InnoDB",
        )
        .await?;

    // Whose key, which key, and what makes two requests the same request.
    let body = "one book";
    let operation = Operation::new("POST /orders")?;
    let fingerprint = Fingerprint::of(&operation).field("body", body.as_bytes()).finish();
    let identity = Identity::new(Scope::new("customer-7")?, Key::new("order-1")?);

    match store.claim(&Claim::builder(identity, operation, fingerprint).build()?).await? {
        Claimed::Acquired(grant) => {
            // Only one caller gets here. The outside call goes here, with a key that the provider knows too.
            let mut transaction = connection.start_transaction(TxOpts::new()).await?;
            transaction.exec_drop("INSERT INTO orders (item) VALUES (?)", (body,)).await?;
            let order = transaction.last_insert_id().unwrap_or_default();
            let response = Response::new(201).with_body(format!("order {order}"));
            let complete = Complete::new(grant.lease, End::Succeeded(response.into()));
            match store.settle(transaction, &complete).await {
                Ok(Completed::Stored) => println!("ran: the order and its record are committed"),
                Ok(Completed::AlreadyStored | Completed::Lost) => println!("rolled back: somebody else ended it"),
                Err(error) => println!("rolled back, unless it says that it may not be: {error}"),
            }
        }
        Claimed::Replay(replay) => println!("done before: {:?}", replay.recorded),
        Claimed::InFlight { retry_after } => println!("running; try again in {retry_after:?}"),
        Claimed::Mismatch => println!("the key was used for another order"),
        Claimed::Uncertain(_) | Claimed::Spent(_) => println!("not run again"),
    }
    let orders: Option<i64> = connection.query_first("SELECT COUNT(*) FROM orders").await?;
    println!("orders: {} (in {})", orders.unwrap_or_default(), store.server());
    drop(connection);
    pool.disconnect().await?;
    store.close().await;
    Ok(())
}
