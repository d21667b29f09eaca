//! Mutants that are right as long as nobody else is there: they look, let others run, and act on what they saw.

use async_trait::async_trait;
use idem_core::{Claim, Claimed, Complete, Completed, Error, State, Store};

use super::twist::Twist;
use super::wrapper::made_up;
use super::{Kind, Landed, Mutant};

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant {
        id: "W-check-then-act",
        kind: Kind::Wrapper(|| Box::new(CheckThenAct)),
        kills: "CONC-001",
        because: "Who saw no record is Acquired, whoever inserted one since.",
        says: "contenders acquired one identity",
    },
    Mutant {
        id: "W-completes-what-was-taken-over",
        kind: Kind::Wrapper(|| Box::new(CompletesTakenOver)),
        kills: "CONC-002",
        because: "The owner is checked before the write, and the write finds whoever is there by then.",
        says: "a completion was Stored and the takeover that raced with it was Acquired",
    },
    Mutant {
        id: "W-both-ends-stored",
        kind: Kind::Wrapper(|| Box::new(BothEndsStored)),
        kills: "CONC-003",
        because: "Who saw a running record answers Stored, whichever end was written first.",
        says: "how many of two ends of one attempt were Stored",
    },
];

/// Lets every task that is ready run, on a scheduler of any number of threads.
async fn let_others_run() {
    for _ in 0..64 {
        tokio::task::yield_now().await;
    }
}

struct CheckThenAct;

#[async_trait]
impl Twist for CheckThenAct {
    async fn claim(&self, good: &dyn Store, landed: &Landed, claim: &Claim) -> Result<Claimed, Error> {
        let free = good.get(claim.identity()).await?.is_none();
        let_others_run().await;
        match good.claim(claim).await? {
            Claimed::InFlight { .. } if free => {
                landed.hit();
                Ok(Claimed::Acquired(made_up(claim)))
            }
            answer => Ok(answer),
        }
    }
}

struct CompletesTakenOver;

#[async_trait]
impl Twist for CompletesTakenOver {
    async fn complete(&self, good: &dyn Store, landed: &Landed, complete: &Complete) -> Result<Completed, Error> {
        let mut lease = complete.lease().clone();
        let seen = good.get(&lease.identity).await?;
        let owned = seen.is_some_and(|record| record.state == State::Processing && record.token == lease.token);
        let_others_run().await;
        let answer = good.complete(complete).await?;
        match good.get(&lease.identity).await? {
            Some(record) if owned && answer == Completed::Lost => {
                landed.hit();
                (lease.token, lease.fence) = (record.token, record.fence);
                good.complete(&Complete::new(lease, complete.end().clone())).await
            }
            _ => Ok(answer),
        }
    }
}

struct BothEndsStored;

#[async_trait]
impl Twist for BothEndsStored {
    async fn complete(&self, good: &dyn Store, landed: &Landed, complete: &Complete) -> Result<Completed, Error> {
        let seen = good.get(&complete.lease().identity).await?;
        let running = seen.is_some_and(|record| record.state == State::Processing);
        let_others_run().await;
        match good.complete(complete).await? {
            Completed::AlreadyStored if running => {
                landed.hit();
                Ok(Completed::Stored)
            }
            answer => Ok(answer),
        }
    }
}
