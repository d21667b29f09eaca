//! Looking at a record.

use std::sync::atomic::Ordering;
use std::time::Duration;

use idem_core::{Identity, Record, Span, State, StoreTime};

use super::{Handle, Outcome, Stop, Trial, ensure};
use crate::Profile;
use crate::harness::{Hook, HookError};

impl Trial {
    /// The row as it is. Read over a connection that is not the store's where the harness can; else through a second
    /// handle of a shared store; else through the first. Whatever the store shows of it has to be the same.
    ///
    /// # Errors
    /// When the store shows something else than the independent read.
    pub async fn read(&self, identity: &Identity) -> Result<Option<Record>, Stop> {
        let shown = self.store().await?.get(identity).await?;
        let row = match self.harness.peek(&self.namespace, identity).await {
            Err(HookError::Unsupported) if self.declaration.claims(Profile::Shared) => {
                self.reader().await?.get(identity).await?
            }
            Err(HookError::Unsupported) => {
                self.read_through_the_store.store(true, Ordering::Relaxed);
                return Ok(shown);
            }
            peeked => self.hooked(Hook::Peek, peeked)?,
        };
        match (&shown, &row) {
            (Some(shown), None) => {
                let state = shown.state;
                Err(Stop::Fail(format!("`get` shows a record ({state:?}) that an independent read does not find")))
            }
            (Some(shown), Some(row)) if !matches!(shown.state, State::Spent(_)) && shown != row => Err(Stop::Fail(
                format!("`get` and an independent read differ: `get` shows {shown:?}, the row is {row:?}"),
            )),
            _ => Ok(row),
        }
    }

    async fn reader(&self) -> Result<Handle, Stop> {
        let mut reader = self.reader.lock().await;
        if let Some(handle) = reader.as_ref() {
            return Ok(handle.clone());
        }
        let handle = self.second().await?;
        *reader = Some(handle.clone());
        Ok(handle)
    }

    /// The row, over age or not: what no handle shows.
    ///
    /// # Errors
    /// A gap without the hook.
    pub async fn row(&self, identity: &Identity) -> Result<Option<Record>, Stop> {
        self.hooked(Hook::Peek, self.harness.peek(&self.namespace, identity).await)
    }

    /// Reads are independent of the handle that wrote.
    ///
    /// # Errors
    /// A gap when the harness cannot peek, and there is no second handle that sees the same records.
    pub async fn reads_independently(&self) -> Outcome {
        if self.declaration.claims(Profile::Shared) {
            return Ok(());
        }
        self.row(&self.identity()?).await.map(|_| ())
    }

    /// The row, which has to be there.
    ///
    /// # Errors
    /// When it is not.
    pub async fn record(&self, identity: &Identity) -> Result<Record, Stop> {
        self.read(identity)
            .await?
            .ok_or_else(|| Stop::Fail("an independent read finds no record where there must be one".into()))
    }

    /// The row is what it was before.
    ///
    /// # Errors
    /// When it is not.
    pub async fn unchanged(&self, before: &Record, what: &str) -> Outcome {
        let after = self.record(&before.identity).await?;
        ensure!(after == *before, "{what} changed the record: it was {before:?}, and is {after:?}");
        Ok(())
    }

    /// The store's own clock, read off a record that is made for it.
    ///
    /// # Errors
    /// As a claim.
    pub async fn now(&self) -> Result<StoreTime, Stop> {
        let identity = self.identity()?;
        self.acquire(&identity).await?;
        Ok(self.record(&identity).await?.created_at)
    }

    /// The lease in the record is as long as was asked, to the declared resolution. It may be longer by as long as the
    /// claim took: one whose reply was lost is sent again, and counts from then (clause C3).
    ///
    /// # Errors
    /// When it is not.
    pub fn lasts(&self, record: &Record, lease: Span, took: Duration) -> Outcome {
        let runs = record.lease_until.since(record.claimed_at);
        let resolution = self.declaration.resolution.as_duration();
        let (shortest, longest) =
            (lease.as_duration().saturating_sub(resolution), lease.as_duration() + resolution + took);
        ensure!(
            shortest < runs && runs < longest,
            "a lease of {lease:?} runs for {runs:?}, the declared resolution is {resolution:?}"
        );
        Ok(())
    }
}
