//! What a caller's closure may not do on the writer's connection.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use idem_core::{Error, ErrorKind};
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::{Connection, Transaction};

use crate::connection::settle_in;
use crate::error::{self, Moment};
use crate::schema::TABLES;
use crate::transaction::TransactionError;

/// Settings that the store's promises stand on.
const SETTINGS: [&str; 13] = [
    "journal_mode",
    "synchronous",
    "fullfsync",
    "checkpoint_fullfsync",
    "locking_mode",
    "busy_timeout",
    "query_only",
    "writable_schema",
    "schema_version",
    "ignore_check_constraints",
    "max_page_count",
    "wal_autocheckpoint",
    "wal_checkpoint",
];

/// What the names of the store's own tables begin with.
const PREFIX: &str = "idem_";

/// Knows whether a caller's closure is running, and refuses what it may not prepare: ending the transaction, attaching
/// files, and writing to idem's own tables. Nothing at all is committed while it runs: `ON CONFLICT ROLLBACK` ends a
/// transaction from within, and every statement after it would otherwise be one of its own.
///
/// SQLite asks while a statement is prepared, so the hooks stay on the connection for good: setting them anew for each
/// closure would throw away every prepared statement.
#[derive(Clone, Debug, Default)]
pub(crate) struct Guest {
    present: Arc<AtomicBool>,
}

impl Guest {
    /// Puts the hooks on the writer's connection.
    pub(crate) fn watch(&self, connection: &mut Connection) -> rusqlite::Result<()> {
        let present = Arc::clone(&self.present);
        // A commit for which this is true becomes a rollback.
        connection.commit_hook(Some(move || present.load(Ordering::Relaxed)))?;
        let present = Arc::clone(&self.present);
        connection.authorizer(Some(move |asked: AuthContext<'_>| {
            if present.load(Ordering::Relaxed) && forbidden(&asked) {
                Authorization::Deny
            } else {
                Authorization::Allow
            }
        }))
    }

    /// Runs a caller's closure; a panic in it is caught, and so is a transaction that it ended.
    pub(crate) fn run<T, E>(
        &self,
        transaction: &Transaction<'_>,
        work: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, TransactionError<E>> {
        self.present.store(true, Ordering::Relaxed);
        // Everything that the closure could leave half done is in the transaction, which is rolled back.
        let outcome = catch_unwind(AssertUnwindSafe(work));
        self.present.store(false, Ordering::Relaxed);
        let waits_again = settle_in(transaction);
        let Ok(outcome) = outcome else {
            return Err(aborted("the closure panicked; its transaction was rolled back").permanent().into());
        };
        let done = outcome.map_err(TransactionError::Work)?;
        waits_again.map_err(|refusal| error::of(refusal, Moment::Statement))?;
        if transaction.is_busy() {
            // It would refuse every COMMIT, or pin an old snapshot. Waiting does not end it: nobody can step it any more.
            return Err(aborted("the closure left a statement unfinished; its transaction was rolled back")
                .permanent()
                .into());
        }
        if transaction.is_autocommit() {
            // `ON CONFLICT ROLLBACK`, or a full disk: SQLite ended it, and the closure did not say so.
            return Err(aborted("the transaction was rolled back inside the closure").into());
        }
        Ok(done)
    }
}

fn aborted(message: &'static str) -> Error {
    Error::new(ErrorKind::TransactionAborted, message)
}

fn forbidden(asked: &AuthContext<'_>) -> bool {
    let ours = |table: &str| TABLES.iter().any(|ours| ours.eq_ignore_ascii_case(table));
    // A temporary object hides the one of the same name in the file from every statement that does not say `main`.
    let could_hide_ours = |name: &str| name.get(..PREFIX.len()).is_some_and(|start| start.eq_ignore_ascii_case(PREFIX));
    // `CREATE TABLE temp.t` is asked about as a table of the schema `temp`, `CREATE TEMP TABLE t` as a temporary one.
    let temporary = asked.database_name.is_some_and(|schema| schema.eq_ignore_ascii_case("temp"));
    match asked.action {
        AuthAction::Transaction { .. } | AuthAction::Attach { .. } | AuthAction::Detach { .. } => true,
        AuthAction::Pragma { pragma_name, pragma_value } => {
            let store_stands_on = SETTINGS.iter().any(|setting| setting.eq_ignore_ascii_case(pragma_name));
            store_stands_on && (pragma_value.is_some() || pragma_name.eq_ignore_ascii_case("wal_checkpoint"))
        }
        AuthAction::CreateTempTable { table_name: name }
        | AuthAction::CreateTempView { view_name: name }
        | AuthAction::CreateVtable { table_name: name, .. } => could_hide_ours(name),
        AuthAction::CreateTable { table_name: name } | AuthAction::CreateView { view_name: name } => {
            temporary && could_hide_ours(name)
        }
        AuthAction::CreateTempIndex { index_name: name, table_name }
        | AuthAction::CreateTempTrigger { trigger_name: name, table_name } => {
            could_hide_ours(name) || could_hide_ours(table_name)
        }
        AuthAction::Insert { table_name }
        | AuthAction::Update { table_name, .. }
        | AuthAction::Delete { table_name }
        | AuthAction::DropTable { table_name }
        | AuthAction::AlterTable { table_name, .. }
        | AuthAction::CreateIndex { table_name, .. }
        | AuthAction::DropIndex { table_name, .. }
        | AuthAction::CreateTrigger { table_name, .. } => ours(table_name),
        _ => false,
    }
}
