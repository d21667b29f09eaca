#![doc = include_str!("../README.md")]

mod store;
mod config;
mod transaction;
mod delivery;
mod operation;
mod rewrite;
mod row;
mod schema;
mod check;
mod pooler;
mod probe;
mod limits;
mod error;
pub mod sql;

pub use config::Builder;
pub use probe::refuse_leaked;
pub use schema::migration_sql;
pub use sqlx;
pub use store::PostgresStore;
pub use transaction::{Answered, First, Once, PoolTransaction};
