//! Each clause of the contract by itself: the machine through the memory store, with time moved through the data.
#![allow(clippy::unwrap_used, clippy::expect_used)] // a test that cannot go on has failed

mod bench;
mod claim;
mod complete;
mod purge;
mod release;
mod renew;
