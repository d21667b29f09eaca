//! The record of one identity, as a store keeps it.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::{Fence, Fingerprint, Identity, Operation, Owner, Recorded, Span, StoreTime, Token};

/// The largest checkpoint, in bytes.
pub const MAX_CHECKPOINT: usize = 64 * 1024;

/// How many earlier attempts a record remembers; older ones are forgotten first.
pub const MAX_HISTORY: usize = 8;

/// How an operation ended for good.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum Final {
    /// The effect happened.
    Succeeded,
    /// A final refusal (the card was declined). Replayed too.
    Failed,
}

/// The state of a record.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum State {
    /// An attempt owns it. Once the lease is over the record is *lapsed*, and still this.
    Processing,
    /// The effect happened; replayed.
    Succeeded,
    /// A final refusal; replayed.
    Failed,
    /// An attempt ended and its effect is not known. Never replayed, never forgotten.
    Unknown,
    /// Nothing happened; free for any fingerprint. The fence is kept.
    Released,
    /// A finished record past its retention that the store still remembers: not replayed, not run again. Made by age
    /// alone, so it is what a reader sees and never what a row says.
    Spent(Final),
}

/// What happens to a record whose effect is not known: lapsed, or [`State::Unknown`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum OnUncertain {
    /// The next claim takes over, exactly one winner, as long as the record is younger than `within`: as long as the
    /// outside provider still knows the key and refuses a second effect.
    TakeOver {
        /// Counts from the claim that created the record.
        within: Span,
    },
    /// Nobody runs it again until a person or a reconciler decides.
    Hold,
}

/// What an attempt leaves behind for the next one: a number that grows, and bytes.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checkpoint {
    /// Only a higher number replaces a checkpoint (clause R5).
    pub sequence: u64,
    /// Opaque to the store, at most [`MAX_CHECKPOINT`] bytes.
    pub bytes: Bytes,
}

impl std::fmt::Debug for Checkpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Checkpoint({}, {} bytes)", self.sequence, self.bytes.len())
    }
}

/// How an earlier attempt ended.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum HowEnded {
    /// Its lease ended without a word: crashed, killed or paused.
    Lapsed,
    /// It said that the effect is not known.
    Unknown,
    /// It said that nothing happened in it.
    Released,
}

/// One earlier attempt of a record.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PastAttempt {
    /// 1, 2, …
    pub attempt: u32,
    /// Who ran it, when it said so.
    pub owner: Option<Owner>,
    /// When it was granted.
    pub claimed_at: StoreTime,
    /// When it ended; for a lapsed one, when its lease did.
    pub ended_at: StoreTime,
    /// How it ended.
    pub how: HowEnded,
}

/// The record of one identity.
///
/// Times are the store's own. A field that a person does not need is here because the [machine](crate::machine)
/// decides with it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    /// Whose key, and which.
    pub identity: Identity,
    /// What is run under it.
    pub operation: Operation,
    /// What makes a second request the same request.
    pub fingerprint: Fingerprint,
    /// Where it stands.
    pub state: State,
    /// [`State::Unknown`] because a later attempt undid only its own grant (clause L1): the earlier ones are what is
    /// not known.
    pub undone: bool,
    /// The policy of the claim that created it (clause C15).
    pub on_uncertain: OnUncertain,
    /// The current or last attempt.
    pub attempt: u32,
    /// The current or last attempt's token.
    pub token: Token,
    /// The current or last attempt's fence.
    pub fence: Fence,
    /// Who runs or ran the current attempt.
    pub owner: Option<Owner>,
    /// The first attempt of this life that may have begun its work. None while every attempt promised to announce
    /// itself and none did: then nothing ran (clause C14).
    pub ran_since: Option<u32>,
    /// When this life of the identity began: the claim that created the record.
    pub created_at: StoreTime,
    /// When the current attempt was granted.
    pub claimed_at: StoreTime,
    /// Until when the current attempt's lease runs.
    pub lease_until: StoreTime,
    /// When the current attempt ended.
    pub ended_at: Option<StoreTime>,
    /// Until when a finished record can be replayed. Fixed by the claim that created it, except for clause F6b.
    pub expires_at: StoreTime,
    /// The last checkpoint of any attempt.
    pub checkpoint: Option<Checkpoint>,
    /// The response of a finished record; the evidence of an unknown one, kept through a takeover.
    pub recorded: Option<Recorded>,
    /// Earlier attempts, oldest first, at most [`MAX_HISTORY`].
    pub history: Vec<PastAttempt>,
}

impl Record {
    /// The length of the lease that is left at this instant; None when the lease is over or the record is not
    /// processing.
    #[must_use]
    pub fn lease_left(&self, now: StoreTime) -> Option<Span> {
        match self.state {
            State::Processing => Span::try_from(self.lease_until.since(now)).ok(),
            _ => None,
        }
    }

    /// How the last earlier attempt ended.
    #[must_use]
    pub fn previous(&self) -> Option<&PastAttempt> {
        self.history.last()
    }
}

/// The history as a SQL store keeps it in one text column.
#[must_use]
pub fn encode_history(history: &[PastAttempt]) -> String {
    // Plain structs of numbers and text always serialize; an empty history is the honest answer if one ever did not.
    serde_json::to_string(history).unwrap_or_else(|_| "[]".to_owned())
}

/// Reads what [`encode_history`] wrote.
///
/// # Errors
/// `Schema` when the text is something else.
pub fn decode_history(text: &str) -> Result<Vec<PastAttempt>, crate::Error> {
    serde_json::from_str(text)
        .map_err(|_| crate::Error::new(crate::ErrorKind::Schema, "the stored history cannot be read"))
}
