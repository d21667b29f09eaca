//! What a handler knows about its attempt, and what it says about its end.

use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};

use http::{Extensions, Response};
use idem_core::Recorded;

use crate::{Ends, Profile};

/// The attempt that a handler runs in: [`idem_core::Attempt`], and a word about how it ends.
///
/// In axum it is an extractor, also as `Option<Attempt>` where keys are optional. Elsewhere it is in the request's
/// extensions.
#[derive(Clone)]
pub struct Attempt {
    attempt: idem_core::Attempt,
    profile: Arc<Profile>,
    said: Arc<Mutex<Option<Ends>>>,
}

impl Attempt {
    pub(crate) fn new(attempt: idem_core::Attempt, profile: Arc<Profile>) -> Attempt {
        Attempt { attempt, profile, said: Arc::default() }
    }

    /// The attempt of the request with these extensions.
    #[must_use]
    pub fn of(extensions: &Extensions) -> Option<&Attempt> {
        extensions.get()
    }

    /// Says how this attempt ends, whatever the response's status is. The last word counts.
    pub fn ends(&self, ends: Ends) {
        *self.said.lock().unwrap_or_else(PoisonError::into_inner) = Some(ends);
    }

    pub(crate) fn said(&self) -> Option<Ends> {
        *self.said.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A response in the form in which this layer records and replays it: what a store's `settle` is to store.
    ///
    /// After a settle the layer answers with what the record says, so the client is told the same now and later,
    /// whatever middleware between the handler and the layer does to the response.
    #[must_use]
    pub fn record<B: AsRef<[u8]>>(&self, response: &Response<B>) -> Recorded {
        crate::record::recorded(&self.profile, response)
    }
}

impl Deref for Attempt {
    type Target = idem_core::Attempt;

    fn deref(&self) -> &idem_core::Attempt {
        &self.attempt
    }
}

impl std::fmt::Debug for Attempt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Attempt").field("attempt", &self.attempt).field("said", &self.said()).finish_non_exhaustive()
    }
}
