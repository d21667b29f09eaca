//! The store: it sends operations to the threads, and decides which thread answers.

use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_channel::{Sender, TrySendError};
use async_trait::async_trait;
use idem_core::machine::{self, Step};
use idem_core::{
    Claim, Claimed, Complete, Completed, Error, ErrorKind, Identity, Purged, Record, Release, Released, Renew, Renewed,
    Store,
};
use rusqlite::Connection;
use tokio::sync::watch;

use crate::config::Builder;
use crate::job::{Begun, Job, Member, Waiting, order};
use crate::operation::{Context, Operation, Purge, check_size};
use crate::readers::{Read, read};
use crate::stats::{Counters, Stats};
use crate::{row, thread};

/// An idempotency store in one SQLite file.
///
/// One thread writes, and commits what waits together; a few threads read. Any number of processes on one host may
/// open the same file. The store is a handle: clones share the threads, which end when the last one is dropped and the
/// queue is empty. [`close`](SqliteStore::close) waits for that.
///
/// Operations need a Tokio runtime with its timer enabled.
#[derive(Clone, Debug)]
pub struct SqliteStore {
    shared: Arc<Shared>,
}

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) writer: Sender<Job>,
    pub(crate) readers: Sender<Read>,
    pub(crate) context: Arc<Context>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) deadline: Duration,
    pub(crate) ended: watch::Receiver<()>,
}

impl SqliteStore {
    /// Opens the store in this file with the default settings; creates what is missing.
    ///
    /// # Errors
    /// As [`Builder::open`].
    ///
    /// # Cancel safety
    /// As [`Builder::open`].
    pub async fn open(path: impl AsRef<Path>) -> Result<SqliteStore, Error> {
        SqliteStore::builder(path.as_ref()).open().await
    }

    /// Starts to say how the store in this file is opened.
    pub fn builder(path: impl Into<PathBuf>) -> Builder {
        Builder::new(path.into())
    }

    /// What the store has done since it was opened.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.shared.counters.stats(self.shared.writer.len())
    }

    /// Takes nothing more, finishes what is queued, moves the log into the file, and closes it. Operations of other
    /// handles answer `Unavailable` from now on.
    ///
    /// # Cancel safety
    /// Dropped, the store closes all the same.
    pub async fn close(&self) {
        self.shared.writer.close();
        self.shared.readers.close();
        let mut ended = self.shared.ended.clone();
        // Nothing is ever sent: the channel closes when the writer's thread is at its end.
        while ended.changed().await.is_ok() {}
    }

    pub(crate) async fn start(builder: Builder) -> Result<SqliteStore, Error> {
        Ok(SqliteStore { shared: Arc::new(thread::start(builder).await?) })
    }

    pub(crate) fn deadline(&self) -> Instant {
        Builder::deadline_from_now(self.shared.deadline)
    }

    /// What a claim of this kind would be answered without writing, if it would.
    pub(crate) async fn answer_without_writing(
        &self,
        claim: &Claim,
        deadline: Instant,
    ) -> Result<Option<Claimed>, Error> {
        let claim = claim.clone();
        self.read(deadline, move |connection, context| {
            let record = row::find(connection, claim.identity())?;
            match machine::claim(record.as_ref(), &claim, context.clock.now(), &context.rules) {
                Step::Answer(answer) => Ok(Some(answer)),
                Step::Insert | Step::Rewrite(..) => Ok(None),
            }
        })
        .await
    }

    pub(crate) fn context(&self) -> &Context {
        &self.shared.context
    }

    pub(crate) fn send(&self, job: Job) -> Result<(), Error> {
        self.shared.writer.try_send(job).map_err(|refused| refusal(&refused))
    }

    async fn write<O: Operation>(&self, operation: O, deadline: Instant) -> Result<O::Answer, Error> {
        let (order, waiting) = order(deadline);
        self.send(Job::Grouped(Box::new(Member::new(operation, order))))?;
        waiting.answer(Begun::Leave).await?
    }

    async fn read<T: Send + 'static>(
        &self,
        deadline: Instant,
        look: impl Fn(&Connection, &Context) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, Error> {
        let (order, waiting): (_, Waiting<Result<T, Error>>) = order(deadline);
        self.shared.readers.try_send(read(order, look)).map_err(|refused| refusal(&refused))?;
        // A read that came too late has changed nothing.
        waiting.answer(Begun::Leave).await.map_err(|_| Error::new(ErrorKind::Unavailable, "reading took too long"))?
    }
}

#[async_trait]
impl Store for SqliteStore {
    async fn claim(&self, claim: &Claim) -> Result<Claimed, Error> {
        let deadline = self.deadline();
        // What the reader sees was committed, and its snapshot began after this call: whatever it can answer is as
        // good as the writer's answer. It grants nothing (C10).
        match self.answer_without_writing(claim, deadline).await? {
            Some(answer) => Ok(answer),
            None => self.write(claim.clone(), deadline).await,
        }
    }

    async fn renew(&self, renew: &Renew) -> Result<Renewed, Error> {
        self.write(renew.clone(), self.deadline()).await
    }

    async fn complete(&self, complete: &Complete) -> Result<Completed, Error> {
        check_size(complete.end().recorded(), self.context().response_limit)?;
        self.write(complete.clone(), self.deadline()).await
    }

    async fn release(&self, release: &Release) -> Result<Released, Error> {
        self.write(release.clone(), self.deadline()).await
    }

    async fn get(&self, identity: &Identity) -> Result<Option<Record>, Error> {
        let identity = identity.clone();
        self.read(self.deadline(), move |connection, context| {
            let record = row::find(connection, &identity)?;
            Ok(record.and_then(|record| machine::visible(&record, context.clock.now(), &context.rules)))
        })
        .await
    }

    async fn purge(&self, limit: NonZeroU32) -> Result<Purged, Error> {
        self.write(Purge(limit), self.deadline()).await
    }
}

fn refusal<T>(refused: &TrySendError<T>) -> Error {
    match refused {
        TrySendError::Full(_) => Error::new(ErrorKind::Unavailable, "the store's queue is full"),
        TrySendError::Closed(_) => Error::new(ErrorKind::Unavailable, "the store is closed").permanent(),
    }
}
