#![doc = include_str!("../README.md")]

mod backoff;
mod config;
mod drive;
mod error;
mod operation;
mod pool;
mod row;
mod schema;
mod server;
pub mod sql;
mod startup;
mod store;
mod transaction;

pub use config::Builder;
pub use mysql_async;
pub use schema::migration_sql;
pub use server::{Product, Server};
pub use store::MySqlStore;
pub use transaction::{Answered, First, Once};
