//! The three things that are asked of Redis, each in time or not at all.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use redis::aio::ConnectionLike;
use redis::{Cmd, RedisError, RedisResult, Script};

use crate::breaker::{Breaker, Circuit};
use crate::counters::Counting;

/// A connection of any kind: to one server, to a cluster, to what a sentinel names.
#[async_trait]
pub(crate) trait Link: Send + Sync {
    async fn query(&self, command: &Cmd) -> RedisResult<redis::Value>;
    async fn put(&self, script: &Script, name: &[u8], entry: &[u8], life: Duration) -> RedisResult<bool>;
}

#[async_trait]
impl<C: ConnectionLike + Clone + Send + Sync + 'static> Link for C {
    async fn query(&self, command: &Cmd) -> RedisResult<redis::Value> {
        command.query_async(&mut self.clone()).await
    }

    async fn put(&self, script: &Script, name: &[u8], entry: &[u8], life: Duration) -> RedisResult<bool> {
        let life = u64::try_from(life.as_millis()).unwrap_or(u64::MAX).max(1);
        script.key(name).arg(entry).arg(life).invoke_async(&mut self.clone()).await
    }
}

/// Redis, behind a time-out and a breaker. What goes wrong is counted and is `None`: the database decides then.
pub(crate) struct Cache {
    link: Arc<dyn Link>,
    patience: Duration,
    circuit: Circuit,
    newer: Script,
    counting: Arc<Counting>,
}

impl Cache {
    pub(crate) fn new(link: Arc<dyn Link>, patience: Duration, circuit: Circuit, counting: Arc<Counting>) -> Cache {
        Cache { link, patience, circuit, newer: Script::new(include_str!("newer.lua")), counting }
    }

    /// May Redis be asked at all? Whoever is told yes asks.
    pub(crate) fn is_admitted(&self) -> bool {
        self.circuit.admits(Instant::now())
    }

    /// What is kept under this name. `Some(None)`: nothing is.
    pub(crate) async fn get(&self, name: &[u8]) -> Option<Option<Vec<u8>>> {
        let command = redis::cmd("GET").arg(name).to_owned();
        let value = self.asked(self.link.query(&command)).await?;
        match redis::from_redis_value::<Option<Vec<u8>>>(value) {
            Ok(found) => Some(found),
            Err(_) => Some(None), // Of another type, and so not ours.
        }
    }

    /// Keeps an entry, unless a newer one is there.
    pub(crate) async fn put(&self, name: &[u8], entry: &[u8], life: Duration) {
        if !self.is_admitted() {
            return self.counting.skipped.up();
        }
        match self.asked(self.link.put(&self.newer, name, entry, life)).await {
            Some(true) => self.counting.writes.up(),
            Some(false) => self.counting.skipped.up(),
            None => {}
        }
    }

    /// Drops what was not believed, so that it is in nobody's way.
    pub(crate) async fn drop_entry(&self, name: &[u8]) {
        if self.is_admitted() {
            let command = redis::cmd("DEL").arg(name).to_owned();
            self.asked(self.link.query(&command)).await;
        }
    }

    /// For the check: as it is, with the error.
    pub(crate) async fn query(&self, command: &Cmd) -> Result<redis::Value, String> {
        match tokio::time::timeout(self.patience.max(Duration::from_secs(2)), self.link.query(command)).await {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err("no answer".to_owned()),
        }
    }

    pub(crate) fn stands(&self) -> Breaker {
        self.circuit.stands()
    }

    async fn asked<T>(&self, call: impl Future<Output = Result<T, RedisError>>) -> Option<T> {
        match tokio::time::timeout(self.patience, call).await {
            Ok(Ok(value)) => {
                self.circuit.succeeded();
                Some(value)
            }
            Ok(Err(error)) => self.failed(error.code().unwrap_or("connection")),
            Err(_) => self.failed("too slow"),
        }
    }

    fn failed<T>(&self, why: &str) -> Option<T> {
        tracing::debug!(why, "the cache did not answer");
        self.counting.failures.up();
        self.circuit.failed(Instant::now());
        None
    }
}
