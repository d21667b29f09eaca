//! A MySQL or MariaDB database.

use async_trait::async_trait;
use idem_mysql::mysql_async::prelude::Queryable;
use idem_mysql::mysql_async::{self, Params};
use url::Url;

use super::{Sql, Value};
use crate::ways::BoxError;

pub(super) struct Pool(mysql_async::Pool);

impl Pool {
    pub(super) fn open(url: &Url) -> Result<Pool, BoxError> {
        Ok(Pool(mysql_async::Pool::from_url(url.as_str())?))
    }
}

#[async_trait]
impl Sql for Pool {
    async fn execute(&self, statement: &str, values: &[Value]) -> Result<u64, BoxError> {
        let mut connection = self.0.get_conn().await?;
        connection.exec_drop(statement, parameters(values)).await?;
        Ok(connection.affected_rows())
    }

    async fn first(&self, query: &str, values: &[Value]) -> Result<Option<(String, i64)>, BoxError> {
        Ok(self.0.get_conn().await?.exec_first(query, parameters(values)).await?)
    }

    fn unless_there(&self, insert: &str) -> String {
        insert.replacen("INSERT", "INSERT IGNORE", 1)
    }
}

fn parameters(values: &[Value]) -> Params {
    if values.is_empty() {
        return Params::Empty;
    }
    let value = |value: &Value| match value {
        Value::Text(text) => text.as_str().into(),
        Value::Number(number) => (*number).into(),
    };
    Params::Positional(values.iter().map(value).collect())
}
