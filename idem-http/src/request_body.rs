//! The request's body: read whole before anything is claimed, and given on unchanged.

use std::error::Error as StdError;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use pin_project_lite::pin_project;

use crate::problem::Refusal;

/// Reads a body up to the limit.
pub(crate) async fn read<B>(body: B, limit: usize) -> Result<Bytes, Refusal>
where
    B: Body<Data = Bytes>,
    B::Error: Into<Box<dyn StdError + Send + Sync>>,
{
    if body.size_hint().lower() > limit as u64 {
        return Err(Refusal::BodyTooLarge);
    }
    match Limited::new(body, limit).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if is_length(&*error) => Err(Refusal::BodyTooLarge),
        Err(_) => Err(Refusal::BodyUnreadable),
    }
}

/// Our own limit, or that of a layer outside, however deep it is wrapped.
fn is_length(error: &(dyn StdError + 'static)) -> bool {
    error.is::<LengthLimitError>() || error.source().is_some_and(is_length)
}

pin_project! {
    /// A request body for servers whose own cannot be made of bytes (hyper's `Incoming`).
    ///
    /// The layer reads a request's body whole and hands it on as the same type, so that type must be [`From<Bytes>`].
    /// axum's is; any other becomes so by `request.map(RequestBody::new)` outside of the layer.
    #[derive(Debug)]
    pub struct RequestBody<B> {
        #[pin]
        kind: Kind<B>,
    }
}

pin_project! {
    #[project = KindProjection]
    #[derive(Debug)]
    enum Kind<B> {
        Arriving { #[pin] body: B },
        Whole { body: Full<Bytes> },
    }
}

impl<B> RequestBody<B> {
    /// A body that is still to be read.
    pub fn new(body: B) -> RequestBody<B> {
        RequestBody { kind: Kind::Arriving { body } }
    }
}

impl<B> From<Bytes> for RequestBody<B> {
    fn from(bytes: Bytes) -> RequestBody<B> {
        RequestBody { kind: Kind::Whole { body: Full::new(bytes) } }
    }
}

impl<B: Body<Data = Bytes>> Body for RequestBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        match self.project().kind.project() {
            KindProjection::Arriving { body } => body.poll_frame(cx),
            KindProjection::Whole { body } => Pin::new(body).poll_frame(cx).map_err(|never| match never {}),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.kind {
            Kind::Arriving { body } => body.is_end_stream(),
            Kind::Whole { body } => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            Kind::Arriving { body } => body.size_hint(),
            Kind::Whole { body } => body.size_hint(),
        }
    }
}
