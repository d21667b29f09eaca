//! Carrying an operation out: on a connection of the pool, in a task of its own, again where that is safe, in time.

use std::sync::Arc;
use std::time::Duration;

use idem_core::{Error, ErrorKind};
use mysql_async::{Conn, Pool};
use tokio::time::{Instant, timeout_at};

use crate::backoff::Backoff;
use crate::error::{Class, Refusal};
use crate::operation::{Context, Effect, Operation};
use crate::sql::Joined;

/// What all handles of a store share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) pool: Pool,
    pub(crate) context: Context,
    pub(crate) joined: Joined,
    pub(crate) deadline: Duration,
}

/// How long a broken connection may take to say goodbye.
const GOODBYE: Duration = Duration::from_millis(100);

/// Carries an operation out in a task of its own: a caller that goes away would cut the connection in the middle, and
/// the server would go on with what it was sent.
pub(crate) async fn carry_out<O: Operation>(shared: &Arc<Shared>, operation: O) -> Result<O::Answer, Error> {
    let shared = Arc::clone(shared);
    let task = tokio::spawn(async move {
        let deadline = deadline_from_now(shared.deadline);
        drive(&shared, &operation, deadline).await
    });
    match task.await {
        Ok(outcome) => outcome,
        Err(ended) if ended.is_panic() => Err(Error::new(ErrorKind::Bug, "an operation of the store panicked")),
        // Nobody aborts it but a runtime that shuts down.
        Err(_) => Err(Error::new(ErrorKind::Indeterminate, "the runtime shut down before the server answered")),
    }
}

/// A deadline that is too far away to be reckoned with is a year.
fn deadline_from_now(deadline: Duration) -> Instant {
    let now = Instant::now();
    now.checked_add(deadline).unwrap_or_else(|| now + Duration::from_secs(365 * 86_400))
}

async fn drive<O: Operation>(shared: &Shared, operation: &O, deadline: Instant) -> Result<O::Answer, Error> {
    let mut backoff = Backoff::new();
    let mut in_doubt = false;
    loop {
        let refusal = match connect(&shared.pool, deadline).await {
            Ok(mut connection) => {
                let running = operation.run(&mut connection, &shared.context);
                match timeout_at(deadline, running).await {
                    Ok(Ok(answer)) => return Ok(answer),
                    Ok(Err(refusal)) => {
                        part_with(connection, refusal.class).await;
                        in_doubt |= refusal.class == Class::Gone && O::EFFECT != Effect::None;
                        if in_doubt && O::EFFECT == Effect::Once || !is_worth_another_try(refusal.class) {
                            return Err(answer_for(refusal, in_doubt));
                        }
                        refusal
                    }
                    // The connection is cut where it stands; the server may still finish what it was sent.
                    Err(_) => {
                        let refusal = Refusal::new(Class::Passing("the server did not answer in time"));
                        return Err(answer_for(refusal, O::EFFECT != Effect::None));
                    }
                }
            }
            // Nothing was sent. When an earlier try may have been applied, only the server can tell.
            Err(refusal) if in_doubt => refusal,
            Err(refusal) => return Err(refusal.error()),
        };
        let next = Instant::now() + backoff.next();
        if next >= deadline {
            return Err(answer_for(refusal, in_doubt));
        }
        tokio::time::sleep_until(next).await;
    }
}

/// A connection of the pool. The driver itself would wait for one without end.
async fn connect(pool: &Pool, deadline: Instant) -> Result<Conn, Refusal> {
    match timeout_at(deadline, pool.get_conn()).await {
        Ok(Ok(connection)) => Ok(connection),
        Ok(Err(error)) => Err(match Refusal::from(error) {
            Refusal { class: Class::Gone, .. } => Refusal::new(Class::Passing("the server cannot be reached")),
            refusal => refusal,
        }),
        Err(_) => Err(Refusal::new(Class::Passing("no connection became free in time"))),
    }
}

/// A connection that cannot serve does not go back to the pool.
async fn part_with(connection: Conn, class: Class) {
    if matches!(class, Class::Elsewhere(_)) {
        let _ = tokio::time::timeout(GOODBYE, connection.disconnect()).await;
    }
}

fn is_worth_another_try(class: Class) -> bool {
    matches!(class, Class::Aborted | Class::Locked | Class::Gone | Class::Elsewhere(_))
}

fn answer_for(refusal: Refusal, in_doubt: bool) -> Error {
    if in_doubt { refusal.error_in_doubt() } else { refusal.error() }
}
