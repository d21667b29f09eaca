//! Servers and tools for a test that does without where there are none.

use std::fmt::Display;
use std::path::PathBuf;

use super::{Kind, Policy, Server, Servers, Tool, start};

/// A server of this kind for a test's own; None where there is none, said on the standard error with the reason of each
/// try and the remedy.
///
/// # Panics
/// When there is none and `IDEM_REQUIRE` names it, and when a variable says something impossible.
pub async fn wanted(kind: Kind) -> Option<Server> {
    let policy = policy();
    // Boxed, since it is a deep future, and a test's own comes on top of it.
    let started = Box::pin(start(kind, &policy)).await;
    started.map_err(|not_run| do_without(&not_run, not_run.required)).ok()
}

impl Servers {
    /// The server of this kind, for a test; None where there is none, said as with [`wanted`].
    ///
    /// # Panics
    /// When there is none and it is required.
    pub async fn wanted(&self, kind: Kind) -> Option<Server> {
        self.get(kind).await.map_err(|not_run| do_without(&not_run, not_run.required)).ok()
    }
}

impl Tool {
    /// Every file of this tool, for a test: none where there is none, said as with [`wanted`].
    ///
    /// # Panics
    /// As [`wanted`].
    #[must_use]
    pub fn wanted(self) -> Vec<PathBuf> {
        self.find_all(&policy()).map_err(|missing| do_without(&missing, missing.required)).unwrap_or_default()
    }
}

#[allow(clippy::expect_used)] // A typing error must not turn a requirement off, and a test fails by panicking.
fn policy() -> Policy {
    Policy::from_env().expect("the variables are understood")
}

/// Ends the test where it is required, and says that it is not run where it is not.
fn do_without(missing: &impl Display, required: bool) {
    assert!(!required, "{missing}");
    eprintln!("not run: {missing}");
}
