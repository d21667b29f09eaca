#![doc = include_str!("../README.md")]

mod store;
pub mod machine;
mod record;
mod request;
mod answer;
mod identity;
mod lease;
mod response;
mod time;
mod fingerprint;
mod error;
mod memory;

mod executor;
mod driving;
mod claiming;
mod ticket;
mod attempt;
mod heartbeat;
mod ending;
mod backoff;
mod deadline;
mod outcome;
mod reply;
mod purger;
pub mod config;

pub use answer::{Claimed, Completed, Grant, Purged, Released, Renewed, Replay, Spent, Uncertain};
pub use attempt::{Attempt, LeaseLost, Settling};
pub use config::{Config, Confirm, Wait};
pub use ending::Ended;
pub use error::{Error, ErrorKind};
pub use executor::{Idem, Request};
pub use fingerprint::{Fingerprint, FingerprintBuilder};
pub use identity::{Identity, Key, MAX_TEXT, Operation, Owner, Scope};
pub use lease::{Fence, Lease, Token};
pub use memory::MemoryStore;
pub use outcome::{Begun, Busy, Fault, Outcome};
pub use purger::{PurgePlan, Purger};
pub use record::{
    Checkpoint, Final, HowEnded, MAX_CHECKPOINT, MAX_HISTORY, OnUncertain, PastAttempt, Record, State, decode_history,
    encode_history,
};
pub use reply::{CodecError, Json, Reply};
pub use request::{Claim, ClaimBuilder, Complete, End, Reach, Release, Renew};
pub use response::{Recorded, Response};
pub use store::Store;
pub use ticket::{Running, Ticket};
pub use time::{Span, StoreTime};
