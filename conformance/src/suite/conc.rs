//! CONC: requests that meet have one winner, and everybody learns who.

use std::sync::Arc;

use idem_core::{Claim, Claimed, Completed, End, Lease, State};
use tokio::sync::Barrier;

use super::lease::{at_once, handles};
use crate::rules::{Profile, Rule, run};
use crate::trial::{Handle, Outcome, Stage, Stop, Trial, ensure, ensure_eq, name_of};

const CORE: Rule = Rule::of(Profile::Core);

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "CONC-001",
        slug: "eight_contenders_one_acquired",
        clause: "C9",
        text: "Of eight contenders behind a barrier exactly one is Acquired, in each of twelve rounds.",
        why: "Check, then act, has two winners.",
        check: run!(one_acquired),
        ..CORE
    },
    Rule {
        id: "CONC-002",
        slug: "complete_races_takeover",
        clause: "F1, C6",
        text: "Complete racing with a takeover has one winner, and the record is the winner's.",
        why: "A paused owner wakes at exactly the wrong moment.",
        check: run!(complete_or_takeover),
        ..CORE
    },
    Rule {
        id: "CONC-003",
        slug: "two_ends_race",
        clause: "F2",
        text: "Two completions of one attempt that race leave the first, and both callers learn that it is recorded.",
        why: "A timeout path and a success path end the same attempt.",
        check: run!(two_ends),
        ..CORE
    },
];

const CONTENDERS: usize = 8;
/// How often eight contenders meet.
const ROUNDS: usize = 12;
/// How often two requests meet: either order has to come up.
const DUELS: usize = 24;

async fn one_acquired(t: &Trial) -> Outcome {
    let handles = handles(t).await?;
    for round in 1..=ROUNDS {
        let identity = t.identity()?;
        let claims: Vec<Claim> = (0..CONTENDERS).map(|_| t.usual(&identity)).collect::<Result<_, _>>()?;
        let tokens: Vec<_> = claims.iter().map(Claim::token).collect();
        let answers = at_once(&handles, claims).await?;
        let mut won = Vec::new();
        for (token, answer) in tokens.into_iter().zip(answers) {
            match answer {
                Claimed::Acquired(grant) => won.push((token, grant.lease)),
                Claimed::InFlight { .. } => {}
                other => return Err(Stop::Fail(format!("in round {round} a loser was answered {other:?}"))),
            }
        }
        ensure_eq!(won.len(), 1, "how many of {CONTENDERS} contenders acquired one identity, in round {round}");
        let record = t.record(&identity).await?;
        for (token, lease) in won {
            ensure_eq!((lease.token, lease.fence), (token, record.fence), "the winner's lease, in round {round}");
            ensure_eq!(record.token, token, "the record's token, in round {round}");
        }
    }
    Ok(())
}

/// A completion and a claim at once, through handles that change places from round to round.
async fn duel(
    handles: &[Handle],
    round: usize,
    (lease, end): (Lease, End),
    claim: Claim,
) -> Result<(Completed, Claimed), Stop> {
    let barrier = Arc::new(Barrier::new(2));
    let (owner, rival) = (handles[round % handles.len()].clone(), handles[(round + 1) % handles.len()].clone());
    let met = Arc::clone(&barrier);
    let completing = tokio::spawn(async move {
        met.wait().await;
        owner.complete(&lease, end).await
    });
    let claiming = tokio::spawn(async move {
        barrier.wait().await;
        rival.claim(&claim).await
    });
    let (completed, claimed) = tokio::join!(completing, claiming);
    let lost = |error| Stop::Error(format!("a contender did not come back: {error}"));
    Ok((completed.map_err(lost)??, claimed.map_err(lost)??))
}

async fn complete_or_takeover(t: &Trial) -> Outcome {
    let handles = handles(t).await?;
    for round in 0..DUELS {
        let (identity, old) = t.staged(Stage::Lapsed).await?;
        let claim = t.usual(&identity)?;
        let token = claim.token();
        let answers = duel(&handles, round, (old.lease.clone(), t.succeeded()), claim).await?;
        let record = t.record(&identity).await?;
        match answers {
            (Completed::Stored, Claimed::Replay(_)) => {
                ensure_eq!(record.state, State::Succeeded, "the state after the owner won");
                ensure_eq!(
                    (record.token, record.fence),
                    (old.lease.token, old.lease.fence),
                    "whose record it is after the owner won"
                );
            }
            (Completed::Lost, Claimed::Acquired(new)) => {
                ensure_eq!(record.state, State::Processing, "the state after the takeover won");
                ensure_eq!(
                    (record.token, record.fence),
                    (token, new.lease.fence),
                    "whose record it is after the takeover won"
                );
                ensure!(new.lease.fence > old.lease.fence, "a takeover that won has no greater fence");
            }
            (completed, claimed) => {
                return Err(Stop::Fail(format!(
                    "a completion was {completed:?} and the takeover that raced with it was {}: no order explains both",
                    name_of(&claimed)
                )));
            }
        }
    }
    Ok(())
}

async fn two_ends(t: &Trial) -> Outcome {
    let handles = handles(t).await?;
    for round in 0..DUELS {
        let identity = t.identity()?;
        let lease = t.acquire(&identity).await?.lease;
        let barrier = Arc::new(Barrier::new(2));
        let racing: Vec<_> = [(t.succeeded(), State::Succeeded), (t.failed(), State::Failed)]
            .into_iter()
            .enumerate()
            .map(|(number, (end, state))| {
                let handle = handles[(round + number) % handles.len()].clone();
                let (barrier, lease) = (Arc::clone(&barrier), lease.clone());
                tokio::spawn(async move {
                    barrier.wait().await;
                    handle.complete(&lease, end).await.map(|answer| (answer, state))
                })
            })
            .collect();
        let mut first = Vec::new();
        for ended in futures::future::join_all(racing).await {
            match ended.map_err(|error| Stop::Error(format!("an end did not come back: {error}")))?? {
                (Completed::Stored, state) => first.push(state),
                (Completed::AlreadyStored, _) => {}
                (Completed::Lost, _) => return Err(Stop::Fail("an end that raced with another was Lost".into())),
            }
        }
        ensure_eq!(first.len(), 1, "how many of two ends of one attempt were Stored");
        ensure_eq!(vec![t.record(&identity).await?.state], first, "the recorded end beside the one that was Stored");
    }
    Ok(())
}
