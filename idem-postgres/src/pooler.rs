//! Finds out whether a pooler stands between the store and the server, and whether it mixes prepared statements.
//!
//! A pooler in transaction mode gives every transaction whatever server session is free. A statement that was prepared
//! on one of them is missing on the next, or is there under the same name as *another* client's: then that one answers.
//! PgBouncer 1.21 and later can keep track of the names; older ones, and unnamed statements with any, cannot.

use idem_core::{Error, ErrorKind};
use sqlx::{Connection, Executor, PgConnection, Row};

use crate::error::{Class, Failure, POOLER};

/// Two statements with the same shape and, being the first of their connections, the same name.
const PROBES: [&str; 2] = [
    "SELECT 'idem.probe.a' AS op, pg_backend_pid() AS session, $1::bigint AS echo",
    "SELECT 'idem.probe.b' AS op, pg_backend_pid() AS session, $1::bigint AS echo",
];

/// Refuses a pooler that mixes prepared statements.
///
/// Two fresh connections take turns while nothing is open on either. A session of the server that both of them meet is
/// a pooler's; each must then still be answered by its own statement.
pub(crate) async fn refuse_mixing(first: &mut PgConnection, second: &mut PgConnection) -> Result<(), Failure> {
    let mut sessions = [Vec::new(), Vec::new()];
    for turn in 0..3 {
        for (number, connection) in [&mut *first, &mut *second].into_iter().enumerate() {
            sessions[number].push(ask(connection, PROBES[number], turn).await?);
        }
    }
    // While the second keeps a session busy, a pooler must give the first another one.
    second.execute("BEGIN").await?;
    sessions[1].push(ask(second, PROBES[1], 3).await?);
    let meanwhile = ask(first, PROBES[0], 3).await;
    second.execute("ROLLBACK").await?;
    sessions[0].push(meanwhile?);

    let shared = sessions[0].iter().any(|session| sessions[1].contains(session));
    let moved = sessions.iter().any(|seen| seen.windows(2).any(|pair| pair[0] != pair[1]));
    if !shared && !moved {
        return Ok(()); // Each has a session of its own: no pooler, or one in session mode.
    }
    if first.cached_statements_size() == 0 {
        return Err(mixing()); // Unnamed statements: no pooler keeps track of those.
    }
    tracing::info!("a pooler in transaction mode keeps track of prepared statements");
    Ok(())
}

/// Asks which session answers, by a prepared statement.
async fn ask(connection: &mut PgConnection, probe: &'static str, echo: i64) -> Result<i32, Failure> {
    let tag = if probe == PROBES[0] { "idem.probe.a" } else { "idem.probe.b" };
    let row = match sqlx::query(probe).bind(echo).fetch_one(connection).await {
        Ok(row) => row,
        Err(error) => {
            let failure = Failure::from(error);
            return Err(if failure.class() == Class::Pooler { mixing() } else { failure });
        }
    };
    let ours = row.try_get::<&str, _>("op").is_ok_and(|op| op == tag) && row.try_get("echo").ok() == Some(echo);
    if ours { Ok(row.try_get("session")?) } else { Err(mixing()) }
}

fn mixing() -> Failure {
    Error::new(ErrorKind::Unsupported, POOLER).into()
}
