//! What a caller's closure may not do on the writer's connection.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use idem_core::{Error, ErrorKind};
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::{Connection, Transaction};

use crate::schema::TABLES;
use crate::transaction::TransactionError;

/// Settings that the store's promises stand on.
const SETTINGS: [&str; 8] = [
    "journal_mode",
    "synchronous",
    "locking_mode",
    "query_only",
    "writable_schema",
    "ignore_check_constraints",
    "wal_autocheckpoint",
    "wal_checkpoint",
];

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
            if present.load(Ordering::Relaxed) && forbidden(&asked.action) {
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
        let Ok(outcome) = outcome else {
            return Err(aborted("the closure panicked; its transaction was rolled back").permanent().into());
        };
        let done = outcome.map_err(TransactionError::Work)?;
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

fn forbidden(action: &AuthAction<'_>) -> bool {
    let ours = |table: &str| TABLES.iter().any(|ours| ours.eq_ignore_ascii_case(table));
    match *action {
        AuthAction::Transaction { .. } | AuthAction::Attach { .. } | AuthAction::Detach { .. } => true,
        AuthAction::Pragma { pragma_name, pragma_value } => {
            let store_stands_on = SETTINGS.iter().any(|setting| setting.eq_ignore_ascii_case(pragma_name));
            store_stands_on && (pragma_value.is_some() || pragma_name.eq_ignore_ascii_case("wal_checkpoint"))
        }
        AuthAction::Insert { table_name }
        | AuthAction::Update { table_name, .. }
        | AuthAction::Delete { table_name }
        | AuthAction::DropTable { table_name }
        | AuthAction::AlterTable { table_name, .. }
        | AuthAction::CreateIndex { table_name, .. }
        | AuthAction::DropIndex { table_name, .. }
        | AuthAction::CreateTrigger { table_name, .. }
        | AuthAction::CreateTempTrigger { table_name, .. } => ours(table_name),
        _ => false,
    }
}
