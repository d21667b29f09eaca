#![doc = include_str!("../README.md")]

mod backoff;
mod clock;
mod config;
mod connection;
mod error;
mod guest;
mod job;
mod opener;
mod operation;
mod readers;
mod row;
mod schema;
mod sql;
mod stats;
mod store;
mod thread;
mod transaction;
mod writer;

pub use config::Builder;
pub use rusqlite;
pub use stats::Stats;
pub use store::SqliteStore;
pub use transaction::{Once, TransactionError};
