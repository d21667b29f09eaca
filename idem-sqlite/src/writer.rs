//! The one thread that writes: it takes what waits, runs it in one transaction, commits, and only then answers.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

use async_channel::Receiver;
use idem_core::Error;
use rusqlite::{Connection, Transaction, TransactionBehavior};

use crate::backoff::until;
use crate::error::{self, Moment};
use crate::job::{Began, Grouped, Job, too_late};
use crate::opener::Opener;
use crate::operation::Context;
use crate::stats::Counters;

/// Operations that share a commit at the most. Beyond this a larger group gains little, and its last waits longer.
const GROUP: usize = 64;

/// The writer, on its own thread.
pub(crate) struct Writer {
    pub(crate) connection: Connection,
    pub(crate) opener: Opener,
    pub(crate) queue: Receiver<Job>,
    pub(crate) context: Arc<Context>,
    pub(crate) counters: Arc<Counters>,
}

impl Writer {
    /// Serves until the queue is closed and empty.
    pub(crate) fn run(&mut self) {
        let mut next = None;
        while let Some(job) = next.take().or_else(|| self.queue.recv_blocking().ok()) {
            // A panic of our own rolls its transaction back and costs its group an `Indeterminate`; the next is served.
            match catch_unwind(AssertUnwindSafe(|| self.serve(job))) {
                Ok(drained) => next = drained,
                Err(_) => tracing::error!("the SQLite writer panicked and goes on; please report it"),
            }
        }
    }

    /// Moves the log into the file, as far as other connections let it.
    pub(crate) fn finish(self) {
        if let Err(refusal) = self.connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", (), |_| Ok(())) {
            tracing::debug!(error = %refusal, "the log stays for the next who opens the file");
        }
    }

    /// Serves one job and those that may share its transaction; gives back one that was taken and may not.
    fn serve(&mut self, job: Job) -> Option<Job> {
        if job.ticket().is_given_up() {
            return None;
        }
        if let Err(why) = self.leave_a_jammed_connection(job.deadline()) {
            job.refuse(why);
            return None;
        }
        let transaction = match self.begin(&job) {
            Ok(transaction) => transaction,
            Err(why) => {
                job.refuse(why);
                return None;
            }
        };
        match job {
            Job::Grouped(first) => {
                let (group, next) = self.gather(first);
                self.serve_group(transaction, group);
                next
            }
            Job::Alone(alone) => {
                if alone.ticket().start() {
                    self.counters.ran(1);
                    alone.run(Began {
                        transaction,
                        context: &self.context,
                        guest: &self.opener.guest,
                        counters: &self.counters,
                    });
                }
                None
            }
        }
    }

    /// Opens another connection when a closure has left a statement unfinished on this one (a `mem::forget` of rows):
    /// SQLite would refuse every `COMMIT` on it, or keep its snapshot for ever, and nobody can step or reset what was
    /// forgotten. Asked before each transaction, so that what could not be opened is tried again by the next.
    fn leave_a_jammed_connection(&mut self, deadline: Instant) -> Result<(), Error> {
        if self.connection.is_busy() {
            tracing::error!("a closure left a statement unfinished; the writer opens another connection");
            // The old one cannot be closed either: SQLite keeps it until the process ends.
            self.connection = self.opener.open(deadline)?;
        }
        Ok(())
    }

    /// Takes the write lock. Jobs keep arriving meanwhile, so a file that is contended makes for fuller groups.
    fn begin(&self, job: &Job) -> Result<Transaction<'_>, Error> {
        let deadline = job.deadline();
        if deadline <= Instant::now() {
            return Err(too_late());
        }
        begin(&self.connection, deadline).map_err(|refusal| error::of(refusal, Moment::Statement))
    }

    /// The first and what waits behind it, up to one that needs a transaction of its own.
    fn gather(&self, first: Box<dyn Grouped>) -> (Vec<Box<dyn Grouped>>, Option<Job>) {
        let mut group = vec![first];
        while group.len() < GROUP {
            match self.queue.try_recv() {
                Ok(Job::Grouped(member)) => group.push(member),
                Ok(alone @ Job::Alone(_)) => return (group, Some(alone)),
                Err(_) => break,
            }
        }
        (group, None)
    }

    fn serve_group(&self, transaction: Transaction<'_>, group: Vec<Box<dyn Grouped>>) {
        // Also for a caller that went away and gives nothing up: what is late is not done later.
        let now = Instant::now();
        let (late, mut group): (Vec<_>, Vec<_>) = group.into_iter().partition(|member| member.deadline() <= now);
        late.into_iter().for_each(|member| member.answer(Some(too_late())));
        group.retain(|member| member.ticket().start());
        if group.is_empty() {
            return;
        }
        self.counters.ran(group.len());
        for member in &mut group {
            member.run(&self.connection, &self.context);
            if transaction.is_autocommit() {
                // A full disk or a lack of memory ends the whole transaction. One member may be the reason, so each
                // gets one of its own: nobody fails for a neighbour.
                drop(transaction);
                group.into_iter().for_each(|member| self.serve_single(member));
                return;
            }
        }
        let last = group.iter().map(|member| member.deadline()).max();
        let committed = commit(&transaction, last.unwrap_or_else(Instant::now));
        drop(transaction); // Rolls back what is not committed, before anybody is answered.
        match committed {
            Ok(()) => {
                self.counters.committed();
                group.into_iter().for_each(|member| member.answer(None));
            }
            // On a disk that is really full it is the log that does not take the pages. As above.
            Err(refusal) if error::is_full(&refusal) => group.into_iter().for_each(|member| self.serve_single(member)),
            Err(refusal) => {
                let code = error::code(&refusal);
                group.into_iter().for_each(|member| member.answer(Some(error::of_code(code, Moment::Commit))));
            }
        }
    }

    fn serve_single(&self, mut member: Box<dyn Grouped>) {
        let committed = begin(&self.connection, member.deadline())
            .map_err(|refusal| error::of(refusal, Moment::Statement))
            .and_then(|transaction| {
                member.run(&self.connection, &self.context);
                if transaction.is_autocommit() {
                    return Ok(()); // Rolled back; the member knows why.
                }
                commit(&transaction, member.deadline()).map_err(|refusal| error::of(refusal, Moment::Commit))?;
                self.counters.committed();
                Ok(())
            });
        member.answer(committed.err());
    }
}

/// `BEGIN IMMEDIATE`: a transaction that reads first and wants to write later is refused at once, whatever the wait.
pub(crate) fn begin(connection: &Connection, deadline: Instant) -> rusqlite::Result<Transaction<'_>> {
    until(deadline, || Transaction::new_unchecked(connection, TransactionBehavior::Immediate))
}

/// Commits; a busy commit leaves the transaction open, and is tried again.
pub(crate) fn commit(transaction: &Transaction<'_>, deadline: Instant) -> rusqlite::Result<()> {
    until(deadline, || transaction.execute_batch("COMMIT"))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use idem_core::machine::Rules;
    use idem_core::{Claim, Claimed, Fingerprint, Identity, Key, Operation, Scope};

    use super::*;
    use crate::clock::Clock;
    use crate::job::{Member, Waiting, order};
    use crate::{row, schema};

    fn claim(key: &str) -> Claim {
        let operation = Operation::new("test").expect("valid");
        let fingerprint = Fingerprint::of(&operation).finish();
        let identity = Identity::new(Scope::global(), Key::new(key).expect("valid"));
        Claim::builder(identity, operation, fingerprint).build().expect("valid")
    }

    fn job(claim: &Claim) -> (Job, Waiting<Result<Claimed, Error>>) {
        let (order, waiting) = order(Instant::now() + Duration::from_secs(60));
        (Job::Grouped(Box::new(Member::new(claim.clone(), order))), waiting)
    }

    #[test]
    fn what_is_given_up_is_not_done() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut opener = Opener::new(dir.path().join("idem.db"), None);
        let connection = opener.open(Instant::now()).expect("opened");
        schema::migrate(&connection, &Clock::default()).expect("not busy").expect("made");
        let (sender, queue) = async_channel::unbounded();
        let context = Context { clock: Clock::default(), rules: Rules::default(), response_limit: 0 };
        let mut writer = Writer { connection, opener, queue, context: Arc::new(context), counters: Arc::default() };
        let claims = ["alone", "first", "given up", "last"].map(claim);
        let [alone, first, given_up, last] = claims.each_ref().map(job);
        // Given up before the writer takes it, and given up when it is already a member of a group.
        assert!(alone.1.ticket.give_up());
        assert!(given_up.1.ticket.give_up());
        for job in [alone.0, first.0, given_up.0, last.0] {
            assert!(sender.try_send(job).is_ok());
        }
        sender.close();
        writer.run();
        let there =
            claims.each_ref().map(|claim| row::find(&writer.connection, claim.identity()).expect("read").is_some());
        assert_eq!(there, [false, true, false, true]);
        assert_eq!(writer.counters.stats(0).commits, 1);
        for mut waiting in [first.1, last.1] {
            assert!(!waiting.ticket.give_up(), "what has begun is not given up");
            assert!(matches!(waiting.answer.try_recv(), Ok(Ok(Claimed::Acquired(_)))));
        }
    }
}
