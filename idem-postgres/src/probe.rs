//! Finds connections of a shared pool that were left inside a transaction.

use sqlx::pool::PoolOptions;
use sqlx::{Executor, PgConnection, Postgres, Row};

/// Without parameters it goes as one simple query, and only then do the two clocks agree outside a transaction: in the
/// extended protocol each message sets the statement's.
const ALONE: &str = "SELECT transaction_timestamp() = statement_timestamp() AS alone";

/// Is the session outside any transaction?
pub(crate) async fn is_alone(connection: &mut PgConnection) -> Result<bool, sqlx::Error> {
    connection.fetch_one(sqlx::raw_sql(ALONE)).await?.try_get("alone")
}

/// Makes a pool of the application's sound against a `begin` that was dropped half way.
///
/// Such a `begin` leaves a session inside a transaction in the pool. Later statements on it succeed, are seen by nobody,
/// and vanish. This puts a question before each use in the place of the driver's ping, at the same cost, and closes such
/// a session. It replaces a `before_acquire` that was set before.
///
/// The store asks the same by itself before it uses a connection of a shared pool; this is for the application's own
/// statements.
#[must_use]
pub fn refuse_leaked(options: PoolOptions<Postgres>) -> PoolOptions<Postgres> {
    options
        .test_before_acquire(false)
        .before_acquire(|connection, _| Box::pin(async move { is_alone(connection).await }))
}
