//! The guard in front of a store, with real Redis servers: healthy, absent, killed, frozen, full, a replica, and lying.

#![allow(clippy::expect_used, clippy::unwrap_used)] // A test fails by panicking.

mod answers;
mod lies;
mod storm;
mod support;
mod trouble;
