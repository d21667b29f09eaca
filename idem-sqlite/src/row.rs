//! Between a row and a record.

use bytes::Bytes;
use idem_core::{
    Checkpoint, Fence, Fingerprint, Identity, OnUncertain, Operation, Owner, Record, Recorded, Response, Span, State,
    StoreTime, Token, decode_history,
};
use rusqlite::types::{FromSql, Type};
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::sql;

/// Reads a record as it is stored, over age or not.
pub(crate) fn find(connection: &Connection, identity: &Identity) -> rusqlite::Result<Option<Record>> {
    let mut get = connection.prepare_cached(sql::GET)?;
    get.query_row(params![identity.scope.as_str(), identity.key.as_str()], |row| decode(identity, row)).optional()
}

/// The number that a state is stored as. A spent record is stored as what it was: age alone makes it spent.
pub(crate) fn state_number(state: State) -> i64 {
    match state {
        State::Processing => 1,
        State::Succeeded | State::Spent(idem_core::Final::Succeeded) => 2,
        State::Failed | State::Spent(idem_core::Final::Failed) => 3,
        State::Unknown => 4,
        State::Released => 5,
    }
}

/// The take-over time as it is stored; none holds.
pub(crate) fn take_over_within(policy: OnUncertain) -> Option<i64> {
    match policy {
        OnUncertain::TakeOver { within } => Some(span(within)),
        OnUncertain::Hold => None,
    }
}

pub(crate) fn span(span: Span) -> i64 {
    signed(span.as_micros())
}

pub(crate) fn time(time: StoreTime) -> i64 {
    signed(time.as_micros())
}

/// Times, spans, fences and checkpoint numbers fit 63 bits by their types' own promise; the cap keeps a clock that is
/// set to nonsense from wrapping round into the past.
pub(crate) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn decode(identity: &Identity, row: &Row<'_>) -> rusqlite::Result<Record> {
    Ok(Record {
        identity: identity.clone(),
        operation: checked(Operation::new(text(row, "operation")?))?,
        fingerprint: Fingerprint::from_bytes(row.get("fingerprint")?),
        state: state(row.get("state")?)?,
        undone: row.get("undone")?,
        on_uncertain: match row.get::<_, Option<i64>>("take_over_within_us")? {
            Some(within) => OnUncertain::TakeOver { within: checked(Span::micros(unsigned(within)?))? },
            None => OnUncertain::Hold,
        },
        attempt: row.get("attempt")?,
        token: Token::from_bytes(row.get("token")?),
        fence: Fence::new(unsigned(row.get("fence")?)?),
        owner: row.get::<_, Option<String>>("owner")?.map(|owner| checked(Owner::new(owner))).transpose()?,
        ran_since: row.get("ran_since")?,
        created_at: instant(row, "created_us")?,
        claimed_at: instant(row, "claimed_us")?,
        lease_until: instant(row, "lease_until_us")?,
        ended_at: row.get::<_, Option<i64>>("ended_us")?.map(unsigned).transpose()?.map(StoreTime::from_micros),
        expires_at: instant(row, "expires_us")?,
        checkpoint: checkpoint(row)?,
        recorded: recorded(row)?,
        history: checked(decode_history(&text(row, "history")?))?,
    })
}

fn state(number: i64) -> rusqlite::Result<State> {
    match number {
        1 => Ok(State::Processing),
        2 => Ok(State::Succeeded),
        3 => Ok(State::Failed),
        4 => Ok(State::Unknown),
        5 => Ok(State::Released),
        _ => Err(not_a_record()),
    }
}

fn checkpoint(row: &Row<'_>) -> rusqlite::Result<Option<Checkpoint>> {
    let bytes = blob(row, "checkpoint")?;
    let sequence = row.get::<_, Option<i64>>("checkpoint_sequence")?.map(unsigned).transpose()?;
    Ok(sequence.zip(bytes).map(|(sequence, bytes)| Checkpoint { sequence, bytes }))
}

/// A code without meta is a tombstone; a body that is NULL is absent, and an empty one is empty (clause F6).
fn recorded(row: &Row<'_>) -> rusqlite::Result<Option<Recorded>> {
    let Some(code) = row.get::<_, Option<u16>>("code")? else { return Ok(None) };
    Ok(Some(match blob(row, "meta")? {
        Some(meta) => Recorded::Response(Response { code, meta, body: blob(row, "body")? }),
        None => Recorded::Tombstone { code },
    }))
}

fn text(row: &Row<'_>, column: &str) -> rusqlite::Result<String> {
    row.get(column)
}

fn blob(row: &Row<'_>, column: &str) -> rusqlite::Result<Option<Bytes>> {
    let bytes: Option<Vec<u8>> = FromSql::column_result(row.get_ref(column)?)?;
    Ok(bytes.map(Bytes::from))
}

fn instant(row: &Row<'_>, column: &str) -> rusqlite::Result<StoreTime> {
    unsigned(row.get(column)?).map(StoreTime::from_micros)
}

fn unsigned(number: i64) -> rusqlite::Result<u64> {
    u64::try_from(number).map_err(|_| not_a_record())
}

fn checked<T>(value: Result<T, idem_core::Error>) -> rusqlite::Result<T> {
    value.map_err(|_| not_a_record())
}

/// Says nothing of the value: it may be a key or a response (clause X6).
fn not_a_record() -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(0, Type::Null, "a stored value is not one of a record".into())
}
