//! One row of a store's table, whatever the driver.

use bytes::Bytes;
use idem_core::{
    Checkpoint, Error, Fence, Fingerprint, Identity, Key, OnUncertain, Operation, Owner, Record, Recorded, Response,
    Scope, Span, State, StoreTime, Token, decode_history,
};

use crate::harness::HookError;

/// One row of a store's table, as the SQL stores of this workspace keep it: times in microseconds, what is absent NULL.
///
/// It becomes a record by code that is not the store's: what the store reads wrong, this reads otherwise.
pub(super) struct Columns {
    pub(super) scope: String,
    pub(super) key: String,
    pub(super) operation: String,
    pub(super) fingerprint: Vec<u8>,
    pub(super) state: i64,
    pub(super) undone: bool,
    pub(super) take_over_within_us: Option<i64>,
    pub(super) attempt: i64,
    pub(super) token: Vec<u8>,
    pub(super) fence: i64,
    pub(super) owner: Option<String>,
    pub(super) ran_since: Option<i64>,
    pub(super) created_us: i64,
    pub(super) claimed_us: i64,
    pub(super) lease_until_us: i64,
    pub(super) ended_us: Option<i64>,
    pub(super) expires_us: i64,
    pub(super) checkpoint_sequence: Option<i64>,
    pub(super) checkpoint: Option<Vec<u8>>,
    pub(super) code: Option<i64>,
    pub(super) meta: Option<Vec<u8>>,
    pub(super) body: Option<Vec<u8>>,
    pub(super) history: String,
}

impl Columns {
    /// The record.
    pub(super) fn record(self) -> Result<Record, HookError> {
        let meta = self.meta.map(Bytes::from);
        let body = self.body.map(Bytes::from);
        let recorded = match (self.code.map(number).transpose()?, meta) {
            (Some(code), Some(meta)) => Some(Recorded::Response(Response { code, meta, body })),
            (Some(code), None) => Some(Recorded::Tombstone { code }),
            (None, _) => None,
        };
        let checkpoint = self.checkpoint_sequence.map(number).transpose()?.zip(self.checkpoint);
        Ok(Record {
            identity: Identity::new(sound(Scope::new(self.scope))?, sound(Key::new(self.key))?),
            operation: sound(Operation::new(self.operation))?,
            fingerprint: Fingerprint::from_bytes(exact("fingerprint", &self.fingerprint)?),
            state: state(self.state)?,
            undone: self.undone,
            on_uncertain: match self.take_over_within_us.map(number).transpose()? {
                None => OnUncertain::Hold,
                Some(within) => OnUncertain::TakeOver { within: sound(Span::micros(within))? },
            },
            attempt: number(self.attempt)?,
            token: Token::from_bytes(exact("token", &self.token)?),
            fence: Fence::new(number(self.fence)?),
            owner: self.owner.map(|owner| sound(Owner::new(owner))).transpose()?,
            ran_since: self.ran_since.map(number).transpose()?,
            created_at: time(self.created_us)?,
            claimed_at: time(self.claimed_us)?,
            lease_until: time(self.lease_until_us)?,
            ended_at: self.ended_us.map(time).transpose()?,
            expires_at: time(self.expires_us)?,
            checkpoint: checkpoint.map(|(sequence, bytes)| Checkpoint { sequence, bytes: bytes.into() }),
            recorded,
            history: sound(decode_history(&self.history))?,
        })
    }
}

fn state(stored: i64) -> Result<State, HookError> {
    match stored {
        1 => Ok(State::Processing),
        2 => Ok(State::Succeeded),
        3 => Ok(State::Failed),
        4 => Ok(State::Unknown),
        5 => Ok(State::Released),
        other => Err(HookError::failed(format!("a row has the state {other}"))),
    }
}

fn time(micros: i64) -> Result<StoreTime, HookError> {
    number(micros).map(StoreTime::from_micros)
}

fn number<T: TryFrom<i64>>(stored: i64) -> Result<T, HookError> {
    T::try_from(stored).map_err(|_| HookError::failed(format!("a row has {stored} where that cannot be")))
}

fn exact<const N: usize>(column: &str, bytes: &[u8]) -> Result<[u8; N], HookError> {
    let length = bytes.len();
    bytes.try_into().map_err(|_| HookError::failed(format!("a row has {length} bytes of {column}, not {N}")))
}

fn sound<T>(made: Result<T, Error>) -> Result<T, HookError> {
    made.map_err(HookError::failed)
}
