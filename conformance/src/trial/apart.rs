//! A server that a trial has to itself.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use rand::RngExt as _;

use super::{Outcome, Stop, Trial, lock};
use crate::harness::{Guard, Harness, Hook, HookError, Server};

/// A part of a trial, on a server that it has to itself.
pub struct Apart {
    trial: Trial,
    harness: Arc<dyn Harness>,
    _turn: Guard,
}

impl Trial {
    /// Waits for a server that may be killed, works on it, clears up, and gives it to the next.
    ///
    /// # Errors
    /// A gap when the harness has none; how the work ended; inconclusive when it moved time and took too long.
    pub async fn on_a_server_apart(&self, work: impl AsyncFnOnce(&Apart) -> Outcome) -> Outcome {
        let apart = self.server_apart().await?;
        let outcome = work(&apart).await;
        apart.trial.close().await;
        apart.trial.judged(outcome)
    }

    async fn server_apart(&self) -> Result<Apart, Stop> {
        let (turn, harness) = self.hooked(Hook::Apart, self.harness.apart().await)?;
        harness.prepare().await.map_err(|absent| Stop::Error(format!("a server apart: {}", absent.reason)))?;
        let seed = lock(&self.random).random();
        let number = self.numbers.fetch_add(1, Ordering::Relaxed) + 0x2000;
        let trial = Trial::new(Arc::clone(&harness), "apart", seed, self.nonce, number);
        let apart = Apart { trial, harness, _turn: turn };
        // A trial that was cut short may have left it frozen or down; of one that runs, both are refused.
        let server = apart.server()?;
        let _ = server.thaw().await;
        let _ = server.start().await;
        Ok(apart)
    }
}

impl Apart {
    /// The trial on this server.
    #[must_use]
    pub fn trial(&self) -> &Trial {
        &self.trial
    }

    /// The server.
    ///
    /// # Errors
    /// A gap when the harness has no control over it.
    pub fn server(&self) -> Result<&dyn Server, Stop> {
        let missing = || self.trial.hooked::<()>(Hook::Server, Err(HookError::Unsupported));
        self.harness.server().ok_or_else(|| match missing() {
            Err(stop) => stop,
            Ok(()) => Stop::Error("a hook that is missing was found".into()),
        })
    }
}
