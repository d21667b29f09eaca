#![doc = include_str!("../README.md")]

mod layer;
mod service;
mod future;
mod profile;

mod identify;
mod key;
mod scope;
mod fingerprint;
mod request_body;

mod run;
mod attempt;
mod identified;
mod classify;
mod keep;
mod reply;
mod headers;
mod record;
mod response_body;

mod answer;
mod problem;
#[cfg(feature = "axum")]
mod extract;

pub use attempt::Attempt;
pub use classify::Ends;
#[cfg(feature = "axum")]
pub use extract::NoLayer;
pub use future::ResponseFuture;
pub use headers::HeaderFilter;
pub use identified::Identified;
pub use keep::Unkept;
pub use key::KeySyntax;
pub use layer::IdempotencyLayer;
pub use problem::IDEMPOTENT_REPLAYED;
pub use profile::{Demand, Profile};
pub use record::{record, replay};
pub use request_body::RequestBody;
pub use response_body::ResponseBody;
pub use scope::{Denied, FromExtension, GlobalScope, ScopeExtractor, from_extension};
pub use service::Idempotency;
