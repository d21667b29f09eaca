//! The body of a response that went through the layer.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

pin_project! {
    /// The body of a response: the inner service's own, what the layer has read of it, or an answer of the layer.
    ///
    /// Its errors are the inner body's.
    pub struct ResponseBody<R>
    where
        R: Body,
    {
        #[pin]
        kind: Kind<R>,
    }
}

pin_project! {
    #[project = KindProjection]
    enum Kind<R>
    where
        R: Body,
    {
        Passing { #[pin] body: R },
        Begun { frames: VecDeque<Frame<Bytes>>, rest: Rest<R> },
    }
}

/// What comes after the frames that have been read.
enum Rest<R: Body> {
    Nothing,
    Error(R::Error),
    Body(Pin<Box<R>>),
}

impl<R: Body<Data = Bytes>> ResponseBody<R> {
    /// The inner body, unread.
    pub(crate) fn passing(body: R) -> ResponseBody<R> {
        ResponseBody { kind: Kind::Passing { body } }
    }

    /// These bytes and no more.
    pub(crate) fn whole(bytes: Bytes) -> ResponseBody<R> {
        let frames = if bytes.is_empty() { VecDeque::new() } else { VecDeque::from([Frame::data(bytes)]) };
        ResponseBody { kind: Kind::Begun { frames, rest: Rest::Nothing } }
    }

    /// What has been read, then the rest as it comes.
    pub(crate) fn begun(frames: VecDeque<Frame<Bytes>>, rest: Pin<Box<R>>) -> ResponseBody<R> {
        ResponseBody { kind: Kind::Begun { frames, rest: Rest::Body(rest) } }
    }

    /// What has been read, then the error that ended it.
    pub(crate) fn aborted(frames: VecDeque<Frame<Bytes>>, error: R::Error) -> ResponseBody<R> {
        ResponseBody { kind: Kind::Begun { frames, rest: Rest::Error(error) } }
    }
}

impl<R: Body<Data = Bytes>> Body for ResponseBody<R> {
    type Data = Bytes;
    type Error = R::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, R::Error>>> {
        let (frames, rest) = match self.project().kind.project() {
            KindProjection::Passing { body } => return body.poll_frame(cx),
            KindProjection::Begun { frames, rest } => (frames, rest),
        };
        if let Some(frame) = frames.pop_front() {
            return Poll::Ready(Some(Ok(frame)));
        }
        match rest {
            Rest::Body(body) => body.as_mut().poll_frame(cx),
            Rest::Nothing => Poll::Ready(None),
            Rest::Error(_) => match std::mem::replace(rest, Rest::Nothing) {
                Rest::Error(error) => Poll::Ready(Some(Err(error))),
                Rest::Nothing | Rest::Body(_) => Poll::Ready(None),
            },
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.kind {
            Kind::Passing { body } => body.is_end_stream(),
            Kind::Begun { frames, rest } => {
                frames.is_empty()
                    && match rest {
                        Rest::Nothing => true,
                        Rest::Error(_) => false,
                        Rest::Body(body) => body.is_end_stream(),
                    }
            }
        }
    }

    fn size_hint(&self) -> SizeHint {
        let (frames, rest) = match &self.kind {
            Kind::Passing { body } => return body.size_hint(),
            Kind::Begun { frames, rest } => (frames, rest),
        };
        let read = frames.iter().filter_map(Frame::data_ref).map(|data| data.len() as u64).sum::<u64>();
        let rest = match rest {
            Rest::Nothing => SizeHint::with_exact(0),
            Rest::Error(_) => SizeHint::new(),
            Rest::Body(body) => body.size_hint(),
        };
        let mut hint = SizeHint::new();
        hint.set_lower(read.saturating_add(rest.lower()));
        if let Some(upper) = rest.upper().and_then(|upper| upper.checked_add(read)) {
            hint.set_upper(upper);
        }
        hint
    }
}

impl<R: Body> std::fmt::Debug for ResponseBody<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ResponseBody").finish_non_exhaustive()
    }
}
