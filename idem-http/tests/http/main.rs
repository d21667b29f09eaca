//! The layer as its clients and handlers see it: in process, and over sockets.

#![allow(clippy::expect_used)] // Helpers of tests may panic as tests do.

mod support;

mod answers;
mod ends;
mod keys;
mod requests;
mod replays;
mod streams;
mod life;
mod joint;
mod identify;
