//! The future of the service, by its name.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::Response;
use http_body::Body;
use pin_project_lite::pin_project;

use crate::ResponseBody;

type Guarded<R, E> = Pin<Box<dyn Future<Output = Result<Response<ResponseBody<R>>, E>> + Send>>;

pin_project! {
    /// The response of [`Idempotency`](crate::Idempotency).
    ///
    /// # Cancel safety
    /// Dropped before the handler was first polled, the key is released. Dropped after, the handler runs on to its end
    /// and is recorded, and the next request with the key is answered from the record.
    #[must_use = "futures do nothing unless polled"]
    pub struct ResponseFuture<F, R, E>
    where
        R: Body,
    {
        #[pin]
        kind: Kind<F, R, E>,
    }
}

pin_project! {
    #[project = KindProjection]
    enum Kind<F, R, E>
    where
        R: Body,
    {
        Passing { #[pin] future: F },
        Guarded { future: Guarded<R, E> },
    }
}

impl<F, R: Body, E> ResponseFuture<F, R, E> {
    pub(crate) fn passing(future: F) -> Self {
        ResponseFuture { kind: Kind::Passing { future } }
    }

    pub(crate) fn guarded(future: impl Future<Output = Result<Response<ResponseBody<R>>, E>> + Send + 'static) -> Self {
        ResponseFuture { kind: Kind::Guarded { future: Box::pin(future) } }
    }
}

impl<F, R, E> Future for ResponseFuture<F, R, E>
where
    F: Future<Output = Result<Response<R>, E>>,
    R: Body<Data = Bytes>,
{
    type Output = Result<Response<ResponseBody<R>>, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.project().kind.project() {
            KindProjection::Passing { future } => {
                Poll::Ready(ready!(future.poll(cx)).map(|response| response.map(ResponseBody::passing)))
            }
            KindProjection::Guarded { future } => future.as_mut().poll(cx),
        }
    }
}

impl<F, R: Body, E> std::fmt::Debug for ResponseFuture<F, R, E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ResponseFuture").finish_non_exhaustive()
    }
}
