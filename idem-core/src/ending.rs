//! Ends an attempt, however long the store is away.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures::FutureExt;
use tokio::time::{Instant, sleep};

use crate::backoff::Backoff;
use crate::deadline::after;
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
    /// The store took no end inside its budget, not even a tombstone. The lease lapses, and the policy decides.
    GaveUp,
}

/// How often an end is sent again although the store says that it does not help.
const STUBBORN: u32 = 5;

/// Sends the end until the store has answered; None is a release.
///
/// A response that the store does not take (too long, or refused for as long as the budget lasts: a full disk) is
/// replaced by a tombstone, so that an operation is not run again because its answer could not be kept (clause F7).
pub(crate) async fn end(inner: &Inner, lease: &Lease, mut how: Option<End>) -> Ended {
    let cap = Duration::from_secs(5).min(lease.length.as_duration() / 6);
    let mut backoff = Backoff::new(Duration::from_millis(50).min(cap), cap);
    let until = after(inner.config.store_budget);
    let mut tries = 0;
    loop {
        let error = match send(inner, lease, how.as_ref()).await {
            Ok(ended) => return ended,
            Err(error) => error,
        };
        tries += 1;
        let pause = backoff.next();
        let hopeless = !error.is_retryable() && tries >= STUBBORN;
        if error.kind() == ErrorKind::TooLarge || hopeless || Instant::now() + pause >= until {
            let shorter = how.as_ref().map(End::without_response);
            if shorter == how {
                tracing::error!(%error, "the end of an attempt could not be stored; its lease is left to lapse");
                return Ended::GaveUp;
            }
            tracing::warn!(%error, "a tombstone is left instead of the response");
            how = shorter;
            continue;
        }
        tracing::warn!(%error, "the end of an attempt is not stored yet, trying again");
        sleep(pause).await;
    }
}

/// Sends it once. A store that panics may have applied it.
async fn send(inner: &Inner, lease: &Lease, how: Option<&End>) -> Result<Ended, Error> {
    let sent = AssertUnwindSafe(send_to(inner, lease, how)).catch_unwind().await;
    sent.unwrap_or_else(|_| Err(Error::new(ErrorKind::Indeterminate, "the store panicked")))
}

async fn send_to(inner: &Inner, lease: &Lease, how: Option<&End>) -> Result<Ended, Error> {
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
