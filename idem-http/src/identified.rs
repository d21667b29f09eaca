//! A request that has been identified, for handlers that claim in their own transaction.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Extensions, Response};
use http_body_util::Full;
use idem_core::{Claim, Config, Error, Recorded, Replay, Request, Spent};

use crate::Profile;
use crate::problem::{Refusal, mark_replayed};

/// What an [identify-only](crate::IdempotencyLayer::identify_only) layer knows about a request, and the answers that a
/// running layer would give.
///
/// In axum it is an extractor, also as `Option<Identified>` where keys are optional. Elsewhere it is in the request's
/// extensions.
#[derive(Clone, Debug)]
pub struct Identified {
    request: Request,
    profile: Arc<Profile>,
}

impl Identified {
    pub(crate) fn new(request: Request, profile: Arc<Profile>) -> Identified {
        Identified { request, profile }
    }

    /// Of the request with these extensions.
    #[must_use]
    pub fn of(extensions: &Extensions) -> Option<&Identified> {
        extensions.get()
    }

    /// Identity, operation and fingerprint; lease, retention and policy can still be chosen.
    pub fn request(&self) -> &Request {
        &self.request
    }

    /// The claim that a store's `once` takes.
    ///
    /// # Errors
    /// `InvalidInput` when the configuration's retention is below its lease (clause C15).
    pub fn claim(&self, config: &Config) -> Result<Claim, Error> {
        self.request.claim(config)
    }

    /// A response in the form in which it is recorded, for `once` to store with the business rows.
    #[must_use]
    pub fn record<B: AsRef<[u8]>>(&self, response: &Response<B>) -> Recorded {
        crate::record::recorded(&self.profile, response)
    }

    /// Done: the first response with `Idempotent-Replayed`, or 410 when it was not kept.
    #[must_use]
    pub fn done(&self, replay: Replay) -> Response<Full<Bytes>> {
        match replay.recorded {
            Recorded::Tombstone { code } => self.refuse(Refusal::NotKept { code }),
            Recorded::Response(response) => match crate::replay(response) {
                Ok(response) => mark_replayed(response).map(Full::new),
                Err(error) => {
                    tracing::error!(%error, "a recorded response cannot be read");
                    self.refuse(Refusal::Broken)
                }
            },
        }
    }

    /// Busy: 409 with `Retry-After`.
    #[must_use]
    pub fn busy(&self, retry_after: Duration) -> Response<Full<Bytes>> {
        self.refuse(Refusal::InFlight { retry_after })
    }

    /// Another request has the key: 422.
    #[must_use]
    pub fn mismatch(&self) -> Response<Full<Bytes>> {
        self.refuse(Refusal::Mismatch)
    }

    /// Held until somebody has looked: 409 without `Retry-After`.
    #[must_use]
    pub fn uncertain(&self) -> Response<Full<Bytes>> {
        self.refuse(Refusal::Uncertain)
    }

    /// Done long ago: 410.
    #[must_use]
    pub fn spent(&self, spent: Spent) -> Response<Full<Bytes>> {
        self.refuse(Refusal::NotKept { code: spent.code })
    }

    /// The store failed, and nothing was committed: 503 with `Retry-After`, or 500 when waiting does not help.
    #[must_use]
    pub fn failed(&self, error: &Error) -> Response<Full<Bytes>> {
        self.refuse(Refusal::of_store(error))
    }

    fn refuse(&self, refusal: Refusal) -> Response<Full<Bytes>> {
        refusal.response(&self.profile).map(Full::new)
    }
}
