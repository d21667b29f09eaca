//! Reads a response that is to be recorded, and stops where it cannot be.

use std::collections::VecDeque;
use std::pin::Pin;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{Method, Response, StatusCode, header};
use http_body::{Body, Frame};
use http_body_util::BodyExt;
use tokio::time::{Instant, timeout_at};

use crate::{Profile, ResponseBody};

/// Put into a response's extensions, it says that the response is not to be recorded: it streams, or it holds what must
/// not be stored. It reaches the first client untouched, and leaves a tombstone.
///
/// In axum it is a part of a response. It speaks to the layer around its handler, which takes it out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Unkept;

/// A response that has been read as far as it was sensible.
pub(crate) struct Kept<R: Body> {
    /// For the first client: byte for byte what the handler answered.
    pub(crate) live: Response<ResponseBody<R>>,
    /// For the record.
    pub(crate) body: Whole,
}

/// Is the body known to its end?
pub(crate) enum Whole {
    Yes(Bytes),
    /// It streams, has trailers, or is longer than the limit.
    No,
    /// It ended with an error.
    Aborted,
}

/// The longest patience, thirty years: there are clocks that a much longer one would not fit.
const LONGEST_PATIENCE: Duration = Duration::from_secs(30 * 365 * 86_400);

pub(crate) async fn keep<R>(mut response: Response<R>, method: &Method, profile: &Profile) -> Kept<R>
where
    R: Body<Data = Bytes>,
{
    let limit = profile.response_limit;
    let unkept = streams(&response) || tunnels(method, &response);
    response.extensions_mut().remove::<Unkept>();
    if unkept || response.body().size_hint().lower() > limit as u64 {
        return Kept { live: response.map(ResponseBody::passing), body: Whole::No };
    }
    let (parts, body) = response.into_parts();
    let (body, whole) = read(Box::pin(body), limit, Instant::now() + profile.stream_after.min(LONGEST_PATIENCE)).await;
    Kept { live: Response::from_parts(parts, body), body: whole }
}

/// Reads until the end, the limit, the first trailers, an error, or until the patience is over.
async fn read<R>(mut body: Pin<Box<R>>, limit: usize, patience: Instant) -> (ResponseBody<R>, Whole)
where
    R: Body<Data = Bytes>,
{
    let mut frames = VecDeque::new();
    let mut size = 0_usize;
    loop {
        // `frame` takes nothing out of the body before it is ready, so a timeout loses nothing.
        let Ok(next) = timeout_at(patience, body.frame()).await else {
            return (ResponseBody::begun(frames, body), Whole::No);
        };
        let frame = match next {
            None => {
                let whole = joined(frames);
                return (ResponseBody::whole(whole.clone()), Whole::Yes(whole));
            }
            Some(Err(error)) => return (ResponseBody::aborted(frames, error), Whole::Aborted),
            Some(Ok(frame)) => frame,
        };
        size = size.saturating_add(frame.data_ref().map_or(0, Bytes::len));
        let goes_on = frame.is_data() && size <= limit;
        frames.push_back(frame);
        if !goes_on {
            return (ResponseBody::begun(frames, body), Whole::No);
        }
    }
}

fn joined(frames: VecDeque<Frame<Bytes>>) -> Bytes {
    let mut data: Vec<Bytes> = frames.into_iter().filter_map(|frame| frame.into_data().ok()).collect();
    if data.len() <= 1 {
        return data.pop().unwrap_or_default(); // The usual case copies nothing.
    }
    let mut whole = BytesMut::with_capacity(data.iter().map(Bytes::len).sum());
    data.iter().for_each(|chunk| whole.extend_from_slice(chunk));
    whole.freeze()
}

/// Responses that are known to stream by their head: upgrades, server-sent events, gRPC, replaced parts, and those that
/// announce trailers or say [`Unkept`].
pub(crate) fn streams<B>(response: &Response<B>) -> bool {
    let media_type = response.headers().get(header::CONTENT_TYPE).map_or(&b""[..], |value| value.as_bytes());
    let streaming = [&b"text/event-stream"[..], b"application/grpc", b"multipart/x-mixed-replace"];
    response.status() == StatusCode::SWITCHING_PROTOCOLS
        || response.headers().contains_key(header::TRAILER)
        || response.extensions().get::<Unkept>().is_some()
        || streaming
            .iter()
            .any(|prefix| media_type.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix)))
}

/// A successful CONNECT is a tunnel, whatever its head says.
fn tunnels<B>(method: &Method, response: &Response<B>) -> bool {
    method == Method::CONNECT && response.status().is_success()
}
