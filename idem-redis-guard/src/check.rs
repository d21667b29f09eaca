//! What of the server's settings makes a guard useless.

use std::collections::BTreeMap;

use idem_core::Store;

use crate::RedisGuard;

/// Something about the Redis server that makes a guard useless, or less useful. Nothing of it can make it wrong.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Finding {
    /// What is the case.
    pub what: String,
    /// What to do about it.
    pub remedy: &'static str,
}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.what, self.remedy)
    }
}

/// Less memory than this evicts copies before they are used.
const LITTLE_MEMORY: u64 = 32 * 1024 * 1024;

impl<S: Store + 'static> RedisGuard<S> {
    /// Asks the server for the settings that matter, and says which of them make the guard useless. Empty: none does.
    pub async fn check(&self) -> Vec<Finding> {
        let mut findings = Vec::new();
        let mut found = |what: String, remedy| findings.push(Finding { what, remedy });
        let info = match self.cache().query(redis::cmd("INFO").arg("everything")).await {
            Ok(value) => redis::from_redis_value::<String>(value).unwrap_or_default(),
            Err(error) => {
                found(format!("Redis does not answer ({error})"), "the database decides everything until it does");
                return findings;
            }
        };
        let info = facts(&info);
        let is = |name: &str| info.get(name).copied().unwrap_or_default();
        if is("role") == "slave" {
            found("this server is a read-only replica".into(), "name the primary: nothing can be copied to a replica");
        }
        if is("loading") == "1" {
            found("this server is loading its data".into(), "wait until it has");
        }
        let memory = is("maxmemory").parse::<u64>().unwrap_or_default();
        let policy = is("maxmemory_policy");
        if memory > 0 && policy == "noeviction" {
            let what = format!("maxmemory is {memory} bytes and maxmemory-policy is noeviction");
            found(
                what,
                "once it is full nothing is copied any more: set maxmemory-policy to volatile-lru or allkeys-lru",
            );
        }
        if memory > 0 && memory < LITTLE_MEMORY {
            let what = format!("maxmemory is {memory} bytes");
            found(what, "copies are evicted before they are used: give it more, or do without the guard");
        }
        if is("aof_enabled") == "1" && self.config("appendfsync").await.as_deref() == Some("always") {
            found(
                "appendfsync is always".into(),
                "every copy waits for the disk, and none needs to: set everysec or no",
            );
        }
        if let Err(error) = self.cache().query(redis::cmd("EVAL").arg("return 1").arg(0)).await {
            found(
                format!("scripts are refused ({error})"),
                "allow EVAL and EVALSHA to this user: nothing can be copied",
            );
        }
        findings
    }

    async fn config(&self, name: &str) -> Option<String> {
        // Managed servers refuse CONFIG; what cannot be read is not found wrong.
        let value = self.cache().query(redis::cmd("CONFIG").arg("GET").arg(name)).await.ok()?;
        redis::from_redis_value::<BTreeMap<String, String>>(value).ok()?.remove(name)
    }
}

fn facts(info: &str) -> BTreeMap<&str, &str> {
    info.lines().filter_map(|line| line.trim_end().split_once(':')).collect()
}
