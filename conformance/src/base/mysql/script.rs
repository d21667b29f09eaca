//! Scripts of joined transactions, on a connection of the application's.

use idem_core::{Complete, Completed};
use idem_mysql::mysql_async::prelude::Queryable as _;
use idem_mysql::mysql_async::{self, Conn, IsolationLevel, Opts, OptsBuilder, Transaction, TxOpts};
use idem_mysql::{MySqlStore, Once};

use super::rows;
use crate::base::script::replay;
use crate::harness::{Entry, Finish, HookError, Hooked, Isolation, OUTER, Paused, Script, Scripted};

/// As an application has it that knows what `once` needs.
const SESSION: &str = "SET SESSION wait_timeout = 60, innodb_lock_wait_timeout = 10";

/// Back to before the entry.
const UNNEST: &str = "ROLLBACK TO SAVEPOINT nested";

/// What the caller does between the entry and the finish.
struct Middle {
    rows: Vec<String>,
    pause: Option<Paused>,
}

impl Middle {
    async fn run(self, transaction: &mut Transaction<'_>) -> mysql_async::Result<()> {
        for row in self.rows {
            transaction.exec_drop(rows::INSERT_BUSINESS, (row,)).await?;
        }
        if let Some(pause) = self.pause {
            pause.wait().await;
        }
        Ok(())
    }
}

/// Plays a script. The observer is somebody else's connection, that ends what is to crash.
pub(super) async fn play(store: &MySqlStore, options: Opts, observer: &mut Conn, script: Script) -> Hooked<Scripted> {
    let options = OptsBuilder::from_opts(options).setup(vec![SESSION.to_owned()]);
    let mut connection = Conn::new(options).await.map_err(HookError::failed)?;
    let session = u64::from(connection.id());
    let mut how = TxOpts::new();
    if let Some(isolation) = script.isolation {
        how.with_isolation_level(match isolation {
            Isolation::ReadCommitted => IsolationLevel::ReadCommitted,
            Isolation::RepeatableRead => IsolationLevel::RepeatableRead,
            Isolation::Serializable => IsolationLevel::Serializable,
        });
    }
    let mut transaction = connection.start_transaction(how).await.map_err(HookError::failed)?;
    let Script { entry, first, rows, pause, finish, .. } = script;
    if let Some(pause) = first {
        transaction.query_drop(rows::READ_BUSINESS).await.map_err(HookError::failed)?;
        pause.wait().await;
    }
    if finish == Finish::Unnest {
        transaction.exec_drop(rows::INSERT_BUSINESS, (OUTER,)).await.map_err(HookError::failed)?;
        transaction.query_drop("SAVEPOINT nested").await.map_err(HookError::failed)?;
    }
    let middle = Middle { rows, pause };
    let crash = Crash { observer, session };
    let played = match entry {
        Entry::Settle { lease, end } => {
            settle(store, transaction, Complete::new(lease, end), middle, finish, crash).await
        }
        Entry::Once { claim, end } => {
            let replay = replay(end)?;
            match store.once(transaction, &claim).await {
                Ok(Once::First(mut first)) => {
                    middle.run(&mut first).await.map_err(HookError::failed)?;
                    if finish == Finish::Unnest {
                        first.query_drop(UNNEST).await.map_err(HookError::failed)?;
                    }
                    match finish {
                        Finish::Commit | Finish::Unnest => Ok(match first.commit(replay).await {
                            Ok(_) => Scripted::Committed,
                            Err(error) => Scripted::Refused(error),
                        }),
                        Finish::Rollback => {
                            first.rollback().await;
                            Ok(Scripted::Undone)
                        }
                        Finish::Crash => crash.now().await,
                    }
                }
                Ok(Once::Answered(_, mut transaction)) => {
                    // A caller who did nothing wrong goes on with other work of the same transaction.
                    let worked = middle.run(&mut transaction).await.is_ok();
                    let usable = worked && finish == Finish::Commit && transaction.commit().await.is_ok();
                    Ok(Scripted::NotFirst { usable })
                }
                Err(error) => Ok(Scripted::Refused(error)),
            }
        }
    };
    // A session that was ended by its server cannot say goodbye.
    let _ = connection.disconnect().await;
    played
}

async fn settle(
    store: &MySqlStore,
    mut transaction: Transaction<'_>,
    complete: Complete,
    middle: Middle,
    finish: Finish,
    crash: Crash<'_>,
) -> Hooked<Scripted> {
    if finish == Finish::Commit {
        middle.run(&mut transaction).await.map_err(HookError::failed)?;
        return Ok(match store.settle(transaction, &complete).await {
            Ok(Completed::Stored) => Scripted::Committed,
            Ok(refused) => Scripted::NotSettled(refused),
            Err(error) => Scripted::Refused(error),
        });
    }
    // `settle` commits at once, so the end is written by what a caller has who commits himself, and then undone.
    match store.complete_in(&mut transaction, &complete).await {
        Ok(Completed::Stored) => {}
        Ok(refused) => return Ok(Scripted::NotSettled(refused)),
        Err(error) => return Ok(Scripted::Refused(error)),
    }
    middle.run(&mut transaction).await.map_err(HookError::failed)?;
    match finish {
        Finish::Crash => crash.now().await,
        Finish::Unnest => {
            transaction.query_drop(UNNEST).await.map_err(HookError::failed)?;
            transaction.commit().await.map_err(HookError::failed)?;
            Ok(Scripted::Undone)
        }
        Finish::Rollback | Finish::Commit => {
            transaction.rollback().await.map_err(HookError::failed)?;
            Ok(Scripted::Undone)
        }
    }
}

/// Leaves without a word: the server ends the session in the middle of the transaction.
struct Crash<'o> {
    observer: &'o mut Conn,
    session: u64,
}

impl Crash<'_> {
    async fn now(self) -> Hooked<Scripted> {
        rows::kill(self.observer, &[self.session]).await?;
        Ok(Scripted::Undone)
    }
}
