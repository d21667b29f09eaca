//! CANCEL: a caller that leaves in the middle of a call, at every point at which a future can be dropped.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::Poll;

use idem_core::{Attempt, Config, Error, Fault, Idem, Identity, Outcome as Executed, Record, Request, State};

use super::call::{Call, Kind, finish};
use crate::harness::How;
use crate::rules::{Profile, Rule, run};
use crate::trial::{DEADLINE, Handle, LEASE, Outcome, RETENTION, SLACK, Stop, Trial, ensure};

const CORE: Rule = Rule::of(Profile::Core);

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "CANCEL-001",
        slug: "dropped_claim",
        clause: "X3",
        text: "A claim that is dropped at any poll happened wholly or not at all, and the next calls are right.",
        why: "Clients go away in the middle.",
        check: run!(dropped_claim),
        ..CORE
    },
    Rule {
        id: "CANCEL-002",
        slug: "dropped_complete",
        clause: "X3",
        text: "A completion that is dropped at any poll happened wholly or not at all, and the next calls are right.",
        why: "A connection that goes back inside a transaction blocks everybody.",
        check: run!(dropped_complete),
        ..CORE
    },
    Rule {
        id: "CANCEL-003",
        slug: "dropped_execution",
        clause: "X3, C14",
        text: "An execution that is dropped at any poll leaks no lease and no task.",
        why: "The caller's disconnect must not cancel the record.",
        check: run!(dropped_execution),
        ..CORE
    },
];

/// No call is polled more often than this.
const POLLS: u32 = 1_000;
/// How often a record is read while a dropped call may be at it.
const READINGS: usize = 10;

/// How often an execution is asked for again that ended with a retryable error.
const TRIES: usize = 3;

async fn dropped_claim(t: &Trial) -> Outcome {
    dropped(t, &[Kind::ClaimOfNothing, Kind::ClaimOfLapsed]).await
}

async fn dropped_complete(t: &Trial) -> Outcome {
    dropped(t, &[Kind::Complete]).await
}

/// Drops these calls after their nth poll, for every n, on one pool of one connection.
async fn dropped(t: &Trial, kinds: &[Kind]) -> Outcome {
    let others = t.store().await?;
    // Where handles share nothing, there are no others, and no pool.
    let store = match t.declaration().claims(Profile::Shared) {
        true => t.open(&How::usual().alone().within(DEADLINE)).await?,
        false => others.clone(),
    };
    for polls in 0..POLLS {
        let mut ended = true;
        for kind in kinds {
            let call = kind.call(t).await?;
            let answer = poll_and_drop(call.send(store.raw()), polls).await;
            ended &= answer.is_some();
            let what = format!("a {} that was dropped after {polls} polls", kind.name());
            // The pool of one, first by a call that has nothing to do with it.
            let bystander = Kind::ClaimOfNothing.call(t).await?;
            finish(&bystander, &store, &format!("another claim on the connection of {what}")).await?;
            finish(&call, &store, &format!("the same call again, after {what}")).await?;
            free_for_others(t, &others, &call, &what).await?;
        }
        if ended {
            return Ok(());
        }
    }
    Err(Stop::Error(format!("a call was not answered after {POLLS} polls")))
}

/// What was dropped and repeated is there once, and nothing is locked under another handle.
async fn free_for_others(t: &Trial, others: &Handle, call: &Call, what: &str) -> Outcome {
    let record = settled(t, call.identity()).await?;
    ensure!(call.is_in(Some(&record)), "after {what} and its repeat the record does not show it: {record:?}");
    let claim = t.usual(call.identity())?;
    match call {
        Call::Claim(_) => drop(others.in_flight(&claim, &format!("by another handle, after {what}")).await?),
        _ => drop(others.replay(&claim, &format!("by another handle, after {what}")).await?),
    }
    Ok(())
}

/// Polls a future so many times, each time when it asks for it, and drops it. The answer, if there was one by then.
async fn poll_and_drop<F: Future>(future: F, polls: u32) -> Option<F::Output> {
    let mut future = pin!(future);
    let mut left = polls;
    std::future::poll_fn(|context| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        match future.as_mut().poll(context) {
            Poll::Ready(answer) => Poll::Ready(Some(answer)),
            Poll::Pending if left == 0 => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

async fn dropped_execution(t: &Trial) -> Outcome {
    let store = t.store().await?;
    let mut config = Config::default();
    config.claim_budget = DEADLINE;
    for polls in 0..POLLS {
        let claim = t.usual(&t.identity()?)?;
        let request = Request::new(claim.identity().clone(), claim.operation().clone(), *claim.fingerprint())
            .lease(LEASE)
            .retention(RETENTION)
            .on_uncertain(claim.on_uncertain());
        let runs = Arc::new(AtomicU32::new(0));
        let what = format!("an execution that was dropped after {polls} polls");
        let idem = Idem::with_config(store.shared(), config.clone());
        let answer = poll_and_drop(execute(&idem, &request, &runs), polls).await;
        let running = idem.drain(DEADLINE + SLACK).await;
        ensure!(running == 0, "{what} leaks {running} tasks");
        let ran = runs.load(Ordering::SeqCst);
        let record = store.get(claim.identity()).await?;
        let state = record.map(|record| record.state);
        match (ran, state) {
            (0, None | Some(State::Released)) | (1, Some(State::Succeeded)) => {}
            (0, Some(State::Processing)) => {
                return Err(Stop::Fail(format!("{what} ran nothing, and leaks its lease")));
            }
            _ => return Err(Stop::Fail(format!("{what} ran {ran} times, and the record is {state:?}"))),
        }
        again(&Idem::with_config(store.shared(), config.clone()), &request, &runs, &what).await?;
        if answer.is_some() {
            return Ok(());
        }
    }
    Err(Stop::Error(format!("an execution was not answered after {POLLS} polls")))
}

async fn execute(idem: &Idem, request: &Request, runs: &Arc<AtomicU32>) -> Result<Executed<String>, Error> {
    let runs = Arc::clone(runs);
    let work = move |_: Attempt| async move {
        runs.fetch_add(1, Ordering::SeqCst);
        tokio::task::yield_now().await;
        Ok::<_, Fault<String>>("done".to_owned())
    };
    idem.run(request.clone(), work).await
}

/// Asked for again, it is answered, and has run once in all.
async fn again(idem: &Idem, request: &Request, runs: &Arc<AtomicU32>, what: &str) -> Outcome {
    for _ in 0..TRIES {
        match execute(idem, request, runs).await {
            Ok(Executed::Executed(Ok(answer)) | Executed::Replayed(Ok(answer))) if answer == "done" => {
                let ran = runs.load(Ordering::SeqCst);
                ensure!(ran == 1, "{what} and its repeat ran {ran} times");
                return Ok(());
            }
            Err(error) if error.is_retryable() => {}
            other => return Err(Stop::Fail(format!("{what} was asked for again, and ended as {other:?}"))),
        }
    }
    Err(Stop::Fail(format!("{what} was asked for again, and ended with nothing but errors")))
}

/// The record, once what the dropped call has sent is over: the store may still be at it, so that two readings of one moment
/// are not to be had at once. Only here: an answer that came before its write is a defect everywhere else.
async fn settled(t: &Trial, identity: &Identity) -> Result<Record, Stop> {
    for _ in 1..READINGS {
        if let Ok(record) = t.record(identity).await {
            return Ok(record);
        }
    }
    t.record(identity).await
}
