//! One value, written so that the server acknowledged it, and read back.

use std::time::Duration;

use conformance::provider::{Kind, Server};
use libtest_mimic::Failed;
use mysql_async::prelude::Queryable;
use sqlx::{Connection, PgConnection, Row};

const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) async fn write(server: &Server, value: i64) -> Result<(), Failed> {
    let url = server.endpoint().url().to_owned();
    let work = async {
        match server.kind() {
            Kind::Postgres => {
                let mut connection = PgConnection::connect(&url).await?;
                sqlx::query("CREATE TABLE IF NOT EXISTS kept (value bigint)").execute(&mut connection).await?;
                sqlx::query("INSERT INTO kept VALUES ($1)").bind(value).execute(&mut connection).await?;
            }
            Kind::MySql | Kind::MariaDb => {
                let mut connection = mysql_async::Conn::from_url(&url).await?;
                connection.query_drop("CREATE TABLE IF NOT EXISTS kept (value bigint)").await?;
                connection.exec_drop("INSERT INTO kept VALUES (?)", (value,)).await?;
                connection.disconnect().await?;
            }
            Kind::Redis | Kind::Valkey => {
                let mut connection = redis::Client::open(url)?.get_multiplexed_async_connection().await?;
                redis::cmd("RPUSH").arg("kept").arg(value).query_async::<()>(&mut connection).await?;
            }
            other => return Err(Failed::from(format!("no way to write to {other}"))),
        }
        Ok(())
    };
    tokio::time::timeout(PATIENCE, work).await?
}

pub(crate) async fn read(server: &Server) -> Result<Vec<i64>, Failed> {
    let url = server.endpoint().url().to_owned();
    let work = async {
        Ok(match server.kind() {
            Kind::Postgres => {
                let mut connection = PgConnection::connect(&url).await?;
                let rows = sqlx::query("SELECT value FROM kept ORDER BY value").fetch_all(&mut connection).await?;
                rows.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?
            }
            Kind::MySql | Kind::MariaDb => {
                let mut connection = mysql_async::Conn::from_url(&url).await?;
                let values = connection.query("SELECT value FROM kept ORDER BY value").await?;
                connection.disconnect().await?;
                values
            }
            Kind::Redis | Kind::Valkey => {
                let mut connection = redis::Client::open(url)?.get_multiplexed_async_connection().await?;
                redis::cmd("LRANGE").arg("kept").arg(0).arg(-1).query_async(&mut connection).await?
            }
            other => return Err(Failed::from(format!("no way to read from {other}"))),
        })
    };
    tokio::time::timeout(PATIENCE, work).await?
}
