//! The life of one attempt, from its start to the caller's answer.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::config::defaults;
use crate::executor::Inner;
use crate::{
    Attempt, Confirm, End, Ended, Error, ErrorKind, Fault, Final, Outcome, Record, Recorded, Replay, Reply, State,
    Ticket,
};

/// When to ask again about an attempt whose lease this process does not know.
const SOON: Duration = Duration::from_secs(1);

pub(crate) type Answer<T, E> = oneshot::Sender<Result<Outcome<T, E>, Error>>;

/// Runs the work in the task that calls this, stores its end, and answers the caller.
pub(crate) async fn drive<T, E, F, Fut>(inner: Arc<Inner>, ticket: Ticket, work: F, caller: Answer<T, E>)
where
    T: Reply,
    E: Reply,
    F: FnOnce(Attempt) -> Fut + Send + 'static,
    Fut: Future<Output = Result<T, Fault<E>>> + Send + 'static,
{
    if caller.is_closed() {
        return; // The caller went away before the work was polled: the ticket releases the key.
    }
    let attempt = ticket.attempt().clone();
    let running = match ticket.start().await {
        Ok(Some(running)) => running,
        Ok(None) => {
            let taken_over = Outcome::InFlight { retry_after: attempt.own().length.as_duration().min(SOON) };
            return answer(caller, read(found(&inner, &attempt).await, &attempt, taken_over));
        }
        Err(error) => return answer(caller, Err(error)),
    };
    if caller.is_closed() {
        drop(running.end(None)); // It went away while the start was announced; still nothing has happened.
        return;
    }
    let given = attempt.clone();
    let result = AssertUnwindSafe(async move { work(given).await }).catch_unwind().await.ok();
    let end = result.as_ref().map_or(Some(End::Unknown(None)), end_of);
    // Stored in a task of its own: what follows only listens to it.
    let stored = running.end(end.clone());
    let budget = match inner.config.confirm {
        Confirm::Within(budget) => budget,
        Confirm::AtOnce if attempt.lease_was_shown() => defaults::CONFIRM_BUDGET,
        Confirm::AtOnce => return answer(caller, Ok(result.map_or(Outcome::Panicked, Outcome::Executed))),
    };
    let told = timeout(budget, async {
        let ended = stored.await;
        let record = if ended == Ended::Otherwise { found(&inner, &attempt).await } else { None };
        (ended, record)
    });
    let (ended, record) = told.await.unwrap_or((Ended::GaveUp, None));
    answer(caller, said(ended, record, &attempt, end.as_ref(), result));
}

/// A caller that went away is answered from the record when it comes back.
fn answer<T, E>(caller: Answer<T, E>, outcome: Result<Outcome<T, E>, Error>) {
    let _ = caller.send(outcome);
}

/// How the record is to end; None is a release.
fn end_of<T: Reply, E: Reply>(result: &Result<T, Fault<E>>) -> Option<End> {
    match result {
        Ok(value) => Some(End::Succeeded(recorded(value))),
        Err(Fault::Final(value)) => Some(End::Failed(recorded(value))),
        Err(Fault::Unknown(value)) => Some(End::Unknown(written(value))),
        Err(Fault::NothingHappened(_)) => None,
    }
}

/// The effect has happened: a value that cannot be written down leaves a tombstone.
fn recorded(value: &impl Reply) -> Recorded {
    written(value).unwrap_or_else(|| {
        tracing::error!("the response cannot be recorded; a tombstone is left");
        Recorded::Tombstone { code: 0 }
    })
}

/// None when it cannot be written down, whether it says so or panics.
fn written(value: &impl Reply) -> Option<Recorded> {
    std::panic::catch_unwind(AssertUnwindSafe(|| value.record())).ok()?.ok()
}

/// The outcome, once the end has been stored or refused.
fn said<T: Reply, E: Reply>(
    ended: Ended,
    record: Option<Record>,
    attempt: &Attempt,
    end: Option<&End>,
    result: Option<Result<T, Fault<E>>>,
) -> Result<Outcome<T, E>, Error> {
    let as_said = |result: Option<_>| result.map_or(Outcome::Panicked, Outcome::Executed);
    let not_known = |result: Option<_>| result.map_or(Outcome::Panicked, Outcome::Unconfirmed);
    match (ended, record) {
        (Ended::AsSaid, _) => Ok(as_said(result)),
        (Ended::GaveUp, _) => Ok(not_known(result)),
        (Ended::Otherwise, Some(record)) if says(&record, attempt, end) => Ok(as_said(result)),
        // That nothing happened in this attempt is true, whatever became of the key since.
        (Ended::Otherwise, record) if end.is_none() => {
            read(record.filter(|r| ours(r, attempt)), attempt, as_said(result))
        }
        (Ended::Otherwise, record) => read(record, attempt, not_known(result)),
    }
}

/// What the record says about *this* request. By now the key may have been freed and used for another one, whose answer
/// is none of our caller's business.
async fn found(inner: &Inner, attempt: &Attempt) -> Option<Record> {
    let asked = timeout(inner.config.claim_budget, inner.store.get(attempt.identity())).await;
    let record = asked.ok()?.ok()?;
    record.filter(|record| record.fingerprint == *attempt.fingerprint())
}

/// Is what the record says our own word? Then nobody overruled it: the reply to its first sending was lost, or the work
/// had said the same in a joint transaction.
fn says(record: &Record, attempt: &Attempt, end: Option<&End>) -> bool {
    let the_same = match (end, record.state) {
        (Some(End::Succeeded(recorded)), State::Succeeded) | (Some(End::Failed(recorded)), State::Failed) => {
            // The store may have kept a tombstone of it (F7).
            let tombstone = Recorded::Tombstone { code: recorded.code() };
            record.recorded.as_ref().is_some_and(|kept| kept == recorded || *kept == tombstone)
        }
        (Some(End::Unknown(_)), State::Unknown) => true,
        _ => false,
    };
    the_same && ours(record, attempt)
}

fn ours(record: &Record, attempt: &Attempt) -> bool {
    record.token == attempt.own().token
}

/// Answers with what the record says, after our own word was refused; with `otherwise` when it says nothing final.
fn read<T: Reply, E: Reply>(
    record: Option<Record>,
    attempt: &Attempt,
    otherwise: Outcome<T, E>,
) -> Result<Outcome<T, E>, Error> {
    let Some(record) = record else { return Ok(otherwise) };
    let end = match record.state {
        State::Succeeded => Final::Succeeded,
        State::Failed => Final::Failed,
        State::Processing | State::Unknown | State::Released | State::Spent(_) => return Ok(otherwise),
    };
    let ours = ours(&record, attempt);
    let Some(recorded) = record.recorded else { return Ok(otherwise) };
    Ok(match replayed(Replay { end, recorded })? {
        // Our own attempt finished it, in a joint transaction.
        Outcome::Replayed(replayed) if ours => Outcome::Executed(replayed.map_err(Fault::Final)),
        outcome => outcome,
    })
}

/// The outcome that a finished record stands for.
pub(crate) fn replayed<T: Reply, E: Reply>(replay: Replay) -> Result<Outcome<T, E>, Error> {
    let Replay { end, recorded } = replay;
    let response = match recorded {
        Recorded::Response(response) => response,
        Recorded::Tombstone { code } => return Ok(Outcome::NotKept { end, code }),
    };
    let result = match end {
        Final::Succeeded => T::replay(response).map(Ok),
        Final::Failed => E::replay(response).map(Err),
    };
    result.map(Outcome::Replayed).map_err(|_| {
        Error::new(ErrorKind::Schema, "the recorded response cannot be read as the type that is asked for")
    })
}
