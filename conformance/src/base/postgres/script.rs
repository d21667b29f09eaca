//! Scripts of joined transactions, on a pool of the application's.

use idem_core::{Claim, Complete, Completed, End, Lease};
use idem_postgres::sqlx::postgres::{PgConnection, PgPool};
use idem_postgres::sqlx::{self, Executor as _};
use idem_postgres::{Once, PoolTransaction, PostgresStore};

use super::rows;
use crate::base::script::replay;
use crate::harness::{Entry, Finish, HookError, Hooked, OUTER, Paused, Script, Scripted};

/// The server ends the session as it would end that of a client that is gone.
const VANISH: &str = "SELECT pg_terminate_backend(pg_backend_pid())";

/// Back to before the entry.
const UNNEST: &str = "ROLLBACK TO SAVEPOINT nested";

/// What the caller does between the entry and the finish.
struct Middle {
    rows: Vec<String>,
    pause: Option<Paused>,
}

impl Middle {
    async fn run(self, connection: &mut PgConnection) -> sqlx::Result<()> {
        for row in self.rows {
            sqlx::query(rows::INSERT_BUSINESS).bind(row).execute(&mut *connection).await?;
        }
        if let Some(pause) = self.pause {
            pause.wait().await;
        }
        Ok(())
    }
}

/// Plays a script.
pub(super) async fn play(store: &PostgresStore, pool: &PgPool, script: Script) -> Hooked<Scripted> {
    let Script { entry, first, rows, pause, finish, .. } = script;
    let mut transaction = pool.begin().await.map_err(HookError::failed)?;
    if let Some(pause) = first {
        transaction.execute(rows::READ_BUSINESS).await.map_err(HookError::failed)?;
        pause.wait().await;
    }
    if finish == Finish::Unnest {
        sqlx::query(rows::INSERT_BUSINESS).bind(OUTER).execute(&mut *transaction).await.map_err(HookError::failed)?;
        transaction.execute("SAVEPOINT nested").await.map_err(HookError::failed)?;
    }
    let middle = Middle { rows, pause };
    match entry {
        Entry::Settle { lease, end } => settle(store, transaction, lease, end, middle, finish).await,
        Entry::Once { claim, end } => once(store, transaction, claim, end, middle, finish).await,
    }
}

async fn settle(
    store: &PostgresStore,
    mut transaction: PoolTransaction,
    lease: Lease,
    end: End,
    middle: Middle,
    finish: Finish,
) -> Hooked<Scripted> {
    let complete = Complete::new(lease, end);
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
        Finish::Crash => vanish(&mut transaction).await?,
        Finish::Unnest => {
            transaction.execute(UNNEST).await.map_err(HookError::failed)?;
            transaction.commit().await.map_err(HookError::failed)?;
        }
        Finish::Rollback | Finish::Commit => transaction.rollback().await.map_err(HookError::failed)?,
    }
    Ok(Scripted::Undone)
}

async fn once(
    store: &PostgresStore,
    transaction: PoolTransaction,
    claim: Claim,
    end: End,
    middle: Middle,
    finish: Finish,
) -> Hooked<Scripted> {
    let replay = replay(end)?;
    let mut first = match store.once(transaction, &claim).await {
        Ok(Once::First(first)) => first,
        Ok(Once::Answered(_, mut transaction)) => {
            // A caller who did nothing wrong goes on with other work of the same transaction.
            let worked = middle.run(&mut transaction).await.is_ok();
            let usable = worked && finish == Finish::Commit && transaction.commit().await.is_ok();
            return Ok(Scripted::NotFirst { usable });
        }
        Err(error) => return Ok(Scripted::Refused(error)),
    };
    middle.run(&mut first).await.map_err(HookError::failed)?;
    if finish == Finish::Unnest {
        first.execute(UNNEST).await.map_err(HookError::failed)?;
    }
    match finish {
        Finish::Commit | Finish::Unnest => Ok(match first.commit(replay).await {
            Ok(_) => Scripted::Committed,
            Err(error) => Scripted::Refused(error),
        }),
        Finish::Rollback => first.rollback().await.map(|()| Scripted::Undone).map_err(HookError::failed),
        Finish::Crash => vanish(&mut first).await.map(|()| Scripted::Undone),
    }
}

/// Leaves without a word: the server ends the session in the middle of the transaction.
async fn vanish(connection: &mut PgConnection) -> Hooked<()> {
    match connection.execute(VANISH).await {
        Err(_) => Ok(()),
        Ok(_) => Err(HookError::failed("the session goes on after its end")),
    }
}
