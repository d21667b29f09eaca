//! A task that purges for as long as it is wanted, whatever goes wrong.

use std::num::NonZeroU32;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use tokio::task::AbortHandle;
use tokio::time::sleep;

use crate::config::defaults;
use crate::{Idem, Store};

/// How often and how much is purged at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct PurgePlan {
    /// Time between two purges, on average: jitter keeps the processes on one store apart.
    pub every: Duration,
    /// Rows that one statement touches at the most.
    pub batch: NonZeroU32,
}

impl Default for PurgePlan {
    fn default() -> PurgePlan {
        PurgePlan {
            every: defaults::PURGE_EVERY,
            batch: NonZeroU32::new(defaults::PURGE_BATCH).unwrap_or(NonZeroU32::MIN),
        }
    }
}

/// Purges until it is dropped.
#[derive(Debug)]
#[must_use = "dropping it ends the purging"]
pub struct Purger(AbortHandle);

impl Drop for Purger {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Idem {
    /// Starts purging in the background, until the returned handle is dropped or the executor drained. No error and no
    /// panic of the store ends it; many processes may purge one store at once.
    pub fn purge_in_background(&self, plan: PurgePlan) -> Purger {
        let store = Arc::clone(&self.inner.store);
        let draining = self.inner.draining.clone();
        let task = tokio::spawn(async move {
            tokio::select! {
                () = draining.cancelled() => {}
                () = purge_for_ever(store, plan) => {}
            }
        });
        Purger(task.abort_handle())
    }
}

/// A pause that can be multiplied; nobody purges less often than once in a year.
const LONGEST: Duration = Duration::from_secs(365 * 86_400);

async fn purge_for_ever(store: Arc<dyn Store>, plan: PurgePlan) {
    loop {
        sleep(plan.every.min(LONGEST).mul_f64(rand::random_range(0.5..=1.5))).await;
        // Small statements, one after the other, until one finds less than it may take.
        while purge_once(&store, plan.batch).await >= u64::from(plan.batch.get()) {
            tokio::task::yield_now().await;
        }
    }
}

async fn purge_once(store: &Arc<dyn Store>, batch: NonZeroU32) -> u64 {
    match AssertUnwindSafe(store.purge(batch)).catch_unwind().await {
        Ok(Ok(purged)) => {
            if purged.rows() > 0 {
                tracing::debug!(deleted = purged.deleted, dropped = purged.dropped, "purged");
            }
            purged.rows()
        }
        Ok(Err(error)) => {
            tracing::warn!(%error, "purge failed, trying again later");
            0
        }
        Err(_) => {
            tracing::error!("purge panicked, trying again later");
            0
        }
    }
}
