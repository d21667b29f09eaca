//! Between a row and a record.

use bytes::Bytes;
use idem_core::{
    Checkpoint, Fence, Fingerprint, Identity, OnUncertain, Operation, Owner, Record, Recorded, Response, Span, State,
    StoreTime, Token, decode_history,
};
use sqlx::Row;
use sqlx::postgres::PgRow;

use crate::error::Failure;

/// The columns of a record in an answer, with the types that they are read as.
pub(crate) const COLUMNS: [(&str, &str); 21] = [
    ("operation", "TEXT"),
    ("fingerprint", "BYTEA"),
    ("state", "INT2"),
    ("undone", "BOOL"),
    ("take_over_within_us", "INT8"),
    ("attempt", "INT4"),
    ("token", "BYTEA"),
    ("fence", "INT8"),
    ("owner", "TEXT"),
    ("ran_since", "INT4"),
    ("created_us", "INT8"),
    ("claimed_us", "INT8"),
    ("lease_until_us", "INT8"),
    ("ended_us", "INT8"),
    ("expires_us", "INT8"),
    ("checkpoint_sequence", "INT8"),
    ("checkpoint", "BYTEA"),
    ("code", "INT4"),
    ("meta", "BYTEA"),
    ("body", "BYTEA"),
    ("history", "TEXT"),
];

/// The number that a state is stored as. A spent record is stored as what it was: age alone makes it spent.
pub(crate) fn state_number(state: State) -> i16 {
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

/// Times, spans, fences and checkpoint numbers fit 63 bits by their types' own promise.
pub(crate) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// The database's time of the statement.
pub(crate) fn now(row: &PgRow) -> Result<StoreTime, Failure> {
    instant(row, "now_us")
}

/// The record of an answer; none when its columns are NULL.
pub(crate) fn record(identity: &Identity, row: &PgRow) -> Result<Option<Record>, Failure> {
    let Some(state_number) = row.try_get::<Option<i16>, _>("state")? else { return Ok(None) };
    Ok(Some(Record {
        identity: identity.clone(),
        operation: checked(Operation::new(row.try_get::<&str, _>("operation")?))?,
        fingerprint: Fingerprint::from_bytes(exact(row, "fingerprint")?),
        state: state(state_number)?,
        undone: row.try_get("undone")?,
        on_uncertain: match row.try_get::<Option<i64>, _>("take_over_within_us")? {
            Some(within) => OnUncertain::TakeOver { within: checked(Span::micros(unsigned(within)?))? },
            None => OnUncertain::Hold,
        },
        attempt: count(row.try_get("attempt")?)?,
        token: Token::from_bytes(exact(row, "token")?),
        fence: Fence::new(unsigned(row.try_get("fence")?)?),
        owner: row.try_get::<Option<&str>, _>("owner")?.map(|owner| checked(Owner::new(owner))).transpose()?,
        ran_since: row.try_get::<Option<i32>, _>("ran_since")?.map(count).transpose()?,
        created_at: instant(row, "created_us")?,
        claimed_at: instant(row, "claimed_us")?,
        lease_until: instant(row, "lease_until_us")?,
        ended_at: row.try_get::<Option<i64>, _>("ended_us")?.map(unsigned).transpose()?.map(StoreTime::from_micros),
        expires_at: instant(row, "expires_us")?,
        checkpoint: checkpoint(row)?,
        recorded: recorded(row)?,
        history: checked(decode_history(row.try_get("history")?))?,
    }))
}

fn state(number: i16) -> Result<State, Failure> {
    match number {
        1 => Ok(State::Processing),
        2 => Ok(State::Succeeded),
        3 => Ok(State::Failed),
        4 => Ok(State::Unknown),
        5 => Ok(State::Released),
        _ => Err(Failure::NotARecord),
    }
}

fn checkpoint(row: &PgRow) -> Result<Option<Checkpoint>, Failure> {
    let bytes = blob(row, "checkpoint")?;
    let sequence = row.try_get::<Option<i64>, _>("checkpoint_sequence")?.map(unsigned).transpose()?;
    Ok(sequence.zip(bytes).map(|(sequence, bytes)| Checkpoint { sequence, bytes }))
}

/// A code without meta is a tombstone; a body that is NULL is absent, and an empty one is empty (clause F6).
fn recorded(row: &PgRow) -> Result<Option<Recorded>, Failure> {
    let Some(code) = row.try_get::<Option<i32>, _>("code")? else { return Ok(None) };
    let code = u16::try_from(code).map_err(|_| Failure::NotARecord)?;
    Ok(Some(match blob(row, "meta")? {
        Some(meta) => Recorded::Response(Response { code, meta, body: blob(row, "body")? }),
        None => Recorded::Tombstone { code },
    }))
}

fn blob(row: &PgRow, column: &str) -> Result<Option<Bytes>, Failure> {
    Ok(row.try_get::<Option<&[u8]>, _>(column)?.map(Bytes::copy_from_slice))
}

fn exact<const N: usize>(row: &PgRow, column: &str) -> Result<[u8; N], Failure> {
    row.try_get::<&[u8], _>(column)?.try_into().map_err(|_| Failure::NotARecord)
}

fn instant(row: &PgRow, column: &str) -> Result<StoreTime, Failure> {
    unsigned(row.try_get(column)?).map(StoreTime::from_micros)
}

fn unsigned(number: i64) -> Result<u64, Failure> {
    u64::try_from(number).map_err(|_| Failure::NotARecord)
}

fn count(number: i32) -> Result<u32, Failure> {
    u32::try_from(number).map_err(|_| Failure::NotARecord)
}

/// Says nothing of the value: it may be a key or a response (clause X6).
fn checked<T>(value: Result<T, idem_core::Error>) -> Result<T, Failure> {
    value.map_err(|_| Failure::NotARecord)
}
