//! Scripts of joined transactions, as closures on the store's writer.

use idem_core::{Completed, Error, ErrorKind};
use idem_sqlite::rusqlite::{self, Transaction};
use idem_sqlite::{Once, SqliteStore, TransactionError};

use super::rows;
use crate::base::script::replay;
use crate::harness::{Entry, Finish, HookError, Hooked, Paused, Script, Scripted};

/// Why a script's closure ended with an error.
#[derive(Debug)]
enum Ended {
    /// The caller rolled back.
    RolledBack,
    /// The application's own statement failed.
    Statement(rusqlite::Error),
}

/// What the caller does between the entry and the finish.
struct Middle {
    rows: Vec<String>,
    pause: Option<Paused>,
    finish: Finish,
}

impl Middle {
    fn run<T>(self, transaction: &Transaction<'_>, value: T) -> Result<T, Ended> {
        for row in self.rows {
            transaction.execute(rows::INSERT_BUSINESS, [row]).map_err(Ended::Statement)?;
        }
        if let Some(pause) = self.pause {
            pause.wait_blocking();
        }
        match self.finish {
            Finish::Commit => Ok(value),
            // In a closure nothing of the application's comes before the entry: `play` has refused it.
            Finish::Rollback | Finish::Unnest => Err(Ended::RolledBack),
            // The caller's code is gone in the middle of its work. Not `panic!`: nobody needs to read of it.
            Finish::Crash => std::panic::resume_unwind(Box::new("the script crashes here")),
        }
    }
}

/// Plays a script.
pub(super) async fn play(store: &SqliteStore, script: Script) -> Hooked<Scripted> {
    let Script { entry, first, rows, pause, finish, .. } = script;
    if first.is_some() || finish == Finish::Unnest {
        return Err(HookError::Unsupported);
    }
    let middle = Middle { rows, pause, finish };
    match entry {
        Entry::Settle { lease, end } => {
            match store.settle(&lease, move |transaction| middle.run(transaction, end)).await {
                Ok(Completed::Stored) => Ok(Scripted::Committed),
                Ok(other) => Ok(Scripted::NotSettled(other)),
                Err(error) => ended(error, finish),
            }
        }
        Entry::Once { claim, end } => {
            let replay = replay(end)?;
            match store.once(&claim, move |transaction, _| middle.run(transaction, replay)).await {
                Ok(Once::First(_)) => Ok(Scripted::Committed),
                // The closure did not run, so there is no transaction that could go on.
                Ok(_) => Ok(Scripted::NotFirst { usable: false }),
                Err(error) => ended(error, finish),
            }
        }
    }
}

fn ended(error: TransactionError<Ended>, finish: Finish) -> Hooked<Scripted> {
    match error {
        TransactionError::Work(Ended::RolledBack) => Ok(Scripted::Undone),
        TransactionError::Work(Ended::Statement(error)) => Err(HookError::failed(error)),
        TransactionError::Store(error) if crashed(&error, finish) => Ok(Scripted::Undone),
        TransactionError::Store(error) => Ok(Scripted::Refused(error)),
    }
}

fn crashed(error: &Error, finish: Finish) -> bool {
    finish == Finish::Crash && error.kind() == ErrorKind::TransactionAborted
}
