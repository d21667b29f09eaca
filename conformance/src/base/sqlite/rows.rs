//! The store's rows, read and made older without the store.

use bytes::Bytes;
use idem_core::{
    Checkpoint, Fence, Fingerprint, Identity, OnUncertain, Operation, Owner, Record, Recorded, Response, Span, State,
    StoreTime, Token, decode_history,
};
use idem_sqlite::rusqlite::types::Type;
use idem_sqlite::rusqlite::{self, Connection, OptionalExtension as _, Row, named_params};

use crate::harness::Setting;

/// Says that the tables are of a version that nobody knows yet.
pub(super) const MARK_AS_NEWER: &str = "INSERT INTO idem_schema (version, applied_us) VALUES (1000, 0)";

/// Takes the records away.
pub(super) const DROP: &str = "DROP TABLE idem_records";

/// Every insert violates a constraint that has nothing to do with identities.
pub(super) const REFUSE_INSERTS: &str =
    "CREATE TRIGGER conformance_obstacle BEFORE INSERT ON idem_records BEGIN SELECT RAISE(ABORT, 'obstacle'); END";

/// The application's table, that joined transactions write to.
pub(super) const BUSINESS: &str = "CREATE TABLE IF NOT EXISTS business (line TEXT NOT NULL) STRICT";

/// Writes into the application's table.
pub(super) const INSERT_BUSINESS: &str = "INSERT INTO business (line) VALUES (?1)";

const AGE: &str = "UPDATE idem_records
    SET created_us = created_us - :by, claimed_us = claimed_us - :by, lease_until_us = lease_until_us - :by,
        ended_us = ended_us - :by, expires_us = expires_us - :by
    WHERE scope = :scope AND key = :key";

const PEEK: &str = "SELECT * FROM idem_records WHERE scope = :scope AND key = :key";

/// Shifts every time of one record back. Gives back how many records that were.
pub(super) fn age(connection: &Connection, identity: &Identity, by: Span) -> rusqlite::Result<usize> {
    let (scope, key) = (identity.scope.as_str(), identity.key.as_str());
    connection.execute(AGE, named_params! { ":scope": scope, ":key": key, ":by": whole(by.as_micros()) })
}

/// The row as it is.
pub(super) fn peek(connection: &Connection, identity: &Identity) -> rusqlite::Result<Option<Record>> {
    let (scope, key) = (identity.scope.as_str(), identity.key.as_str());
    connection.query_row(PEEK, named_params! { ":scope": scope, ":key": key }, record).optional()
}

/// The application's rows.
pub(super) fn business(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    connection.execute_batch(BUSINESS)?;
    let mut select = connection.prepare("SELECT line FROM business")?;
    select.query_map((), |row| row.get(0))?.collect()
}

/// The settings that durability rests on.
pub(super) fn settings(connection: &Connection) -> rusqlite::Result<Vec<Setting>> {
    let version: String = connection.query_row("SELECT sqlite_version()", (), |row| row.get(0))?;
    let journal: String = connection.query_row("PRAGMA journal_mode", (), |row| row.get(0))?;
    let synchronous: i64 = connection.query_row("PRAGMA synchronous", (), |row| row.get(0))?;
    let synchronous = match synchronous {
        0 => "OFF".to_owned(),
        1 => "NORMAL".to_owned(),
        2 => "FULL".to_owned(),
        3 => "EXTRA".to_owned(),
        other => other.to_string(),
    };
    Ok(vec![
        Setting::new("sqlite_version", version),
        Setting::new("journal_mode", journal),
        Setting::new("synchronous", synchronous),
    ])
}

fn record(row: &Row<'_>) -> rusqlite::Result<Record> {
    let (scope, key): (String, String) = (row.get("scope")?, row.get("key")?);
    let optional_time = |column| Ok::<_, rusqlite::Error>(row.get::<_, Option<i64>>(column)?.map(time));
    let within: Option<i64> = row.get("take_over_within_us")?;
    Ok(Record {
        identity: Identity::new(sound(idem_core::Scope::new(scope))?, sound(idem_core::Key::new(key))?),
        operation: sound(Operation::new(row.get::<_, String>("operation")?))?,
        fingerprint: Fingerprint::from_bytes(row.get("fingerprint")?),
        state: match row.get("state")? {
            1 => State::Processing,
            2 => State::Succeeded,
            3 => State::Failed,
            4 => State::Unknown,
            5 => State::Released,
            other => return Err(rusqlite::Error::IntegralValueOutOfRange(0, other)),
        },
        undone: row.get("undone")?,
        on_uncertain: match within {
            None => OnUncertain::Hold,
            Some(micros) => OnUncertain::TakeOver { within: sound(Span::micros(micros.unsigned_abs()))? },
        },
        attempt: row.get("attempt")?,
        token: Token::from_bytes(row.get("token")?),
        fence: Fence::new(row.get::<_, i64>("fence")?.unsigned_abs()),
        owner: match row.get::<_, Option<String>>("owner")? {
            Some(owner) => Some(sound(Owner::new(owner))?),
            None => None,
        },
        ran_since: row.get("ran_since")?,
        created_at: time(row.get("created_us")?),
        claimed_at: time(row.get("claimed_us")?),
        lease_until: time(row.get("lease_until_us")?),
        ended_at: optional_time("ended_us")?,
        expires_at: time(row.get("expires_us")?),
        checkpoint: match (row.get::<_, Option<i64>>("checkpoint_sequence")?, bytes(row, "checkpoint")?) {
            (Some(sequence), Some(bytes)) => Some(Checkpoint { sequence: sequence.unsigned_abs(), bytes }),
            _ => None,
        },
        recorded: match (row.get::<_, Option<u16>>("code")?, bytes(row, "meta")?) {
            (Some(code), Some(meta)) => Some(Recorded::Response(Response { code, meta, body: bytes(row, "body")? })),
            (Some(code), None) => Some(Recorded::Tombstone { code }),
            (None, _) => None,
        },
        history: sound(decode_history(&row.get::<_, String>("history")?))?,
    })
}

fn time(micros: i64) -> StoreTime {
    StoreTime::from_micros(micros.unsigned_abs())
}

fn whole(micros: u64) -> i64 {
    i64::try_from(micros).unwrap_or(i64::MAX)
}

fn bytes(row: &Row<'_>, column: &str) -> rusqlite::Result<Option<Bytes>> {
    Ok(row.get::<_, Option<Vec<u8>>>(column)?.map(Bytes::from))
}

fn sound<T>(made: Result<T, idem_core::Error>) -> rusqlite::Result<T> {
    made.map_err(|error| rusqlite::Error::FromSqlConversionFailure(0, Type::Null, Box::new(error)))
}
