//! The first article's own flow: INSERT … ON CONFLICT DO NOTHING, read, decide, run, UPDATE.
//!
//! A new key it decides well, by its primary key. But a lapsed one is taken over by an UPDATE that does not look again
//! whether the lease is still over, a failed one is not decided at all, and no completion says whose it is.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;

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
            .execute(
                "CREATE TABLE IF NOT EXISTS race_idempotency_keys (
                   user_id VARCHAR(255) NOT NULL, idempotency_key VARCHAR(255) NOT NULL, status VARCHAR(255) NOT NULL,
                   locked_until_ms BIGINT NOT NULL, response VARCHAR(255),
                   PRIMARY KEY (user_id, idempotency_key))",
                &[],
            )
            .await?;
        Ok(Arc::new(Payments { connections, provider }))
    }
}

struct Payments {
    connections: Connections,
    provider: Arc<Provider>,
}

const INSERT: &str = "INSERT INTO race_idempotency_keys (user_id, idempotency_key, status, locked_until_ms)
                      VALUES (?, ?, ?, ?)";

#[async_trait]
impl Service for Payments {
    async fn prepare(&self, key: &str, start: Start) -> Result<(), BoxError> {
        let status = match start {
            Start::New => return Ok(()),
            Start::Lapsed => "PROCESSING",
            Start::Failed => "FAILED",
        };
        let lapsed = now_ms() - 1_000;
        self.connections.execute(INSERT, &[USER.into(), key.into(), status.into(), lapsed.into()]).await?;
        Ok(())
    }

    async fn pay(&self, key: &str) -> Result<(), BoxError> {
        let (sql, now) = (&self.connections, now_ms());
        let lock = now + i64::try_from(LOCK.as_millis())?;
        let insert = sql.unless_there(INSERT);
        let inserted = sql.execute(&insert, &[USER.into(), key.into(), "PROCESSING".into(), lock.into()]).await?;
        if inserted == 0 {
            let select = "SELECT status, locked_until_ms FROM race_idempotency_keys
                          WHERE user_id = ? AND idempotency_key = ?";
            let row = sql.first(select, &[USER.into(), key.into()]).await?;
            let (status, locked_until) = row.ok_or("the row is gone")?;
            if status == "SUCCEEDED" {
                return Ok(()); // the stored response
            }
            if status == "PROCESSING" {
                if now < locked_until {
                    return Ok(()); // 409, in flight
                }
                let take_over = "UPDATE race_idempotency_keys SET locked_until_ms = ?
                                 WHERE user_id = ? AND idempotency_key = ? AND status = 'PROCESSING'";
                sql.execute(take_over, &[lock.into(), USER.into(), key.into()]).await?;
            }
        }
        let response = self.provider.charge().await;
        let complete = "UPDATE race_idempotency_keys SET status = 'SUCCEEDED', response = ?
                        WHERE user_id = ? AND idempotency_key = ?";
        sql.execute(complete, &[response.as_str().into(), USER.into(), key.into()]).await?;
        Ok(())
    }
}

fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
