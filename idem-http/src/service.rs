//! The service: which requests it guards.

use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use idem_core::Idem;
use tower_service::Service;

use crate::identify::identify;
use crate::problem::Refusal;
use crate::{Ends, Identified, Profile, ResponseBody, ResponseFuture, ScopeExtractor, Unkept, run};

/// Made by [`IdempotencyLayer`](crate::IdempotencyLayer).
///
/// Requests of other methods, and those without a key where keys are [optional](crate::Demand::Optional), pass
/// untouched and unread. The inner service's errors reach the caller as they are.
pub struct Idempotency<S, X> {
    inner: S,
    shared: Arc<Shared<X>>,
}

/// What all clones of one service share.
pub(crate) struct Shared<X> {
    pub(crate) mode: Mode,
    pub(crate) scope: Arc<X>,
    pub(crate) profile: Arc<Profile>,
}

/// What the layer does with a request that it has identified.
#[derive(Clone)]
pub(crate) enum Mode {
    /// Runs the handler exactly once.
    Run(Idem),
    /// Hands the identity on to the handler.
    Identify,
}

impl<S, X> Idempotency<S, X> {
    pub(crate) fn new(inner: S, shared: Shared<X>) -> Idempotency<S, X> {
        Idempotency { inner, shared: Arc::new(shared) }
    }
}

impl<S, X, B, R> Service<Request<B>> for Idempotency<S, X>
where
    S: Service<Request<B>, Response = Response<R>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Send + 'static,
    X: ScopeExtractor,
    B: Body<Data = Bytes> + From<Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    R: Body<Data = Bytes> + Send + 'static,
    R::Error: Send,
{
    type Response = Response<ResponseBody<R>>;
    type Error = S::Error;
    type Future = ResponseFuture<S::Future, R, S::Error>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        if !self.shared.profile.covers(&request) {
            return ResponseFuture::passing(self.inner.call(request));
        }
        // The service that was polled ready is the one to call; the clone that takes its place is not ready yet.
        let clone = self.inner.clone();
        let ready = std::mem::replace(&mut self.inner, clone);
        ResponseFuture::guarded(guard(Arc::clone(&self.shared), ready, request))
    }
}

async fn guard<S, X, B, R>(
    shared: Arc<Shared<X>>,
    mut ready: S,
    request: Request<B>,
) -> Result<Response<ResponseBody<R>>, S::Error>
where
    S: Service<Request<B>, Response = Response<R>> + Send + 'static,
    S::Future: Send,
    S::Error: Send + 'static,
    X: ScopeExtractor,
    B: Body<Data = Bytes> + From<Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    R: Body<Data = Bytes> + Send + 'static,
    R::Error: Send,
{
    let (mut parts, body) = request.into_parts();
    let profile = &shared.profile;
    let (asked, body) = match identify(&*shared.scope, profile, &parts, body).await {
        Ok(identified) => identified,
        Err(refusal) => return Ok(refused(refusal, profile)),
    };
    match &shared.mode {
        Mode::Run(idem) => run::run(idem, profile, asked, ready, Request::from_parts(parts, body.into())).await,
        Mode::Identify => {
            parts.extensions.insert(Identified::new(asked, Arc::clone(profile)));
            let mut response = ready.call(Request::from_parts(parts, body.into())).await?;
            // Said to nobody here, and not to a layer around whoever passes this response on.
            response.extensions_mut().remove::<Ends>();
            response.extensions_mut().remove::<Unkept>();
            Ok(response.map(ResponseBody::passing))
        }
    }
}

pub(crate) fn refused<R: Body<Data = Bytes>>(refusal: Refusal, profile: &Profile) -> Response<ResponseBody<R>> {
    refusal.response(profile).map(ResponseBody::whole)
}

impl<S: Clone, X> Clone for Idempotency<S, X> {
    fn clone(&self) -> Idempotency<S, X> {
        Idempotency { inner: self.inner.clone(), shared: Arc::clone(&self.shared) }
    }
}

impl<S: std::fmt::Debug, X> std::fmt::Debug for Idempotency<S, X> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Idempotency").field("inner", &self.inner).finish_non_exhaustive()
    }
}
