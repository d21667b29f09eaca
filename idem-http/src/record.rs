//! A response as a record keeps it, and back.

use bytes::Bytes;
use http::{Response, StatusCode};
use idem_core::{CodecError, Recorded};

use crate::keep::streams;
use crate::{Profile, headers};

/// A response in the form in which a layer with the default profile records and replays it.
///
/// For whoever ends a record outside of a request: a worker that finishes what a handler accepted, or a reconciler.
/// A handler uses [`Attempt::record`](crate::Attempt::record), which knows its layer's profile.
#[must_use]
pub fn record<B: AsRef<[u8]>>(response: &Response<B>) -> Recorded {
    recorded(&Profile::ietf(), response)
}

/// The response of a record that [`record`] or the layer has written.
///
/// # Errors
/// When it is not such a record.
pub fn replay(response: idem_core::Response) -> Result<Response<Bytes>, CodecError> {
    let mut replayed = Response::new(response.body.unwrap_or_default());
    *replayed.status_mut() = StatusCode::from_u16(response.code)?;
    *replayed.headers_mut() = headers::decode(&response.meta)?;
    Ok(replayed)
}

pub(crate) fn recorded<B: AsRef<[u8]>>(profile: &Profile, response: &Response<B>) -> Recorded {
    if streams(response) {
        return tombstone(response.status());
    }
    let body = Bytes::copy_from_slice(response.body().as_ref());
    with_body(profile, response, body)
}

/// The head of a response with this body; a tombstone when it is longer than the profile allows.
pub(crate) fn with_body<B>(profile: &Profile, head: &Response<B>, body: Bytes) -> Recorded {
    let response = idem_core::Response::new(head.status().as_u16())
        .with_meta(headers::encode(head.headers(), &profile.headers))
        .with_body(body);
    if response.size() > profile.response_limit { tombstone(head.status()) } else { response.into() }
}

pub(crate) fn tombstone(status: StatusCode) -> Recorded {
    Recorded::Tombstone { code: status.as_u16() }
}
