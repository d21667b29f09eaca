//! Ends an attempt, however long the store is away.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::backoff::Backoff;
use crate::executor::Inner;
use crate::{Complete, Completed, End, Error, ErrorKind, Lease, Release, Released};

/// What became of an attempt's end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum Ended {
    /// The record says so.
    AsSaid,
    /// The record says something else: this attempt had finished it before (in a joint transaction), or it is another
    /// attempt's by now. What it says is the answer.
    Otherwise,
    /// The store took no end inside its budget. The lease lapses, and the policy decides.
    GaveUp,
}

/// Sends the end until the store has answered; None is a release.
pub(crate) async fn end(inner: &Inner, lease: &Lease, mut how: Option<End>) -> Ended {
    let mut backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(5));
    let ends = Instant::now() + inner.config.store_budget;
    loop {
        let error = match send(inner, lease, how.as_ref()).await {
            Ok(ended) => return ended,
            Err(error) => error,
        };
        if error.kind() == ErrorKind::TooLarge {
            let shorter = how.as_ref().map(End::without_response);
            if shorter == how {
                tracing::error!(%error, "the store refuses even a tombstone; the lease is left to lapse");
                return Ended::GaveUp;
            }
            tracing::warn!(%error, "a tombstone is left instead of the response");
            how = shorter; // F7
            continue;
        }
        let pause = backoff.next();
        if Instant::now() + pause >= ends {
            tracing::error!(%error, "the end of an attempt could not be stored; its lease is left to lapse");
            return Ended::GaveUp;
        }
        tracing::warn!(%error, "the end of an attempt is not stored yet, trying again");
        sleep(pause).await;
    }
}

async fn send(inner: &Inner, lease: &Lease, how: Option<&End>) -> Result<Ended, Error> {
    let Some(end) = how else {
        return Ok(match inner.store.release(&Release::new(lease.clone())).await? {
            Released::Released => Ended::AsSaid,
            Released::Lost => Ended::Otherwise,
        });
    };
    Ok(match inner.store.complete(&Complete::new(lease.clone(), end.clone())).await? {
        Completed::Stored => Ended::AsSaid,
        Completed::AlreadyStored | Completed::Lost => Ended::Otherwise,
    })
}
