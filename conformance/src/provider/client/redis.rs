use std::collections::{BTreeMap, HashMap};

use redis::aio::MultiplexedConnection;
use redis::{Client, RedisError, RedisResult, cmd};

use crate::provider::{Facts, Kind};

/// Those that decide durability first, then what a reader of a report wants beside them.
const SETTINGS: [&str; 5] = ["appendonly", "appendfsync", "save", "maxmemory", "maxmemory-policy"];

async fn connect(url: &str) -> RedisResult<MultiplexedConnection> {
    Client::open(url)?.get_multiplexed_async_connection().await
}

pub(super) async fn facts(url: &str) -> Result<Facts, String> {
    let answer = async {
        let mut connection = connect(url).await?;
        let _: String = cmd("PING").query_async(&mut connection).await?;
        let text: String = cmd("INFO").arg("server").query_async(&mut connection).await?;
        // A server that was given by URL may refuse CONFIG; it is asked for no nonce either.
        let password: RedisResult<HashMap<String, String>> =
            cmd("CONFIG").arg("GET").arg("requirepass").query_async(&mut connection).await;
        let info: BTreeMap<&str, &str> = text.lines().filter_map(|line| line.split_once(':')).collect();
        let (kind, version) = match info.get("valkey_version") {
            Some(version) => (Kind::Valkey, version),
            None => (Kind::Redis, info.get("redis_version").unwrap_or(&"unknown")),
        };
        Ok(Facts {
            kind,
            version: (*version).to_owned(),
            nonce: password.unwrap_or_default().remove("requirepass").unwrap_or_default(),
            identity: info.get("run_id").map(|id| (*id).to_owned()).unwrap_or_default(),
        })
    };
    answer.await.map_err(|error: RedisError| error.to_string())
}

pub(super) async fn settings(url: &str) -> Result<Vec<(String, String)>, String> {
    let answer = async {
        let mut connection = connect(url).await?;
        let mut all = Vec::new();
        for name in SETTINGS {
            let values: BTreeMap<String, String> =
                cmd("CONFIG").arg("GET").arg(name).query_async(&mut connection).await?;
            all.extend(values);
        }
        Ok(all)
    };
    answer.await.map_err(|error: RedisError| error.to_string())
}
