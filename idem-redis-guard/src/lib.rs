#![doc = include_str!("../README.md")]

mod guard;
mod store;
mod asking;
mod copying;
mod config;
mod ground;
mod clock;
mod entry;
mod cache;
mod breaker;
mod counters;
mod held;
mod check;

pub use breaker::Breaker;
pub use check::Finding;
pub use config::{Builder, defaults};
pub use counters::Counters;
pub use guard::RedisGuard;
pub use redis;
