//! The handler's life: inside the executor, in a task of its own.

use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use idem_core::{Fault, Idem};
use tower_service::Service;
use tracing::{Instrument, Span};

use crate::answer::answer;
use crate::keep::keep;
use crate::reply::{HttpReply, Verdict, verdict};
use crate::{Attempt, Ends, Profile, ResponseBody};

/// Runs the handler unless the record says that it was or is being run, and answers either way.
pub(crate) async fn run<S, B, R>(
    idem: &Idem,
    profile: &Arc<Profile>,
    asked: idem_core::Request,
    ready: S,
    request: Request<B>,
) -> Result<Response<ResponseBody<R>>, S::Error>
where
    S: Service<Request<B>, Response = Response<R>> + Send + 'static,
    S::Future: Send,
    S::Error: Send + 'static,
    B: Send + 'static,
    R: Body<Data = Bytes> + Send + 'static,
    R::Error: Send,
{
    let work = {
        // The executor's task knows nothing of the request's span, and what the handler logs belongs to it.
        let span = Span::current();
        let profile = Arc::clone(profile);
        move |attempt| handle(ready, request, Attempt::new(attempt, Arc::clone(&profile)), profile).instrument(span)
    };
    answer(idem.run(asked, work).await, profile)
}

async fn handle<S, B, R>(
    mut ready: S,
    mut request: Request<B>,
    attempt: Attempt,
    profile: Arc<Profile>,
) -> Verdict<R, S::Error>
where
    S: Service<Request<B>, Response = Response<R>>,
    R: Body<Data = Bytes>,
{
    let method = request.method().clone();
    request.extensions_mut().insert(attempt.clone());
    let mut response = match ready.call(request).await {
        Ok(response) => response,
        Err(error) => return Err(Fault::Unknown(HttpReply::Error(error))),
    };
    // Taken out: a handler that passes this response on, behind a layer of its own, has not said it.
    let in_response = response.extensions_mut().remove::<Ends>();
    let kept = keep(response, &method, &profile).await;
    verdict(kept, in_response.or_else(|| attempt.said()), &profile)
}
