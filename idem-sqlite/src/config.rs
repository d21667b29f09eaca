//! How a store is opened.

use std::fmt;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use idem_core::config::defaults;
use idem_core::machine::Rules;
use idem_core::{Error, ErrorKind};
use rusqlite::Connection;

use crate::SqliteStore;
use crate::connection::refuse_unsound;

/// What SQLite keeps in one row is a thousand million bytes; the rest of the record needs some of them.
const LARGEST_RESPONSE: usize = 900_000_000;

/// Jobs that may wait for the writer, or for the readers, unless another number is given.
const QUEUE: NonZeroUsize = NonZeroUsize::new(1_024).unwrap();

pub(crate) type OnOpen = Box<dyn FnMut(&Connection) -> rusqlite::Result<()> + Send>;

/// Collects how a [`SqliteStore`] is opened. Made by [`SqliteStore::builder`].
#[must_use = "a store is opened by `open`"]
pub struct Builder {
    pub(crate) path: PathBuf,
    pub(crate) rules: Rules,
    pub(crate) response_limit: usize,
    pub(crate) deadline: Duration,
    pub(crate) queue: NonZeroUsize,
    pub(crate) readers: NonZeroUsize,
    pub(crate) on_open: Option<OnOpen>,
}

impl Builder {
    pub(crate) fn new(path: PathBuf) -> Builder {
        Builder {
            path,
            rules: Rules::default(),
            response_limit: defaults::RESPONSE_LIMIT,
            deadline: defaults::CLAIM_BUDGET,
            queue: QUEUE,
            readers: NonZeroUsize::new(defaults::POOL_SIZE).unwrap_or(NonZeroUsize::MIN),
            on_open: None,
        }
    }

    /// How long things are kept. The same for all processes on one file.
    pub fn rules(mut self, rules: Rules) -> Builder {
        self.rules = rules;
        self
    }

    /// The longest response, in bytes of meta and body. At most 900 million.
    pub fn response_limit(mut self, bytes: usize) -> Builder {
        self.response_limit = bytes;
        self
    }

    /// How long an operation may take, waiting for the queue and for other processes' locks included. Ten seconds
    /// unless it is said.
    pub fn deadline(mut self, deadline: Duration) -> Builder {
        self.deadline = deadline;
        self
    }

    /// How many operations may wait for the writer, and as many for the readers; one more is refused at once, as
    /// `Unavailable`. 1,024 unless it is said.
    pub fn queue(mut self, jobs: NonZeroUsize) -> Builder {
        self.queue = jobs;
        self
    }

    /// How many threads read, each on a connection of its own.
    pub fn readers(mut self, threads: NonZeroUsize) -> Builder {
        self.readers = threads;
        self
    }

    /// Runs this on the writer's connection when it is opened: for functions and collations that the application's own
    /// tables need inside [`settle`](SqliteStore::settle) and [`once`](SqliteStore::once). The connection is opened a
    /// second time when a closure has left a statement unfinished on the first.
    ///
    /// Foreign keys are enforced on that connection unless this turns them off. What the store needs is set after it:
    /// WAL mode, `synchronous`, the busy timeout, and an authorizer.
    pub fn on_open(mut self, prepare: impl FnMut(&Connection) -> rusqlite::Result<()> + Send + 'static) -> Builder {
        self.on_open = Some(Box::new(prepare));
        self
    }

    /// Opens the file, creates it and its tables when they are missing, and starts the threads.
    ///
    /// Everything that touches the disk happens on the writer's thread, so no runtime thread is blocked.
    ///
    /// # Errors
    /// - `Unsupported`: a SQLite before 3.51.3 (it can damage a file in WAL mode), a database in memory, a URI, or a
    ///   file that takes no WAL mode.
    /// - `Schema`: tables made by a newer version, or tables of these names that are not ours.
    /// - `Unavailable`: the file cannot be opened, or stayed locked until the deadline.
    /// - `InvalidInput`: a response limit over 900 million bytes, or a deadline of zero.
    ///
    /// # Cancel safety
    /// Dropped, the threads end by themselves; the file may have been created.
    pub async fn open(self) -> Result<SqliteStore, Error> {
        refuse_unsound(&self.path)?;
        if self.response_limit > LARGEST_RESPONSE {
            return Err(Error::new(ErrorKind::InvalidInput, "SQLite keeps no response of that length"));
        }
        if self.deadline.is_zero() {
            return Err(Error::new(ErrorKind::InvalidInput, "a deadline of zero lets nothing happen"));
        }
        SqliteStore::start(self).await
    }

    /// A deadline that is too far away to be reckoned with is a year.
    pub(crate) fn deadline_from_now(deadline: Duration) -> Instant {
        let now = Instant::now();
        now.checked_add(deadline).unwrap_or_else(|| now + Duration::from_secs(365 * 86_400))
    }
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("path", &self.path)
            .field("rules", &self.rules)
            .field("response_limit", &self.response_limit)
            .field("deadline", &self.deadline)
            .field("queue", &self.queue)
            .field("readers", &self.readers)
            .finish_non_exhaustive()
    }
}
