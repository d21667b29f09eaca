//! A call of a store that faults happen to, and what is right of it.

use idem_core::{
    Claim, Claimed, Complete, Completed, End, Error, Identity, Record, Release, Released, Renew, Renewed, State, Store,
};

use crate::trial::{DEADLINE, Handle, LEASE, MARGIN, Outcome, RETENTION, SLACK, Stage, Stop, Trial, ensure, plus};

/// How often the same call is sent again that ended with a retryable error.
const TRIES: usize = 10;

/// Which call, on a record in which state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    ClaimOfNothing,
    ClaimOfLapsed,
    ClaimOfReleased,
    ClaimOfOverAge,
    Complete,
    Renew,
    Release,
}

/// A call.
#[derive(Clone, Debug)]
pub(super) enum Call {
    Claim(Claim),
    Complete(Complete),
    Renew(Renew),
    Release(Release),
}

/// What a call was answered.
#[derive(Debug)]
pub(super) enum Answer {
    Claim(Claimed),
    Complete(Completed),
    Renew(Renewed),
    Release(Released),
}

impl Kind {
    pub(super) const CLAIMS: [Kind; 4] =
        [Kind::ClaimOfNothing, Kind::ClaimOfLapsed, Kind::ClaimOfReleased, Kind::ClaimOfOverAge];

    /// As it stands in the report.
    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::ClaimOfNothing => "claim",
            Kind::ClaimOfLapsed => "takeover",
            Kind::ClaimOfReleased => "claim of a released key",
            Kind::ClaimOfOverAge => "claim of an over-age key",
            Kind::Complete => "complete",
            Kind::Renew => "renew",
            Kind::Release => "release",
        }
    }

    /// A fresh identity, brought to where the call has something to do, over a connection without faults.
    pub(super) async fn call(self, t: &Trial) -> Result<Call, Stop> {
        let staged = match self {
            Kind::ClaimOfNothing => return Ok(Call::Claim(t.usual(&t.identity()?)?)),
            Kind::ClaimOfLapsed => Stage::Lapsed,
            Kind::ClaimOfReleased => Stage::Released,
            Kind::ClaimOfOverAge => Stage::Succeeded,
            Kind::Complete | Kind::Renew | Kind::Release => Stage::Processing,
        };
        let (identity, grant) = t.staged(staged).await?;
        let lease = grant.lease;
        Ok(match self {
            Kind::Complete => Call::Complete(Complete::new(lease, t.succeeded())),
            Kind::Release => Call::Release(Release::new(lease)),
            Kind::Renew => {
                let renew = Renew::new(lease).lasting(LEASE).checkpoint(1, t.bytes(24));
                Call::Renew(renew.map_err(|error| Stop::Error(format!("the suite made a bad renewal: {error}")))?)
            }
            _ => {
                if self == Kind::ClaimOfOverAge {
                    t.age(&identity, plus(RETENTION, MARGIN)).await?;
                }
                Call::Claim(t.usual(&identity)?)
            }
        })
    }
}

impl Call {
    pub(super) fn identity(&self) -> &Identity {
        match self {
            Call::Claim(claim) => claim.identity(),
            Call::Complete(complete) => &complete.lease().identity,
            Call::Renew(renew) => &renew.lease().identity,
            Call::Release(release) => &release.lease().identity,
        }
    }

    pub(super) async fn send(&self, store: &dyn Store) -> Result<Answer, Error> {
        match self {
            Call::Claim(claim) => store.claim(claim).await.map(Answer::Claim),
            Call::Complete(complete) => store.complete(complete).await.map(Answer::Complete),
            Call::Renew(renew) => store.renew(renew).await.map(Answer::Renew),
            Call::Release(release) => store.release(release).await.map(Answer::Release),
        }
    }

    /// Is this the answer of a call that was carried out, whether it was sent once or again?
    pub(super) fn is_right(&self, answer: &Answer) -> bool {
        match (self, answer) {
            (Call::Claim(claim), Answer::Claim(Claimed::Acquired(grant))) => {
                grant.lease.token == claim.token() && grant.lease.identity == *claim.identity()
            }
            (_, Answer::Complete(Completed::Stored | Completed::AlreadyStored))
            | (_, Answer::Renew(Renewed::Held))
            | (_, Answer::Release(Released::Released)) => true,
            _ => false,
        }
    }

    /// Does this row show that the call was carried out?
    pub(super) fn is_in(&self, row: Option<&Record>) -> bool {
        let Some(row) = row else { return false };
        match self {
            Call::Claim(claim) => row.token == claim.token() && row.state == State::Processing,
            Call::Complete(complete) => {
                let state = match complete.end() {
                    End::Succeeded(_) => State::Succeeded,
                    End::Failed(_) => State::Failed,
                    End::Unknown(_) => State::Unknown,
                };
                row.state == state && row.recorded.as_ref() == complete.end().recorded()
            }
            Call::Renew(renew) => row.checkpoint.as_ref() == renew.checkpoint_left(),
            Call::Release(_) => row.state == State::Released,
        }
    }
}

/// The same call again, until it is answered; the answer has to be that of a call that was carried out.
pub(super) async fn finish(call: &Call, store: &Handle, when: &str) -> Outcome {
    for _ in 0..TRIES {
        let sent = tokio::time::timeout(DEADLINE + SLACK, call.send(store.raw())).await;
        let answer: Answer = match sent {
            Err(_) => return Err(Stop::Fail(format!("{when}: it does not end"))),
            Ok(Err(error)) if error.is_retryable() => continue,
            Ok(Err(error)) => return Err(Stop::Fail(format!("{when}: {error}"))),
            Ok(Ok(answer)) => answer,
        };
        ensure!(call.is_right(&answer), "{when}: it was answered {answer:?}");
        return Ok(());
    }
    Err(Stop::Fail(format!("{when}: no answer but errors, {TRIES} times")))
}
