//! Business rows and the record in one transaction of the caller's: [`settle`](PostgresStore::settle),
//! [`once`](PostgresStore::once), and [`complete_in`](PostgresStore::complete_in) for those who commit by themselves.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::time::Duration;

use idem_core::{
    Claim, Claimed, Complete, Completed, End, Error, ErrorKind, Final, Grant, Identity, Lease, Record, Replay, Spent,
    State, Uncertain,
};
use sqlx::postgres::PgConnection;
use sqlx::{Executor, Postgres, Row, Transaction};

use crate::delivery::in_task;
use crate::error::{Class, Failure};
use crate::operation::{
    Earlier, Operation, SOON, Settled, changed, check_size, claim_parameters, is_end_of, one, query,
};
use crate::rewrite::{Looked, Read, read, rewrite};
use crate::store::PostgresStore;

/// How often `once` looks again when a row moved between two statements.
const LOOKS: u32 = 16;

/// Fails on purpose: after it PostgreSQL takes nothing but a rollback, and turns a COMMIT into one.
const SPOIL: &str = "DO $$ BEGIN RAISE EXCEPTION 'idem: the attempt is not current any more, this transaction can only roll back'; END $$";

/// A transaction of a pool. That it borrows nothing is what tells it from one inside another, whose commit commits
/// nothing.
pub type PoolTransaction = Transaction<'static, Postgres>;

/// The answer to [`once`](PostgresStore::once) (clause J2).
#[derive(Debug)]
pub enum Once {
    /// You are the first: write your rows through it, and commit.
    First(First),
    /// You are not. The transaction is given back as it was, and can be used.
    Answered(Answered, PoolTransaction),
}

/// Why [`once`](PostgresStore::once) is not to be run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Answered {
    /// It was done before; this is how it went.
    Done(Replay),
    /// Another attempt's lease is running, or another transaction with this key is open.
    Busy {
        /// Above zero, and for a running lease at most what is left of it.
        retry_after: Duration,
    },
    /// The key was used for another request.
    Mismatch,
    /// An attempt outside a transaction left an effect that is not known.
    Uncertain(Uncertain),
    /// It was done, its retention is over, and the store still remembers.
    Spent(Spent),
}

/// The caller's transaction with a claim in it. Use it as a connection; dropped, it rolls back and leaves nothing.
pub struct First {
    transaction: PoolTransaction,
    grant: Grant,
    store: PostgresStore,
}

impl First {
    /// The grant: the fence for the caller's own tables, and what an earlier attempt outside a transaction left.
    #[must_use]
    pub fn grant(&self) -> &Grant {
        &self.grant
    }

    /// Records how it went and commits: rows and record are there, or neither.
    ///
    /// # Errors
    /// - `TooLarge` (F7), `TransactionAborted`: rolled back; the next one is first.
    /// - `Indeterminate`: the reply of COMMIT was lost, and the store could not be asked about it. Asking `once` again
    ///   with the same key tells.
    ///
    /// # Cancel safety
    /// Dropped, it happened wholly or not at all; asking `once` again tells.
    pub async fn commit(self, replay: Replay) -> Result<Replay, Error> {
        let First { transaction, grant, store } = self;
        let end = match replay.end {
            Final::Succeeded => End::Succeeded(replay.recorded.clone()),
            Final::Failed => End::Failed(replay.recorded.clone()),
        };
        match store.settle(transaction, &Complete::new(grant.lease, end)).await? {
            Completed::Stored => Ok(replay),
            Completed::AlreadyStored | Completed::Lost => {
                // Only the holder of this very grant could have ended it, inside this transaction.
                Err(Error::new(ErrorKind::TransactionAborted, "the claim was ended inside the transaction").permanent())
            }
        }
    }

    /// Rolls back: no rows, and no claim.
    ///
    /// # Errors
    /// `TransactionAborted` when the server could not be told; it rolls back all the same.
    ///
    /// # Cancel safety
    /// Always.
    pub async fn rollback(self) -> Result<(), Error> {
        self.transaction.rollback().await.map_err(|error| Failure::from(error).into_aborted())
    }
}

impl Deref for First {
    type Target = PgConnection;

    fn deref(&self) -> &PgConnection {
        &self.transaction
    }
}

impl DerefMut for First {
    fn deref_mut(&mut self) -> &mut PgConnection {
        &mut self.transaction
    }
}

impl fmt::Debug for First {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("First").field("grant", &self.grant).finish_non_exhaustive()
    }
}

/// # Joining the application's own rows
/// The transaction is the caller's, on a pool of the caller's to the same database. How long it may take there is the
/// caller's to bound. Nothing outside this database may happen in it, because a rollback does not take that back.
///
/// READ COMMITTED keeps the transaction usable whatever the answer is. At REPEATABLE READ and SERIALIZABLE a change of
/// the record after the transaction's snapshot ends it: the answer is `TransactionAborted`, and the caller begins anew
/// (clause J3). A renewal is such a change: hold [`Attempt::settling`](idem_core::Attempt::settling) meanwhile.
impl PostgresStore {
    /// Ends an attempt inside the caller's transaction, and commits it: its rows and the record are there, or neither
    /// (clause J1). The rows are written before.
    ///
    /// # Behavior
    /// - `Stored`: committed. A lost reply of COMMIT is resolved by asking the store.
    /// - `AlreadyStored` or `Lost`: rolled back (F5b). After `AlreadyStored` the rows of the first time are there: a
    ///   repeat after a lost reply is harmless.
    /// - The record stays locked until the commit; claims in the meantime are answered `InFlight` at once.
    ///
    /// # Errors
    /// `TooLarge` and `TransactionAborted`: rolled back; the attempt goes on, and may be settled again. `Indeterminate`:
    /// the reply of COMMIT was lost and the store could not be asked; repeating the settle tells. `Schema`,
    /// `Unavailable`.
    ///
    /// # Cancel safety
    /// Dropped, it happened wholly or not at all; repeating it tells.
    pub async fn settle(&self, transaction: PoolTransaction, complete: &Complete) -> Result<Completed, Error> {
        check_size(complete.end().recorded(), self.context().response_limit)?;
        let (store, complete) = (self.clone(), complete.clone());
        // In a task of its own, so that a caller who leaves does not cut the COMMIT in half.
        in_task(async move { store.complete_and_commit(transaction, &complete).await }).await
    }

    async fn complete_and_commit(
        &self,
        mut transaction: PoolTransaction,
        complete: &Complete,
    ) -> Result<Completed, Error> {
        let completed = complete.run(&mut transaction, self.context(), Earlier::None).await;
        match completed.map_err(Failure::into_aborted)? {
            Completed::Stored => {}
            refused => {
                // What cannot be rolled back by a word is rolled back by the connection's end.
                let _ = transaction.rollback().await;
                return Ok(refused);
            }
        }
        match transaction.commit().await.map_err(Failure::from) {
            Ok(()) => Ok(Completed::Stored),
            Err(failure) if matches!(failure.class(), Class::Unknown(_)) => self.ask_what_became_of(complete).await,
            Err(failure) => Err(failure.into_aborted()),
        }
    }

    /// Ends an attempt inside a transaction that the caller commits: for frameworks that keep the transaction to
    /// themselves. Prefer [`settle`](PostgresStore::settle).
    ///
    /// # Behavior
    /// - `Stored`: true when the caller's commit is. A lost reply of that commit is the caller's to resolve, by
    ///   repeating this in a new transaction: `AlreadyStored` says that the first was committed.
    /// - `AlreadyStored` or `Lost`: the transaction can only roll back from here on; PostgreSQL turns a COMMIT of it into
    ///   a rollback (F5b).
    ///
    /// # Errors
    /// As [`settle`](PostgresStore::settle). After `TransactionAborted` the transaction can only roll back.
    ///
    /// # Cancel safety
    /// Dropped, nothing is known of the transaction but that it is not committed: roll it back.
    pub async fn complete_in(&self, connection: &mut PgConnection, complete: &Complete) -> Result<Completed, Error> {
        check_size(complete.end().recorded(), self.context().response_limit)?;
        let completed = complete.run(connection, self.context(), Earlier::None).await;
        let completed = completed.map_err(Failure::into_aborted)?;
        if completed != Completed::Stored {
            // The error is the point; a connection that broke instead has rolled back, too.
            let _ = connection.execute(SPOIL).await;
        }
        Ok(completed)
    }

    /// Asks to run something once for a key, claim and rows in one transaction (clause J2): for effects that are all in
    /// this database, as a webhook's inbox or a queue's consumer has.
    ///
    /// # Behavior
    /// - `First`: write the rows through it, and [`commit`](First::commit) it with what later callers are answered.
    ///   A crash, an error or a drop before leaves nothing at all, not even a claim.
    /// - `Answered`: not to be run; the transaction is given back, usable.
    /// - It waits for no open transaction: another one with this key, open, is answered `Busy` at once.
    /// - Others who claim meanwhile wait for the transaction, as long as their `lock_timeout`, and are then answered
    ///   `InFlight` (clause J4). A client that falls silent inside the transaction would keep the key for ever; so the
    ///   session must have an `idle_in_transaction_session_timeout`.
    ///
    /// # Errors
    /// `Unsupported` for a session without `idle_in_transaction_session_timeout`; nothing was written.
    /// `TransactionAborted`: begin anew. `Schema`, `Unavailable`.
    ///
    /// # Cancel safety
    /// Dropped, the transaction rolls back.
    pub async fn once(&self, mut transaction: PoolTransaction, claim: &Claim) -> Result<Once, Error> {
        match self.claim_in(&mut transaction, claim).await.map_err(Failure::into_aborted)? {
            Claimed::Acquired(grant) => Ok(Once::First(First { transaction, grant, store: self.clone() })),
            other => Ok(Once::Answered(answered(other), transaction)),
        }
    }

    async fn claim_in(&self, connection: &mut PgConnection, claim: &Claim) -> Result<Claimed, Failure> {
        let context = self.context();
        let statement = &context.statements.once;
        let busy = Claimed::InFlight { retry_after: SOON };
        for _ in 0..LOOKS {
            let row = one(connection, statement, claim_parameters(query(statement), claim)).await?;
            if !row.try_get::<bool, _>("limited")? {
                return Err(unlimited().into());
            }
            let locked: bool = row.try_get("locked")?;
            match read(context, claim, &row)? {
                Read::Answer(answer) => return Ok(answer),
                Read::Moved | Read::Rewrite(..) if !locked => return Ok(busy),
                Read::Moved => {}
                Read::Rewrite(how, seen, record) => {
                    if !lock(connection, &context.statements.lock, claim.identity()).await? {
                        return Ok(busy);
                    }
                    match rewrite(connection, context, how, seen, &record, claim).await? {
                        Looked::Answer(answer) => return Ok(answer),
                        Looked::Moved => {}
                    }
                }
            }
        }
        Err(Failure::Moved)
    }

    /// The reply of COMMIT was lost: waits until the transaction has ended, and reads what it left.
    async fn ask_what_became_of(&self, complete: &Complete) -> Result<Completed, Error> {
        let unknown = || Error::new(ErrorKind::Indeterminate, "COMMIT was not answered, and its outcome is not known");
        let lease = complete.lease();
        match self.delivery.deliver(Settled(lease.identity.clone())).await {
            Ok(Some(record)) if is_of(&record, lease) => {
                if is_end_of(&record, complete.end()) {
                    Ok(Completed::Stored)
                } else {
                    Err(Error::new(ErrorKind::TransactionAborted, "COMMIT was not answered, and was not carried out"))
                }
            }
            // A claim of `once` that is not there was rolled back with everything else.
            Ok(None) if lease.attempt == 1 => {
                Err(Error::new(ErrorKind::TransactionAborted, "COMMIT was not answered, and was not carried out"))
            }
            // Another attempt has begun; whether it began after our end, the record does not say.
            Ok(_) => Err(unknown()),
            Err(error) => Err(unknown().with_source(error)),
        }
    }
}

async fn lock(
    connection: &mut PgConnection,
    statement: &crate::sql::Statement,
    identity: &Identity,
) -> Result<bool, Failure> {
    let query = query(statement).bind(identity.scope.as_str()).bind(identity.key.as_str());
    Ok(changed(connection, statement, query).await? == 1)
}

fn is_of(record: &Record, lease: &Lease) -> bool {
    record.token == lease.token && record.fence == lease.fence && record.state != State::Released
}

fn unlimited() -> Error {
    Error::new(
        ErrorKind::Unsupported,
        "the session has no idle_in_transaction_session_timeout: a client that falls silent inside this transaction would \
         keep the key for ever; set it for the role, or in the options of the pool",
    )
}

fn answered(claimed: Claimed) -> Answered {
    match claimed {
        // Not reached: a grant is not an answer.
        Claimed::Acquired(_) => Answered::Busy { retry_after: SOON },
        Claimed::Replay(replay) => Answered::Done(replay),
        Claimed::InFlight { retry_after } => Answered::Busy { retry_after },
        Claimed::Mismatch => Answered::Mismatch,
        Claimed::Uncertain(uncertain) => Answered::Uncertain(uncertain),
        Claimed::Spent(spent) => Answered::Spent(spent),
    }
}
