//! The example as its users meet it: a process of its own, spoken to over HTTP, and killed.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a test that cannot go on has failed

mod place;
mod server;

mod disconnect;
mod double_click;
mod greeting;
mod killed;
mod long_handler;
