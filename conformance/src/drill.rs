//! Drills: what happens to a store on a server in earnest, as tests that any such store's own test suite can call.
//!
//! They are no rules: they take a server of their own, or a process with a clock of its own, and a minute. A drill panics when
//! the store does not stand it.

#![allow(clippy::expect_used)] // A drill is a test, and fails by panicking.

#[cfg(feature = "tls")]
mod authority;
pub mod clocks;
mod killed;

#[cfg(feature = "tls")]
pub use authority::Authority;
pub use killed::killed_twenty_times;

use idem_core::{Claim, ClaimBuilder, End, Fingerprint, Identity, Key, Operation, Response, Scope};

fn identity(key: &str) -> Identity {
    Identity::new(Scope::global(), Key::new(key).expect("valid"))
}

fn claiming(key: &str) -> ClaimBuilder {
    let operation = Operation::new("drill").expect("valid");
    let fingerprint = Fingerprint::of(&operation).field("body", b"a").finish();
    Claim::builder(identity(key), operation, fingerprint)
}

fn succeeded(body: &str) -> End {
    End::Succeeded(Response::new(201).with_body(body.to_owned()).into())
}
