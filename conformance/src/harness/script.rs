//! Transactions that join business rows and the record, as scripts.

use idem_core::{Claim, Completed, End, Error, Lease};
use tokio::sync::oneshot;

use super::{Isolation, Reach};

/// What a transaction is to do: enter, write its business rows, pause where a rule asks for it, and finish.
#[derive(Debug)]
#[non_exhaustive]
pub struct Script {
    /// How it begins.
    pub entry: Entry,
    /// Where it waits before its entry, when its snapshot is taken already: it has read the business rows.
    pub first: Option<Paused>,
    /// The business rows that it inserts after the entry.
    pub rows: Vec<String>,
    /// Where it waits, after its rows and before it finishes.
    pub pause: Option<Paused>,
    /// How it finishes.
    pub finish: Finish,
    /// At which isolation level it runs; None is the backend's own way.
    pub isolation: Option<Isolation>,
    /// By which way its transaction, and the store that it joins, reach the server.
    pub reach: Reach,
}

impl Script {
    /// Enters so, writes nothing, commits.
    #[must_use]
    pub fn new(entry: Entry) -> Script {
        Script {
            entry,
            first: None,
            rows: Vec::new(),
            pause: None,
            finish: Finish::Commit,
            isolation: None,
            reach: Reach::Direct,
        }
    }

    /// The same, with this business row.
    #[must_use]
    pub fn row(mut self, row: impl Into<String>) -> Script {
        self.rows.push(row.into());
        self
    }

    /// The same, with another finish.
    #[must_use]
    pub fn finish(mut self, finish: Finish) -> Script {
        self.finish = finish;
        self
    }

    /// The same, waiting before its entry.
    #[must_use]
    pub fn pause_first(mut self, pause: Paused) -> Script {
        self.first = Some(pause);
        self
    }

    /// The same, waiting before it finishes.
    #[must_use]
    pub fn pause(mut self, pause: Paused) -> Script {
        self.pause = Some(pause);
        self
    }

    /// The same, at this isolation level.
    #[must_use]
    pub fn isolation(mut self, isolation: Isolation) -> Script {
        self.isolation = Some(isolation);
        self
    }

    /// The same, reaching the server so.
    #[must_use]
    pub fn reaching(mut self, reach: Reach) -> Script {
        self.reach = reach;
        self
    }
}

/// How a transaction begins.
#[derive(Debug)]
#[non_exhaustive]
pub enum Entry {
    /// The outside effect is done: business rows and the end of this lease's attempt go together (clause J1).
    Settle {
        /// Whose attempt.
        lease: Lease,
        /// How it ended.
        end: End,
    },
    /// Everything is in this database: claim, business rows and end go together (clause J2).
    Once {
        /// The claim.
        claim: Claim,
        /// How it ends when it was acquired.
        end: End,
    },
}

/// How a transaction finishes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Finish {
    /// By a commit, if the contract allows it (clause F5b).
    Commit,
    /// By a rollback of the caller's choice.
    Rollback,
    /// Not at all: the client goes away without a word.
    Crash,
    /// By a rollback to a savepoint that was made before the entry, behind the business row [`OUTER`], and a commit of
    /// what is left; of a one-transaction claim, by what commits it otherwise.
    Unnest,
}

/// The business row of a transaction that others are nested in.
pub const OUTER: &str = "outer";

/// How it went.
#[derive(Debug)]
#[non_exhaustive]
pub enum Scripted {
    /// Rows and record are committed.
    Committed,
    /// The caller rolled back, or was gone.
    Undone,
    /// Settle met a record that it may not write, and rolled back.
    NotSettled(Completed),
    /// Once met a record that is not its own to run: done, in flight, of another fingerprint. `usable` says whether
    /// the caller's transaction went on: its rows are committed then.
    NotFirst {
        /// Did the same transaction go on?
        usable: bool,
    },
    /// The store's error, after which nothing of it is there.
    Refused(Error),
}

/// Two ends of a pause: the script's, and the rule's.
#[must_use]
pub fn pause() -> (Pause, Paused) {
    let (reached, is_reached) = oneshot::channel();
    let (go_on, may_go_on) = oneshot::channel();
    (Pause { is_reached, go_on }, Paused { reached, may_go_on })
}

/// The rule's end of a pause.
#[derive(Debug)]
pub struct Pause {
    is_reached: oneshot::Receiver<()>,
    go_on: oneshot::Sender<()>,
}

impl Pause {
    /// Waits until the script has arrived. Says whether it did: a script that ended before did not.
    pub async fn reached(&mut self) -> bool {
        (&mut self.is_reached).await.is_ok()
    }

    /// Lets the script go on.
    pub fn go_on(self) {
        // A script that is gone needs no permission.
        let _ = self.go_on.send(());
    }
}

/// The script's end of a pause.
#[derive(Debug)]
pub struct Paused {
    reached: oneshot::Sender<()>,
    may_go_on: oneshot::Receiver<()>,
}

impl Paused {
    /// Says that it has arrived, and waits.
    pub async fn wait(self) {
        let _ = self.reached.send(());
        let _ = self.may_go_on.await;
    }

    /// The same on a thread that may block.
    pub fn wait_blocking(self) {
        let _ = self.reached.send(());
        let _ = self.may_go_on.blocking_recv();
    }
}
