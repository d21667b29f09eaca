//! The first article's own flow: INSERT … ON CONFLICT DO NOTHING, read, decide, run, UPDATE.
//!
//! A new key it decides well, by its primary key. But a lapsed one is taken over by an UPDATE that does not look again
//! whether the lease is still over, a failed one is not decided at all, and no completion says whose it is.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use idem_sqlite::rusqlite::params;

use super::{BoxError, Service, Start, Way};
use crate::database::{Connections, Database};
use crate::provider::Provider;

const USER: &str = "user-1";
const LOCK: Duration = Duration::from_secs(30);

pub(super) struct FirstArticle;

#[async_trait]
impl Way for FirstArticle {
    fn name(&self) -> &'static str {
        "the first article's flow"
    }

    fn short(&self) -> &'static str {
        "the same"
    }

    fn starts(&self) -> &'static [Start] {
        &[Start::New, Start::Lapsed, Start::Failed]
    }

    async fn service(&self, database: &Database, provider: Arc<Provider>) -> Result<Arc<dyn Service>, BoxError> {
        let connections = database.connections();
        connections
            .run(|sql| {
                sql.execute_batch(
                    "CREATE TABLE IF NOT EXISTS race_idempotency_keys (
                       user_id TEXT NOT NULL, idempotency_key TEXT NOT NULL, status TEXT NOT NULL,
                       locked_until_ms INTEGER NOT NULL, response TEXT,
                       PRIMARY KEY (user_id, idempotency_key))",
                )
            })
            .await?;
        Ok(Arc::new(Payments { connections, provider }))
    }
}

struct Payments {
    connections: Connections,
    provider: Arc<Provider>,
}

#[async_trait]
impl Service for Payments {
    async fn prepare(&self, key: &str, start: Start) -> Result<(), BoxError> {
        let status = match start {
            Start::New => return Ok(()),
            Start::Lapsed => "PROCESSING",
            Start::Failed => "FAILED",
        };
        let (key, lapsed) = (key.to_owned(), now_ms() - 1_000);
        self.connections
            .run(move |sql| {
                sql.execute(
                    "INSERT INTO race_idempotency_keys (user_id, idempotency_key, status, locked_until_ms)
                     VALUES (?1, ?2, ?3, ?4)",
                    params![USER, key, status, lapsed],
                )
            })
            .await?;
        Ok(())
    }

    async fn pay(&self, key: &str) -> Result<(), BoxError> {
        let now = now_ms();
        let lock = now + i64::try_from(LOCK.as_millis())?;
        let wanted = key.to_owned();
        let inserted = self
            .connections
            .run(move |sql| {
                sql.execute(
                    "INSERT INTO race_idempotency_keys (user_id, idempotency_key, status, locked_until_ms)
                     VALUES (?1, ?2, 'PROCESSING', ?3) ON CONFLICT (user_id, idempotency_key) DO NOTHING",
                    params![USER, wanted, lock],
                )
            })
            .await?;
        if inserted == 0 {
            let wanted = key.to_owned();
            let (status, locked_until): (String, i64) = self
                .connections
                .run(move |sql| {
                    sql.query_row(
                        "SELECT status, locked_until_ms FROM race_idempotency_keys
                         WHERE user_id = ?1 AND idempotency_key = ?2",
                        params![USER, wanted],
                        |row| Ok((row.get(0)?, row.get(1)?)),
                    )
                })
                .await?;
            if status == "SUCCEEDED" {
                return Ok(()); // the stored response
            }
            if status == "PROCESSING" {
                if now < locked_until {
                    return Ok(()); // 409, in flight
                }
                let wanted = key.to_owned();
                self.connections
                    .run(move |sql| {
                        sql.execute(
                            "UPDATE race_idempotency_keys SET locked_until_ms = ?3
                             WHERE user_id = ?1 AND idempotency_key = ?2 AND status = 'PROCESSING'",
                            params![USER, wanted, lock],
                        )
                    })
                    .await?;
            }
        }
        let (key, response) = (key.to_owned(), self.provider.charge().await);
        self.connections
            .run(move |sql| {
                sql.execute(
                    "UPDATE race_idempotency_keys SET status = 'SUCCEEDED', response = ?3
                     WHERE user_id = ?1 AND idempotency_key = ?2",
                    params![USER, key, response],
                )
            })
            .await?;
        Ok(())
    }
}

fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
