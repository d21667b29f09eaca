//! A PostgreSQL database.

use async_trait::async_trait;
use idem_postgres::sqlx::postgres::PgArguments;
use idem_postgres::sqlx::query::Query;
use idem_postgres::sqlx::{self, AssertSqlSafe, PgPool, Postgres, Row};
use url::Url;

use super::{Sql, Value};
use crate::ways::BoxError;

pub(super) struct Pool(PgPool);

impl Pool {
    pub(super) async fn open(url: &Url) -> Result<Pool, BoxError> {
        Ok(Pool(PgPool::connect(url.as_str()).await?))
    }
}

#[async_trait]
impl Sql for Pool {
    async fn execute(&self, statement: &str, values: &[Value]) -> Result<u64, BoxError> {
        Ok(query(statement, values).execute(&self.0).await?.rows_affected())
    }

    async fn first(&self, text: &str, values: &[Value]) -> Result<Option<(String, i64)>, BoxError> {
        let row = query(text, values).fetch_optional(&self.0).await?;
        Ok(row.map(|row| Ok::<_, sqlx::Error>((row.try_get(0)?, row.try_get(1)?))).transpose()?)
    }
}

fn query(statement: &str, values: &[Value]) -> Query<'static, Postgres, PgArguments> {
    let query = sqlx::query(AssertSqlSafe(numbered(statement)));
    values.iter().fold(query, |query, value| match value {
        Value::Text(text) => query.bind(text.clone()),
        Value::Number(number) => query.bind(*number),
    })
}

/// `$1`, `$2` … for the question marks. No statement here has one in a text.
fn numbered(statement: &str) -> String {
    let mut parts = statement.split('?');
    let first = parts.next().unwrap_or_default().to_owned();
    (1..).zip(parts).fold(first, |text, (number, part)| format!("{text}${number}{part}"))
}

#[cfg(test)]
mod tests {
    #[test]
    fn parameters_are_numbered_in_order() {
        assert_eq!(super::numbered("VALUES (?, 'x', ?)"), "VALUES ($1, 'x', $2)");
        assert_eq!(super::numbered("SELECT 1"), "SELECT 1");
    }
}
