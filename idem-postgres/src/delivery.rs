//! How an operation gets to the server: a connection, a deadline, and the same again when that is right.

use std::sync::Arc;
use std::time::Duration;

use idem_core::{Error, ErrorKind};
use sqlx::pool::PoolConnection;
use sqlx::{PgPool, Postgres};
use tokio::time::{Instant, sleep, timeout_at};

use crate::error::{Class, Failure};
use crate::operation::{Context, Earlier, Lost, Operation};
use crate::probe;

/// The first pause between two tries; the pauses double.
const SHORTEST: Duration = Duration::from_millis(2);
const LONGEST: Duration = Duration::from_millis(250);

/// Tries after which a lost or refused connection is reported instead of tried once more, beside one for each
/// connection of the pool: a restart of the server leaves all of them dead.
const PATIENCE: u32 = 4;

/// Whose pool it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Pool {
    /// Ours: nothing but this store's autocommit statements runs on it.
    Own,
    /// The application's. A `begin` that was dropped half way leaves a session inside a transaction, and what is
    /// written there nobody will see: each connection is asked before it is used.
    Shared,
}

#[derive(Debug)]
pub(crate) struct Delivery {
    pub(crate) pool: PgPool,
    pub(crate) whose: Pool,
    pub(crate) context: Context,
    pub(crate) deadline: Duration,
}

impl Delivery {
    /// Runs an operation in a task of its own, so that a caller who leaves does not cut it in half: the pool gets its
    /// connection back sound, and the server's answer is heard (clause X3). The task ends by the deadline.
    pub(crate) async fn deliver<O: Operation>(self: &Arc<Self>, operation: O) -> Result<O::Answer, Error> {
        let this = Arc::clone(self);
        in_task(async move { this.run(&operation).await }).await
    }

    async fn run<O: Operation>(&self, operation: &O) -> Result<O::Answer, Error> {
        let now = Instant::now();
        let deadline = now.checked_add(self.deadline).unwrap_or(now + Duration::from_secs(86_400));
        let patience = PATIENCE + self.pool.options().get_max_connections();
        let mut pause = SHORTEST;
        let mut earlier = Earlier::None;
        let mut tries = 0;
        loop {
            let failure = match self.try_once(operation, earlier, deadline).await {
                Ok(answer) => return Ok(answer),
                Err(failure) => failure,
            };
            tries += 1;
            let again = match failure.class() {
                Class::Locked => match operation.when_locked() {
                    // A first try may have been granted: that it is locked now says nothing about it.
                    Some(answer) if earlier == Earlier::None => return Ok(answer),
                    _ => false,
                },
                Class::Conflict => true,
                Class::Unknown(_) => {
                    earlier = Earlier::MayHaveBeenApplied;
                    O::WHEN_LOST != Lost::Report && tries < patience
                }
                Class::Connection(_) => tries < patience,
                _ => false,
            };
            if !again || Instant::now() + pause >= deadline {
                return Err(in_doubt(failure.into_error(), earlier, O::WHEN_LOST));
            }
            sleep(pause.mul_f64(rand::random_range(0.5..=1.0))).await;
            pause = (pause * 2).min(LONGEST);
        }
    }

    async fn try_once<O: Operation>(
        &self,
        operation: &O,
        earlier: Earlier,
        deadline: Instant,
    ) -> Result<O::Answer, Failure> {
        let mut connection = self.connect(deadline).await?;
        let outcome = match timeout_at(deadline, operation.run(&mut connection, &self.context, earlier)).await {
            Ok(outcome) => outcome,
            Err(_) => Err(Failure::TimedOut),
        };
        if let Err(failure) = &outcome
            && !failure.spares_the_connection()
        {
            discard(connection);
        }
        outcome
    }

    async fn connect(&self, deadline: Instant) -> Result<PoolConnection<Postgres>, Failure> {
        loop {
            let acquired = timeout_at(deadline, self.pool.acquire()).await.map_err(|_| Failure::NoTime)?;
            let mut connection = acquired.map_err(Failure::NoConnection)?;
            match self.whose {
                Pool::Own => return Ok(connection),
                Pool::Shared => match timeout_at(deadline, probe::is_alone(&mut connection)).await {
                    Ok(Ok(true)) => return Ok(connection),
                    Ok(Ok(false)) => {
                        tracing::warn!("a connection of the pool was left inside a transaction, and is closed");
                        discard(connection);
                    }
                    // Dead in the pool; the pool opens another.
                    Ok(Err(_)) => discard(connection),
                    Err(_) => {
                        discard(connection);
                        return Err(Failure::NoTime);
                    }
                },
            }
        }
    }
}

/// Runs it in a task of its own, which goes on when the caller leaves.
pub(crate) async fn in_task<T: Send + 'static>(
    work: impl Future<Output = Result<T, Error>> + Send + 'static,
) -> Result<T, Error> {
    match tokio::spawn(work).await {
        Ok(outcome) => outcome,
        Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        Err(_) => Err(Error::new(ErrorKind::Indeterminate, "the runtime was shut down meanwhile")),
    }
}

/// Closes a connection at once, without a word to a server that may not listen; the pool opens another in its place.
fn discard(connection: PoolConnection<Postgres>) {
    drop(connection.detach());
}

/// An earlier try that may have been applied leaves a doubt that a later refusal does not take away; a look leaves none.
fn in_doubt(error: Error, earlier: Earlier, when_lost: Lost) -> Error {
    match (when_lost, earlier, error.kind()) {
        (Lost::LookAgain, _, ErrorKind::Indeterminate) => {
            Error::new(ErrorKind::Unavailable, "the answer was lost").with_source(error)
        }
        (Lost::Repeat | Lost::Report, Earlier::MayHaveBeenApplied, ErrorKind::Unavailable) => {
            Error::new(ErrorKind::Indeterminate, "the answer was lost, and asking again failed").with_source(error)
        }
        _ => error,
    }
}
