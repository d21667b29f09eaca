//! Business rows and the record in one transaction: [`settle`](SqliteStore::settle), [`once`](SqliteStore::once), and
//! [`transaction`](SqliteStore::transaction) for rows alone.

use std::fmt;
use std::time::{Duration, Instant};

use idem_core::{
    Claim, Claimed, Complete, Completed, End, Error, ErrorKind, Final, Grant, Lease, Replay, Spent, Uncertain, machine,
};
use rusqlite::Transaction;

use crate::error::{self, Moment};
use crate::guest::Guest;
use crate::job::{Alone, Began, Begun, Job, Order, Ticket, order};
use crate::operation::{Context, Operation, check_size};
use crate::store::SqliteStore;
use crate::{row, writer};

/// The answer to [`once`](SqliteStore::once) (clause J2).
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Once {
    /// The closure ran, and its rows and the record are committed.
    First(Replay),
    /// It was done before; this is how it went. The closure did not run.
    Done(Replay),
    /// Another attempt's lease is running. The closure did not run.
    Busy {
        /// Above zero, and at most what is left of the lease.
        retry_after: Duration,
    },
    /// The key was used for another request. The closure did not run.
    Mismatch,
    /// An attempt outside a transaction left an effect that is not known. The closure did not run.
    Uncertain(Uncertain),
    /// It was done, its retention is over, and the store still remembers. The closure did not run.
    Spent(Spent),
}

/// Why a transaction with a closure was not committed.
#[derive(Debug)]
pub enum TransactionError<E> {
    /// The closure's own error. Everything was rolled back.
    Work(E),
    /// The store's. Everything was rolled back, unless its kind is `Indeterminate`.
    Store(Error),
}

impl<E> From<Error> for TransactionError<E> {
    fn from(error: Error) -> TransactionError<E> {
        TransactionError::Store(error)
    }
}

impl<E: fmt::Display> fmt::Display for TransactionError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TransactionError::Work(error) => error.fmt(f),
            TransactionError::Store(error) => error.fmt(f),
        }
    }
}

impl<E: std::error::Error + 'static> std::error::Error for TransactionError<E> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            TransactionError::Work(error) => error.source(),
            TransactionError::Store(error) => error.source(),
        }
    }
}

/// # Joining the application's own rows
/// Each of these runs a closure on the writer's thread, in a transaction of its own that holds the write lock. Two
/// things follow. Every other writer waits as long as the closure runs, so it does what has to be in the transaction
/// and nothing slower; and nothing outside this database may happen in it, because a rollback does not take that back.
/// The store's deadline is for its beginning: a closure that runs is waited for.
///
/// The closure has rusqlite's own transaction, and may do with it what SQL can, but not end it, attach files, change
/// the settings that the store stands on, or write to `idem_*` tables: such a statement is refused as *not authorized*.
/// A panic in it is rolled back and given back as a permanent `TransactionAborted`. To read, open a connection of your
/// own: in WAL mode it disturbs nobody.
impl SqliteStore {
    /// Ends an attempt and writes its rows: both are committed, or neither (clause J1).
    ///
    /// # Behavior
    /// - The closure runs only when the lease is the current one, which nobody can change while it runs.
    /// - `Stored`: the rows and the record are committed.
    /// - `AlreadyStored` or `Lost`: the closure did not run and nothing was changed (F5b). After `AlreadyStored` the
    ///   rows of the first time are there: a repeat after a lost reply is harmless.
    /// - An error of the closure rolls everything back. The attempt goes on, and may be settled or ended again.
    /// - Renewals wait behind a running closure; nobody can take over in the meantime, because that would be a write.
    ///
    /// # Errors
    /// [`Work`](TransactionError::Work) with the closure's error. [`Store`](TransactionError::Store): `TooLarge` (F7;
    /// rolled back), `TransactionAborted`, `Unavailable`, `Indeterminate`, `Schema`.
    ///
    /// # Cancel safety
    /// Dropped, it happens wholly or not at all; repeating it tells.
    pub async fn settle<E: Send + 'static>(
        &self,
        lease: &Lease,
        work: impl FnOnce(&Transaction<'_>) -> Result<End, E> + Send + 'static,
    ) -> Result<Completed, TransactionError<E>> {
        let lease = lease.clone();
        self.alone(self.deadline(), move |transaction, context, guest| {
            let refused = refused(transaction, context, &lease)?;
            if refused != Completed::Stored {
                return Ok((refused, Fate::RollBack));
            }
            let end = guest.run(transaction, || work(transaction))?;
            check_size(end.recorded(), context.response_limit)?;
            let completed = Complete::new(lease, end).run(transaction, context)?;
            let fate = if completed == Completed::Stored { Fate::Commit } else { Fate::RollBack };
            Ok((completed, fate))
        })
        .await
    }

    /// Runs a closure once for a key, claim and record and rows in one transaction (clause J2): for effects that are
    /// all in this database, as a webhook's inbox or a queue's consumer has.
    ///
    /// # Behavior
    /// - `First` when the closure ran: its rows and the record are committed. Every other answer means that it did not
    ///   run and nothing was changed.
    /// - The closure says what later callers are answered: succeeded, or finally failed.
    /// - An error of the closure, a panic or a crash leaves nothing at all, not even a claim: the next one is first.
    ///
    /// # Errors
    /// As [`settle`](SqliteStore::settle).
    ///
    /// # Cancel safety
    /// Dropped, it happens wholly or not at all; repeating it tells.
    pub async fn once<E: Send + 'static>(
        &self,
        claim: &Claim,
        work: impl FnOnce(&Transaction<'_>, &Grant) -> Result<Replay, E> + Send + 'static,
    ) -> Result<Once, TransactionError<E>> {
        let deadline = self.deadline();
        if let Some(answer) = self.answer_without_writing(claim, deadline).await?
            && let Err(answered) = granted(answer)
        {
            return Ok(*answered);
        }
        let claim = claim.clone();
        self.alone(deadline, move |transaction, context, guest| {
            let grant = match granted(claim.run(transaction, context)?) {
                Ok(grant) => grant,
                Err(answered) => return Ok((*answered, Fate::RollBack)),
            };
            let replay = guest.run(transaction, || work(transaction, &grant))?;
            check_size(Some(&replay.recorded), context.response_limit)?;
            let recorded = replay.recorded.clone();
            let end = match replay.end {
                Final::Succeeded => End::Succeeded(recorded),
                Final::Failed => End::Failed(recorded),
            };
            match Complete::new(grant.lease, end).run(transaction, context)? {
                Completed::Stored => Ok((Once::First(replay), Fate::Commit)),
                Completed::AlreadyStored | Completed::Lost => {
                    Err(Error::new(ErrorKind::Bug, "a grant was lost inside its own transaction").into())
                }
            }
        })
        .await
    }

    /// Runs a closure in a transaction of its own, without any record: for rows that nobody retries, so that an
    /// application's other writes queue behind the same writer instead of contending for the file.
    ///
    /// # Errors
    /// As [`settle`](SqliteStore::settle); an error of the closure rolls back.
    ///
    /// # Cancel safety
    /// Dropped, it happens wholly or not at all, and nothing remembers which.
    pub async fn transaction<T: Send + 'static, E: Send + 'static>(
        &self,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, E> + Send + 'static,
    ) -> Result<T, TransactionError<E>> {
        self.alone(self.deadline(), move |transaction, _, guest| {
            let value = guest.run(transaction, || work(transaction))?;
            Ok((value, Fate::Commit))
        })
        .await
    }

    async fn alone<T: Send + 'static, E: Send + 'static>(
        &self,
        deadline: Instant,
        work: impl FnOnce(&Transaction<'_>, &Context, &Guest) -> Result<(T, Fate), TransactionError<E>> + Send + 'static,
    ) -> Result<T, TransactionError<E>> {
        let (order, waiting) = order(deadline);
        self.send(Job::Alone(Box::new(Closure { work, order })))?;
        waiting.answer(Begun::Await).await?
    }
}

/// What a lease would be answered, without its end: `Stored` when it is the current one.
fn refused(transaction: &Transaction<'_>, context: &Context, lease: &Lease) -> Result<Completed, Error> {
    let record = row::find(transaction, &lease.identity).map_err(|refusal| error::of(refusal, Moment::Statement))?;
    let trial = Complete::new(lease.clone(), End::Unknown(None));
    Ok(machine::complete(record.as_ref(), &trial, context.clock.now(), &context.rules).0)
}

fn granted(claimed: Claimed) -> Result<Grant, Box<Once>> {
    Err(Box::new(match claimed {
        Claimed::Acquired(grant) => return Ok(grant),
        Claimed::Replay(replay) => Once::Done(replay),
        Claimed::InFlight { retry_after } => Once::Busy { retry_after },
        Claimed::Mismatch => Once::Mismatch,
        Claimed::Uncertain(uncertain) => Once::Uncertain(uncertain),
        Claimed::Spent(spent) => Once::Spent(spent),
    }))
}

/// What becomes of a transaction whose closure had no error.
enum Fate {
    Commit,
    RollBack,
}

struct Closure<W, T, E> {
    work: W,
    order: Order<Result<T, TransactionError<E>>>,
}

impl<W, T, E> Alone for Closure<W, T, E>
where
    W: FnOnce(&Transaction<'_>, &Context, &Guest) -> Result<(T, Fate), TransactionError<E>> + Send,
    T: Send,
    E: Send,
{
    fn ticket(&self) -> &Ticket {
        &self.order.ticket
    }

    fn deadline(&self) -> Instant {
        self.order.deadline
    }

    fn run(self: Box<Self>, began: Began<'_>) {
        let Closure { work, order } = *self;
        let transaction = began.transaction;
        let outcome = match work(&transaction, began.context, began.guest) {
            Ok((value, Fate::Commit)) => match writer::commit(&transaction, order.deadline) {
                Ok(()) => {
                    began.counters.committed();
                    Ok(value)
                }
                Err(refusal) => Err(error::of(refusal, Moment::Commit).into()),
            },
            Ok((value, Fate::RollBack)) => Ok(value),
            Err(why) => Err(why),
        };
        drop(transaction); // Rolls back what is not committed, before anybody is answered.
        let _ = order.answer.send(outcome); // Nobody waits any more when the caller's future was dropped.
    }

    fn refuse(self: Box<Self>, why: Error) {
        let _ = self.order.answer.send(Err(why.into()));
    }
}
