//! A SQLite file.

use std::path::PathBuf;
use std::time::Duration;

use async_trait::async_trait;
use idem_sqlite::rusqlite::types::{ToSqlOutput, ValueRef};
use idem_sqlite::rusqlite::{self, Connection, OptionalExtension, ToSql, params_from_iter};

use super::{Sql, Value};
use crate::ways::BoxError;

/// Opens a connection for each statement: what a pool gives, without the bookkeeping.
pub(super) struct File(PathBuf);

impl File {
    pub(super) fn new(path: PathBuf) -> File {
        File(path)
    }

    /// Runs on a connection of its own, away from the runtime's threads.
    async fn run<T: Send + 'static>(
        &self,
        sql: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, BoxError> {
        let path = self.0.clone();
        let run = move || {
            let connection = Connection::open(path)?;
            connection.busy_timeout(Duration::from_secs(10))?;
            sql(&connection)
        };
        Ok(tokio::task::spawn_blocking(run).await??)
    }
}

#[async_trait]
impl Sql for File {
    async fn execute(&self, statement: &str, values: &[Value]) -> Result<u64, BoxError> {
        let (statement, values) = (statement.to_owned(), values.to_vec());
        let changed = self.run(move |connection| connection.execute(&statement, params_from_iter(values))).await?;
        Ok(u64::try_from(changed)?)
    }

    async fn first(&self, query: &str, values: &[Value]) -> Result<Option<(String, i64)>, BoxError> {
        let (query, values) = (query.to_owned(), values.to_vec());
        self.run(move |connection| {
            let row = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
            connection.query_row(&query, params_from_iter(values), row).optional()
        })
        .await
    }
}

impl ToSql for Value {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Value::Text(text) => ValueRef::Text(text.as_bytes()),
            Value::Number(number) => ValueRef::Integer(*number),
        }))
    }
}
