//! The executor over the reference store, in virtual time: no test waits for a real clock.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a test that cannot go on has failed

mod support;

mod dropping;
mod ends;
mod leases;
mod limits;
mod outcomes;
mod relay;
mod trouble;
