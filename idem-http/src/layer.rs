//! The layer: where it is configured.

use std::sync::Arc;

use idem_core::Idem;
use tower_layer::Layer;

use crate::service::{Mode, Shared};
use crate::{Idempotency, Profile, ScopeExtractor};

/// Puts [`Idempotency`] around a service.
///
/// Where it belongs: authentication and authorization run *outside* of it, on every request, replays included, and so do
/// compression and anything else that depends on who asks. A body limit and a request timeout go outside too (the
/// handler runs on in a task of its own when the timeout drops its caller). Whatever shapes the answer that is to be
/// replayed goes inside.
///
/// It can be put around a whole application or a single route, any number of times with different [`Profile`]s, but a
/// request must pass only one: the second would see the first's key in flight and answer 409.
pub struct IdempotencyLayer<X> {
    mode: Mode,
    scope: Arc<X>,
    profile: Arc<Profile>,
}

impl<X: ScopeExtractor> IdempotencyLayer<X> {
    /// A layer that runs handlers exactly once per key, with the [`ietf`](Profile::ietf) profile.
    ///
    /// `scope` says whose a key is. There is no default: with [`GlobalScope`](crate::GlobalScope) the keys of one user
    /// meet those of another.
    pub fn new(idem: Idem, scope: X) -> IdempotencyLayer<X> {
        IdempotencyLayer::with(Mode::Run(idem), scope)
    }

    /// A layer that only reads the key and fingerprints the request. The handler takes [`Identified`](crate::Identified)
    /// and claims in its own transaction, by a store's `once`. Nothing runs exactly once by this layer alone.
    pub fn identify_only(scope: X) -> IdempotencyLayer<X> {
        IdempotencyLayer::with(Mode::Identify, scope)
    }

    /// The same layer with another profile.
    #[must_use]
    pub fn profile(self, profile: Profile) -> IdempotencyLayer<X> {
        IdempotencyLayer { profile: Arc::new(profile), ..self }
    }

    fn with(mode: Mode, scope: X) -> IdempotencyLayer<X> {
        IdempotencyLayer { mode, scope: Arc::new(scope), profile: Arc::new(Profile::ietf()) }
    }
}

impl<S, X> Layer<S> for IdempotencyLayer<X> {
    type Service = Idempotency<S, X>;

    fn layer(&self, inner: S) -> Idempotency<S, X> {
        let IdempotencyLayer { mode, scope, profile } = self.clone();
        Idempotency::new(inner, Shared { mode, scope, profile })
    }
}

impl<X> Clone for IdempotencyLayer<X> {
    fn clone(&self) -> IdempotencyLayer<X> {
        IdempotencyLayer { mode: self.mode.clone(), scope: Arc::clone(&self.scope), profile: Arc::clone(&self.profile) }
    }
}

impl<X> std::fmt::Debug for IdempotencyLayer<X> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("IdempotencyLayer").field("profile", &self.profile).finish_non_exhaustive()
    }
}
