//! Keeps a running attempt's lease alive.

use tokio::time::{Instant, sleep, timeout};

use crate::{Attempt, Renewed};

/// Renews the lease at a third of its length until then (the run ceiling), or until a renewal is refused.
///
/// A renewal that fails is not a lost lease: it is tried again soon, and the work sees its local deadline come closer.
/// Runs until it is dropped; dropping it in the middle of a renewal is sound (clause X3).
pub(crate) async fn beat(attempt: Attempt, until: Instant) {
    let third = attempt.lease().length.as_duration() / 3;
    let mut pause = third;
    loop {
        sleep(pause).await;
        if Instant::now() >= until {
            tracing::warn!(attempt = attempt.number(), "run ceiling reached: the lease is renewed no more");
            return;
        }
        pause = match timeout(third, attempt.renew()).await {
            Ok(None) => third / 4,
            Ok(Some(Ok(Renewed::Held))) => third,
            Ok(Some(Ok(Renewed::Lost))) => {
                if !attempt.is_over() {
                    tracing::warn!(attempt = attempt.number(), "lease lost: another attempt owns the record");
                }
                return;
            }
            Ok(Some(Err(error))) => {
                tracing::warn!(attempt = attempt.number(), %error, "renewal failed, trying again");
                third / 4
            }
            Err(_) => {
                tracing::warn!(attempt = attempt.number(), "renewal timed out, trying again");
                third / 4
            }
        };
    }
}
