//! A claim that its caller may drop: awaited in the background, its grant released (clause C14).

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, timeout};

use crate::backoff::Backoff;
use crate::executor::{Inner, Slot};
use crate::{Begun, Claim, Claimed, Error, ErrorKind, Ticket};

impl Inner {
    /// Sends the claim, and again with the same token while errors say that it may help.
    ///
    /// The sending goes on in a task of its own when the caller is dropped or out of patience: a claim whose reply was
    /// lost may have been granted, and only asking again tells, so that the grant can be released.
    pub(crate) async fn claim(self: &Arc<Self>, claim: Claim, slot: Slot) -> Result<Begun, Error> {
        let (caller, answer) = oneshot::channel();
        self.tasks.spawn(send(Arc::clone(self), claim, slot, caller));
        match timeout(self.config.claim_budget, answer).await {
            Ok(Ok(begun)) => begun,
            Ok(Err(_)) => Err(Error::new(
                ErrorKind::Indeterminate,
                "the claim ended without an answer: the runtime shuts down, or the store panicked",
            )),
            Err(_) => Err(Error::new(ErrorKind::Unavailable, "the claim got no answer in time")),
        }
    }
}

async fn send(inner: Arc<Inner>, claim: Claim, slot: Slot, caller: oneshot::Sender<Result<Begun, Error>>) {
    let mut backoff = Backoff::new(Duration::from_millis(20), Duration::from_secs(1));
    let ends = Instant::now() + claim.lease().as_duration();
    let mut may_be_granted = false;
    let outcome = loop {
        let sent = Instant::now();
        let error = match inner.store.claim(&claim).await {
            Ok(Claimed::Acquired(grant)) => break Ok(Begun::Granted(Ticket::new(&inner, grant, &claim, sent, slot))),
            Ok(Claimed::Replay(replay)) => break Ok(Begun::Replay(replay)),
            Ok(Claimed::InFlight { retry_after }) => break Ok(Begun::InFlight { retry_after }),
            Ok(Claimed::Mismatch) => break Ok(Begun::Mismatch),
            Ok(Claimed::Uncertain(uncertain)) => break Ok(Begun::Uncertain(uncertain)),
            Ok(Claimed::Spent(spent)) => break Ok(Begun::Spent(spent)),
            Err(error) => error,
        };
        may_be_granted |= error.kind() == ErrorKind::Indeterminate;
        let somebody_cares = may_be_granted || !caller.is_closed();
        let pause = backoff.next();
        if !error.is_retryable() || !somebody_cares || Instant::now() + pause >= ends {
            break Err(error);
        }
        tracing::debug!(%error, "claim failed, trying again with the same token");
        sleep(pause).await;
    };
    // A ticket that nobody receives is dropped here or in the channel, and releases its grant.
    let _ = caller.send(outcome);
}
