//! Work on its way to a thread: who waits for it, until when, and who decides that it is too late.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Instant;

use idem_core::{Error, ErrorKind};
use rusqlite::Connection;
use tokio::sync::oneshot;

use crate::operation::{Context, Operation};

const WAITING: u8 = 0;
const STARTED: u8 = 1;
const GIVEN_UP: u8 = 2;

/// Settles between caller and thread whether a job begins or is given up: exactly one of the two happens, so a caller
/// that gave up in time knows that nothing was applied.
#[derive(Debug, Default)]
pub(crate) struct Ticket(AtomicU8);

impl Ticket {
    /// The thread begins. False when the caller has given up.
    pub(crate) fn start(&self) -> bool {
        match self.0.compare_exchange(WAITING, STARTED, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => true,
            Err(stage) => stage == STARTED,
        }
    }

    /// The caller waits no longer. False when the thread has begun.
    pub(crate) fn give_up(&self) -> bool {
        self.0.compare_exchange(WAITING, GIVEN_UP, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    pub(crate) fn is_given_up(&self) -> bool {
        self.0.load(Ordering::Acquire) == GIVEN_UP
    }
}

/// The caller's half of a job.
#[derive(Debug)]
pub(crate) struct Waiting<T> {
    pub(crate) ticket: Arc<Ticket>,
    pub(crate) deadline: Instant,
    pub(crate) answer: oneshot::Receiver<T>,
}

/// The thread's half of a job.
#[derive(Debug)]
pub(crate) struct Order<T> {
    pub(crate) ticket: Arc<Ticket>,
    pub(crate) deadline: Instant,
    pub(crate) answer: oneshot::Sender<T>,
}

pub(crate) fn order<T>(deadline: Instant) -> (Order<T>, Waiting<T>) {
    let ticket = Arc::new(Ticket::default());
    let (sender, receiver) = oneshot::channel();
    let order = Order { ticket: Arc::clone(&ticket), deadline, answer: sender };
    (order, Waiting { ticket, deadline, answer: receiver })
}

/// What a caller does when the deadline is over and its job has begun.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Begun {
    /// Leaves it: the outcome is not known to this caller.
    Leave,
    /// Waits for its end: a closure's length is the caller's own.
    Await,
}

impl<T> Waiting<T> {
    /// Waits for the answer. Dropping this future does not stop the job.
    pub(crate) async fn answer(mut self, begun: Begun) -> Result<T, Error> {
        let answered = match tokio::time::timeout_at(self.deadline.into(), &mut self.answer).await {
            Ok(answered) => answered,
            Err(_) if self.ticket.give_up() => return Err(too_late()),
            Err(_) if begun == Begun::Leave => {
                return Err(Error::new(ErrorKind::Indeterminate, "no answer came before the deadline"));
            }
            Err(_) => self.answer.await,
        };
        answered.map_err(|_| Error::new(ErrorKind::Indeterminate, "the store's thread ended without an answer"))
    }
}

/// Nothing was applied.
pub(crate) fn too_late() -> Error {
    Error::new(ErrorKind::Unavailable, "the deadline was over before the work could begin")
}

/// An operation that shares a transaction with its neighbours.
pub(crate) trait Grouped: Send {
    fn ticket(&self) -> &Ticket;
    fn deadline(&self) -> Instant;
    /// Runs it, and keeps its answer back until the transaction is committed. It may be run again before that.
    fn run(&mut self, connection: &Connection, context: &Context);
    /// Gives the answer, or the reason why there was no commit.
    fn answer(self: Box<Self>, uncommitted: Option<Error>);
}

/// An [`Operation`] with somebody who waits for it.
pub(crate) struct Member<O: Operation> {
    operation: O,
    order: Order<Result<O::Answer, Error>>,
    outcome: Option<Result<O::Answer, Error>>,
}

impl<O: Operation> Member<O> {
    pub(crate) fn new(operation: O, order: Order<Result<O::Answer, Error>>) -> Member<O> {
        Member { operation, order, outcome: None }
    }
}

impl<O: Operation> Grouped for Member<O> {
    fn ticket(&self) -> &Ticket {
        &self.order.ticket
    }

    fn deadline(&self) -> Instant {
        self.order.deadline
    }

    fn run(&mut self, connection: &Connection, context: &Context) {
        self.outcome = Some(self.operation.run(connection, context));
    }

    fn answer(self: Box<Self>, uncommitted: Option<Error>) {
        let outcome = match (uncommitted, self.outcome) {
            // What was refused stays refused: nothing of it was to be committed.
            (Some(_), Some(Err(refusal))) | (None, Some(Err(refusal))) => Err(refusal),
            (Some(why), _) => Err(why),
            (None, Some(outcome)) => outcome,
            (None, None) => Err(too_late()),
        };
        // Nobody waits any more when the caller's future was dropped; the operation has happened all the same.
        let _ = self.order.answer.send(outcome);
    }
}

/// Work that has a transaction of its own.
pub(crate) trait Alone: Send {
    fn ticket(&self) -> &Ticket;
    fn deadline(&self) -> Instant;
    /// Runs it inside the open transaction, commits or rolls back, and answers.
    fn run(self: Box<Self>, transaction: Began<'_>);
    /// Answers that it could not begin.
    fn refuse(self: Box<Self>, why: Error);
}

/// A transaction that holds the write lock, and what comes with it.
pub(crate) struct Began<'a> {
    pub(crate) transaction: rusqlite::Transaction<'a>,
    pub(crate) context: &'a Context,
    pub(crate) guest: &'a crate::guest::Guest,
    pub(crate) counters: &'a crate::stats::Counters,
}

/// What the writer takes.
pub(crate) enum Job {
    Grouped(Box<dyn Grouped>),
    Alone(Box<dyn Alone>),
}

impl Job {
    pub(crate) fn ticket(&self) -> &Ticket {
        match self {
            Job::Grouped(member) => member.ticket(),
            Job::Alone(alone) => alone.ticket(),
        }
    }

    pub(crate) fn deadline(&self) -> Instant {
        match self {
            Job::Grouped(member) => member.deadline(),
            Job::Alone(alone) => alone.deadline(),
        }
    }

    /// Answers that it could not begin.
    pub(crate) fn refuse(self, why: Error) {
        match self {
            Job::Grouped(member) => member.answer(Some(why)),
            Job::Alone(alone) => alone.refuse(why),
        }
    }
}
