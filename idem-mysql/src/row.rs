//! Between a row and a record.

use bytes::Bytes;
use idem_core::{
    Checkpoint, Fence, Fingerprint, Identity, OnUncertain, Operation, Owner, Record, Recorded, Response, Span, State,
    StoreTime, Token, decode_history,
};
use mysql_async::Row;
use mysql_async::prelude::FromValue;

use crate::error::Refusal;

/// A record as it is stored, over age or not, and the database's time when it was read.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) record: Record,
    pub(crate) now: StoreTime,
}

/// Reads a row of `get`.
pub(crate) fn decode(identity: &Identity, mut row: Row) -> Result<Found, Refusal> {
    let row = &mut row;
    let record = Record {
        identity: identity.clone(),
        operation: checked(Operation::from_bytes(&take::<Vec<u8>>(row, "operation")?))?,
        fingerprint: Fingerprint::from_bytes(exactly(take(row, "fingerprint")?)?),
        state: state(take(row, "state")?)?,
        undone: take(row, "undone")?,
        on_uncertain: match take::<Option<u64>>(row, "take_over_within_us")? {
            Some(within) => OnUncertain::TakeOver { within: checked(Span::micros(within))? },
            None => OnUncertain::Hold,
        },
        attempt: take(row, "attempt")?,
        token: Token::from_bytes(exactly(take(row, "token")?)?),
        fence: Fence::new(take(row, "fence")?),
        owner: take::<Option<Vec<u8>>>(row, "owner")?.map(|owner| checked(Owner::from_bytes(&owner))).transpose()?,
        ran_since: take(row, "ran_since")?,
        created_at: instant(row, "created_us")?,
        claimed_at: instant(row, "claimed_us")?,
        lease_until: instant(row, "lease_until_us")?,
        ended_at: take::<Option<u64>>(row, "ended_us")?.map(StoreTime::from_micros),
        expires_at: instant(row, "expires_us")?,
        checkpoint: checkpoint(row)?,
        recorded: recorded(row)?,
        history: checked(decode_history(&take::<String>(row, "history")?))?,
    };
    Ok(Found { record, now: instant(row, "now_us")? })
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

fn state(number: u8) -> Result<State, Refusal> {
    match number {
        1 => Ok(State::Processing),
        2 => Ok(State::Succeeded),
        3 => Ok(State::Failed),
        4 => Ok(State::Unknown),
        5 => Ok(State::Released),
        _ => Err(Refusal::unreadable()),
    }
}

fn checkpoint(row: &mut Row) -> Result<Option<Checkpoint>, Refusal> {
    let bytes = blob(row, "checkpoint")?;
    let sequence: Option<u64> = take(row, "checkpoint_sequence")?;
    Ok(sequence.zip(bytes).map(|(sequence, bytes)| Checkpoint { sequence, bytes }))
}

/// A code without meta is a tombstone; a body that is NULL is absent, and an empty one is empty (clause F6).
fn recorded(row: &mut Row) -> Result<Option<Recorded>, Refusal> {
    let Some(code) = take::<Option<u16>>(row, "code")? else { return Ok(None) };
    Ok(Some(match blob(row, "meta")? {
        Some(meta) => Recorded::Response(Response { code, meta, body: blob(row, "body")? }),
        None => Recorded::Tombstone { code },
    }))
}

fn blob(row: &mut Row, column: &str) -> Result<Option<Bytes>, Refusal> {
    Ok(take::<Option<Vec<u8>>>(row, column)?.map(Bytes::from))
}

fn instant(row: &mut Row, column: &str) -> Result<StoreTime, Refusal> {
    take(row, column).map(StoreTime::from_micros)
}

fn exactly<const N: usize>(bytes: Vec<u8>) -> Result<[u8; N], Refusal> {
    bytes.try_into().map_err(|_| Refusal::unreadable())
}

/// The driver's own error holds the value, so it is dropped (clause X6).
pub(crate) fn take<T: FromValue>(row: &mut Row, column: &str) -> Result<T, Refusal> {
    match row.take_opt::<T, _>(column) {
        Some(Ok(value)) => Ok(value),
        Some(Err(_)) | None => Err(Refusal::unreadable()),
    }
}

fn checked<T>(value: Result<T, idem_core::Error>) -> Result<T, Refusal> {
    value.map_err(|_| Refusal::unreadable())
}
