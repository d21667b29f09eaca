//! The application's rows and the record in one transaction of the application's: [`settle`](MySqlStore::settle),
//! [`once`](MySqlStore::once), and [`complete_in`](MySqlStore::complete_in) for those who commit by themselves.

use std::fmt;
use std::future::Future;
use std::ops::{Deref, DerefMut};
use std::time::Duration;

use idem_core::machine::{self, Rewrite, Step};
use idem_core::{
    Claim, Claimed, Complete, Completed, End, Error, ErrorKind, Final, Grant, Lease, Replay, Spent, State, Uncertain,
};
use mysql_async::Transaction;
use mysql_async::consts::StatusFlags;
use mysql_async::prelude::Queryable;

use crate::drive::carry_out;
use crate::error::{Class, Refusal};
use crate::operation::{HELD_BY_ANOTHER, Resolve, check_size, completing, creating, execute, find, rewriting};
use crate::pool::LOCK_WAIT_SECS;
use crate::startup::{is_strict, session_query};
use crate::store::MySqlStore;

/// How long a server may let a silent client's transaction block a key, in seconds.
const LONGEST_IDLE_SECS: u64 = 600;

/// How often a claim looks again at a record that changes under it (clause C12).
const LOOKS: usize = 4;

/// The answer to [`once`](MySqlStore::once) (clause J2).
#[derive(Debug)]
pub enum Once<'t> {
    /// Nobody did it. Write the rows, and [`commit`](First::commit) it.
    First(First<'t>),
    /// It is not to be done. The transaction is the caller's again, with what it wrote before.
    Answered(Answered, Transaction<'t>),
}

/// Why [`once`](MySqlStore::once) does not do it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Answered {
    /// It was done before; this is how it went.
    Done(Replay),
    /// Another attempt's lease is running, or another transaction holds the key.
    Busy {
        /// When to come back.
        retry_after: Duration,
    },
    /// The key was used for another request.
    Mismatch,
    /// An attempt outside a transaction left an effect that is not known.
    Uncertain(Uncertain),
    /// It was done, its retention is over, and the store still remembers.
    Spent(Spent),
}

/// A claim inside a transaction of the application's, before its commit. It is the transaction too, for writing the rows.
///
/// Dropped, it rolls back: then nothing happened, not even the claim.
#[must_use = "dropped, it rolls back"]
pub struct First<'t> {
    store: MySqlStore,
    transaction: Transaction<'t>,
    grant: Grant,
}

impl First<'_> {
    /// What was granted, once it is committed.
    #[must_use]
    pub fn grant(&self) -> &Grant {
        &self.grant
    }

    /// Records how it went, and commits that with the rows. What is given is what later callers are answered.
    ///
    /// # Errors
    /// `TooLarge` (F7), `TransactionAborted`, `Unavailable`, `Schema`: rolled back. `Indeterminate`: the reply of COMMIT
    /// was lost, and so was the answer to what became of it; repeating [`once`](MySqlStore::once) tells.
    ///
    /// # Cancel safety
    /// Dropped, it happens wholly or not at all; repeating `once` tells.
    pub async fn commit(self, replay: Replay) -> Result<Replay, Error> {
        let First { store, transaction, grant } = self;
        let recorded = replay.recorded.clone();
        let end = match replay.end {
            Final::Succeeded => End::Succeeded(recorded),
            Final::Failed => End::Failed(recorded),
        };
        match store.settle(transaction, &Complete::new(grant.lease, end)).await? {
            Completed::Stored => Ok(replay),
            Completed::AlreadyStored | Completed::Lost => {
                // Only the holder of this very grant could have ended it, inside this transaction.
                Err(Error::new(ErrorKind::TransactionAborted, "the claim was ended inside the transaction").permanent())
            }
        }
    }

    /// Rolls back. The next one is first.
    ///
    /// # Cancel safety
    /// Dropped, it is rolled back all the same, at the latest when the connection is used again.
    pub async fn rollback(self) {
        roll_back(self.transaction).await;
    }
}

impl<'t> Deref for First<'t> {
    type Target = Transaction<'t>;

    fn deref(&self) -> &Transaction<'t> {
        &self.transaction
    }
}

impl DerefMut for First<'_> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.transaction
    }
}

impl fmt::Debug for First<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("First").field("grant", &self.grant).finish_non_exhaustive()
    }
}

/// # Joining the application's own rows
/// Each of these takes a transaction of the application's, on a connection of its own pool to the same server; it may be
/// on another database there. They look at its session first: one whose `sql_mode` is not strict is `Unsupported`, and a
/// transaction that the server has rolled back meanwhile (as a deadlock's victim, error 1213, it goes on outside any
/// transaction) is `TransactionAborted`, never half of it.
///
/// Nothing outside the database may happen in such a transaction: a rollback does not take it back.
/// `LAST_INSERT_ID()` is left alone.
impl MySqlStore {
    /// Ends an attempt inside the transaction that has its rows, and commits both, or neither (clause J1).
    ///
    /// # Behavior
    /// - `Stored`: the rows and the record are committed. A lost reply of COMMIT is resolved by reading the record.
    /// - `AlreadyStored` or `Lost`: rolled back (F5b). After `AlreadyStored` the rows of the first time are there.
    /// - Renewals of the lease wait while the transaction holds the record. At REPEATABLE READ and SERIALIZABLE one that
    ///   comes in between can end it (error 1020): keep [`Attempt::settling`](idem_core::Attempt::settling) meanwhile.
    ///
    /// # Errors
    /// `TooLarge` (F7), `TransactionAborted`, `Unavailable`, `Unsupported`, `Schema`: rolled back; the attempt goes on,
    /// and may be settled again. `Indeterminate`: COMMIT got no answer, nor did the question what became of it.
    ///
    /// # Cancel safety
    /// Dropped, it happens wholly or not at all; repeating it tells.
    pub async fn settle(&self, mut transaction: Transaction<'_>, complete: &Complete) -> Result<Completed, Error> {
        let completed = self.run_complete(&mut transaction, complete).await;
        match completed {
            Ok(Completed::Stored) => self.commit(transaction, complete.lease()).await.map(|()| Completed::Stored),
            Ok(Completed::AlreadyStored | Completed::Lost) | Err(_) => {
                roll_back(transaction).await;
                completed
            }
        }
    }

    /// Claims a key inside a transaction, for effects that are all in this database, as a webhook's inbox or a queue's
    /// consumer has (clause J2).
    ///
    /// # Behavior
    /// - [`First`](Once::First): write the rows with it, and [`commit`](First::commit) it. A crash, a rollback or a drop before
    ///   that leaves nothing at all, and the next one is first.
    /// - Every other answer leaves the transaction to the caller, usable, with what it wrote before.
    /// - Behind another one's open transaction on the same key it waits for a second, and answers `Busy`.
    /// - A client that falls silent in such a transaction would block the key: the session must end it within ten
    ///   minutes. `SET SESSION wait_timeout = 60` in the setup of the application's pool, or on MariaDB
    ///   `idle_transaction_timeout`, does.
    ///
    /// # Errors
    /// The transaction is rolled back. `TransactionAborted`: start it again from its beginning. `Unsupported`: the
    /// session is not strict, or has no such limit. `Unavailable`, `Schema`.
    ///
    /// # Cancel safety
    /// Dropped, the transaction is rolled back.
    pub async fn once<'t>(&self, mut transaction: Transaction<'t>, claim: &Claim) -> Result<Once<'t>, Error> {
        let answered = match self.claim_in(&mut transaction, claim).await {
            Ok(Claimed::Acquired(grant)) => {
                return Ok(Once::First(First { store: self.clone(), transaction, grant }));
            }
            Ok(Claimed::Replay(replay)) => Answered::Done(replay),
            Ok(Claimed::InFlight { retry_after }) => Answered::Busy { retry_after },
            Ok(Claimed::Mismatch) => Answered::Mismatch,
            Ok(Claimed::Uncertain(uncertain)) => Answered::Uncertain(uncertain),
            Ok(Claimed::Spent(spent)) => Answered::Spent(spent),
            Err(why) => {
                roll_back(transaction).await;
                return Err(why);
            }
        };
        Ok(Once::Answered(answered, transaction))
    }

    /// Ends an attempt inside a transaction that the caller commits: for frameworks that keep the transaction to
    /// themselves. Prefer [`settle`](MySqlStore::settle).
    ///
    /// # Behavior
    /// - `Stored`: true when the caller's commit is. A lost reply of that commit is the caller's to resolve, by
    ///   repeating this in a new transaction: `AlreadyStored` says that the first was committed.
    /// - `AlreadyStored` or `Lost`: the caller rolls back (F5b). MySQL does not see to it.
    ///
    /// # Errors
    /// As [`settle`](MySqlStore::settle). The caller rolls back.
    ///
    /// # Cancel safety
    /// Dropped, nothing is known of the transaction but that it is not committed: roll it back.
    pub async fn complete_in(
        &self,
        transaction: &mut Transaction<'_>,
        complete: &Complete,
    ) -> Result<Completed, Error> {
        self.run_complete(transaction, complete).await
    }

    async fn run_complete(&self, transaction: &mut Transaction<'_>, complete: &Complete) -> Result<Completed, Error> {
        check_size(complete.end().recorded(), self.response_limit())?;
        self.in_time(async {
            self.session(transaction).await?;
            let joined = &self.shared.joined;
            let params = completing(complete, &self.shared.context.rules);
            if execute(transaction, &joined.complete, params).await.map_err(Refusal::error_in_transaction)?.rows == 1 {
                return Ok(Completed::Stored);
            }
            let found = find(transaction, &joined.latest, &complete.lease().identity).await;
            let found = found.map_err(Refusal::error_in_transaction)?;
            Ok(machine::refused_complete(found.as_ref().map(|found| &found.record), complete.lease()))
        })
        .await
    }

    async fn claim_in(&self, transaction: &mut Transaction<'_>, claim: &Claim) -> Result<Claimed, Error> {
        self.in_time(async {
            let session = self.session(transaction).await?;
            if session.idle_limit > LONGEST_IDLE_SECS {
                return Err(Error::new(
                    ErrorKind::Unsupported,
                    "the server lets a silent client's transaction block the key for too long: \
                     SET SESSION wait_timeout = 60 in the setup of the pool",
                ));
            }
            // The application may wait for its own rows as long as it likes, but not for the key (clause C11).
            let impatient = session.lock_wait > LOCK_WAIT_SECS;
            if impatient {
                set_lock_wait(transaction, LOCK_WAIT_SECS).await?;
            }
            let claimed = self.claim_joined(transaction, claim).await;
            if claimed.as_ref().is_err_and(|refusal| refusal.class == Class::Gone) {
                return claimed.map_err(Refusal::error_in_transaction);
            }
            if impatient {
                set_lock_wait(transaction, session.lock_wait).await?;
            }
            match claimed {
                Err(refusal) if refusal.class == Class::Locked => {
                    // Only the statement was undone, unless the server is set to roll back everything.
                    self.session(transaction).await?;
                    Ok(Claimed::InFlight { retry_after: HELD_BY_ANOTHER })
                }
                claimed => claimed.map_err(Refusal::error_in_transaction),
            }
        })
        .await
    }

    async fn claim_joined(&self, transaction: &mut Transaction<'_>, claim: &Claim) -> Result<Claimed, Refusal> {
        let (joined, rules) = (&self.shared.joined, &self.shared.context.rules);
        for _ in 0..LOOKS {
            match execute(transaction, &joined.claim, creating(claim)).await {
                Ok(_) => {}
                Err(refusal) if refusal.class == Class::Duplicate => {
                    let found = find(transaction, &joined.latest, claim.identity()).await?;
                    let Some(found) = found else { continue }; // C12
                    match machine::claim(Some(&found.record), claim, found.now, rules) {
                        Step::Answer(answer) => return Ok(answer),
                        Step::Insert => continue,
                        Step::Rewrite(how, seen) => {
                            let statement = match how {
                                Rewrite::NewLife => &joined.new_life,
                                Rewrite::TakeOver => &joined.take_over,
                                Rewrite::Repeat => &joined.repeat,
                            };
                            execute(transaction, statement, rewriting(how, seen, &found.record, claim, rules)).await?;
                        }
                    }
                }
                Err(refusal) => return Err(refusal),
            }
            // The row that is ours now tells the fence, and whether the rewrite was carried out: a count of matched rows
            // would be the caller's connection's to tell.
            let found = find(transaction, &joined.get, claim.identity()).await?;
            if let Some(found) = found
                && found.record.token == claim.token()
                && found.record.state == State::Processing
            {
                return Ok(Claimed::Acquired(machine::grant(&found.record, claim)));
            }
        }
        Err(Refusal::new(Class::Passing("the record kept changing while it was claimed")))
    }

    /// Looks at the caller's session: is it in a transaction, and does it refuse what does not fit?
    async fn session(&self, transaction: &mut Transaction<'_>) -> Result<Session, Error> {
        let query = session_query(self.shared.context.product);
        let row: Result<Option<(String, u32, u64)>, _> = transaction.query_first(query).await;
        let row = row.map_err(Refusal::from).map_err(Refusal::error_in_transaction)?;
        let (mode, lock_wait, idle_limit) = row.ok_or_else(|| Refusal::unreadable().error())?;
        let open = |flags: StatusFlags| flags.contains(StatusFlags::SERVER_STATUS_IN_TRANS);
        if !transaction.last_ok_packet().is_some_and(|ok| open(ok.status_flags())) {
            let message = "the server rolled the transaction back before the record was written";
            return Err(Error::new(ErrorKind::TransactionAborted, message));
        }
        if !is_strict(&mode) {
            let message = "the transaction's sql_mode is not strict, so keys could be cut off: add STRICT_TRANS_TABLES";
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        Ok(Session { lock_wait, idle_limit })
    }

    /// Commits. A reply that is lost is asked for: whoever reads the record behind the transaction's lock knows.
    async fn commit(&self, transaction: Transaction<'_>, lease: &Lease) -> Result<(), Error> {
        match tokio::time::timeout(self.shared.deadline, transaction.commit()).await {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(error)) => {
                let refusal = Refusal::from(error);
                if refusal.class != Class::Gone {
                    return Err(refusal.error_in_transaction());
                }
            }
            Err(_) => {}
        }
        match carry_out(&self.shared, Resolve(lease.clone())).await {
            Ok(Completed::AlreadyStored) => Ok(()),
            Ok(Completed::Stored | Completed::Lost) => Err(Error::new(
                ErrorKind::TransactionAborted,
                "the connection was lost at COMMIT, which did not happen",
            )),
            Err(_) => Err(Error::new(
                ErrorKind::Indeterminate,
                "the connection was lost at COMMIT, and the server does not tell",
            )),
        }
    }

    async fn in_time<T>(&self, work: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        let late = || Error::new(ErrorKind::TransactionAborted, "the server did not answer in time");
        tokio::time::timeout(self.shared.deadline, work).await.unwrap_or_else(|_| Err(late()))
    }
}

struct Session {
    lock_wait: u32,
    idle_limit: u64,
}

async fn set_lock_wait(transaction: &mut Transaction<'_>, secs: u32) -> Result<(), Error> {
    let set = transaction.query_drop(format!("SET SESSION innodb_lock_wait_timeout = {secs}")).await;
    set.map_err(Refusal::from).map_err(Refusal::error_in_transaction)
}

/// At once, not when the connection is used again: until then its locks would stay. When it fails the connection is
/// gone, and the transaction with it.
async fn roll_back(transaction: Transaction<'_>) {
    let _ = transaction.rollback().await;
}
