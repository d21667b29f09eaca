#![doc = include_str!("../README.md")]

mod answer;
pub mod config;
mod error;
mod fingerprint;
mod identity;
mod lease;
pub mod machine;
mod memory;
mod record;
mod request;
mod response;
mod store;
mod time;

pub use answer::{Claimed, Completed, Grant, Purged, Released, Renewed, Replay, Spent, Uncertain};
pub use config::{Config, Confirm, Wait};
pub use error::{Error, ErrorKind};
pub use fingerprint::{Fingerprint, FingerprintBuilder};
pub use identity::{Identity, Key, MAX_TEXT, Operation, Owner, Scope};
pub use lease::{Fence, Lease, Token};
pub use memory::MemoryStore;
pub use record::{
    Checkpoint, Final, HowEnded, MAX_CHECKPOINT, MAX_HISTORY, OnUncertain, PastAttempt, Record, State, decode_history,
    encode_history,
};
pub use request::{Claim, ClaimBuilder, Complete, End, Reach, Release, Renew};
pub use response::{Recorded, Response};
pub use store::Store;
pub use time::{Span, StoreTime};
