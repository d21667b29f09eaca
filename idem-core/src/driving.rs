//! The life of one attempt, from its start to the caller's answer.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use tokio::sync::oneshot;

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
            let taken_over = Outcome::InFlight { retry_after: attempt.lease().length.as_duration().min(SOON) };
            return answer(caller, read(found(&inner, &attempt).await, &attempt, taken_over));
        }
        Err(error) => return answer(caller, Err(error)),
    };
    let given = attempt.clone();
    let result = AssertUnwindSafe(async move { work(given).await }).catch_unwind().await.ok();
    let end = result.as_ref().map_or(Some(End::Unknown(None)), end_of);
    let mut stored = Box::pin(running.end(end.clone()));
    let ended = match inner.config.confirm {
        Confirm::AtOnce => None,
        Confirm::Within(budget) => tokio::time::timeout(budget, &mut stored).await.ok(),
    };
    match ended {
        Some(ended) => answer(caller, said(&inner, ended, &attempt, end, result).await),
        None => {
            let outcome = match (inner.config.confirm, result) {
                (_, None) => Outcome::Panicked,
                (Confirm::AtOnce, Some(result)) => Outcome::Executed(result),
                (Confirm::Within(_), Some(result)) => Outcome::Unconfirmed(result),
            };
            answer(caller, Ok(outcome));
            let _logged = stored.await;
        }
    }
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
        Err(Fault::Unknown(value)) => Some(End::Unknown(value.record().ok())),
        Err(Fault::NothingHappened(_)) => None,
    }
}

/// The effect has happened: a value that cannot be written down leaves a tombstone.
fn recorded(value: &impl Reply) -> Recorded {
    value.record().unwrap_or_else(|error| {
        tracing::error!(%error, "the response cannot be recorded; a tombstone is left");
        Recorded::Tombstone { code: 0 }
    })
}

/// The outcome, once the end has been stored or refused.
async fn said<T: Reply, E: Reply>(
    inner: &Inner,
    ended: Ended,
    attempt: &Attempt,
    end: Option<End>,
    result: Option<Result<T, Fault<E>>>,
) -> Result<Outcome<T, E>, Error> {
    let not_known = |result: Option<_>| result.map_or(Outcome::Panicked, Outcome::Unconfirmed);
    match ended {
        Ended::AsSaid => Ok(result.map_or(Outcome::Panicked, Outcome::Executed)),
        Ended::GaveUp => Ok(not_known(result)),
        Ended::Otherwise => match found(inner, attempt).await {
            Some(record) if says(&record, attempt, end.as_ref()) => {
                Ok(result.map_or(Outcome::Panicked, Outcome::Executed))
            }
            record => read(record, attempt, not_known(result)),
        },
    }
}

/// What the record says about *this* request. By now the key may have been freed and used for another one, whose answer
/// is none of our caller's business.
async fn found(inner: &Inner, attempt: &Attempt) -> Option<Record> {
    let record = inner.store.get(attempt.identity()).await.ok().flatten();
    record.filter(|record| record.fingerprint == *attempt.fingerprint())
}

/// Is what the record says our own word? Then nobody overruled it: the reply to its first sending was lost, or the work
/// had said the same in a joint transaction.
fn says(record: &Record, attempt: &Attempt, end: Option<&End>) -> bool {
    let ours = match (end, record.state) {
        (Some(End::Succeeded(recorded)), State::Succeeded) | (Some(End::Failed(recorded)), State::Failed) => {
            // The store may have kept a tombstone of it (F7).
            let tombstone = Recorded::Tombstone { code: recorded.code() };
            record.recorded.as_ref().is_some_and(|kept| kept == recorded || *kept == tombstone)
        }
        (Some(End::Unknown(_)), State::Unknown) => true,
        _ => false,
    };
    ours && record.token == attempt.lease().token
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
    let Some(recorded) = record.recorded else { return Ok(otherwise) };
    Ok(match replayed(Replay { end, recorded })? {
        // Our own attempt finished it, in a joint transaction.
        Outcome::Replayed(replayed) if record.token == attempt.lease().token => {
            Outcome::Executed(replayed.map_err(Fault::Final))
        }
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
