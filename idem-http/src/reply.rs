//! What the executor carries from the handler's task to the client: the live response, and its recorded form.

use bytes::Bytes;
use http::Response;
use http_body::Body;
use idem_core::{CodecError, Fault, Recorded, Reply};

use crate::keep::{Kept, Whole};
use crate::record::{replay, tombstone, with_body};
use crate::{Ends, Profile, ResponseBody};

/// The answer of the inner service.
pub(crate) enum HttpReply<R: Body, E> {
    Response {
        live: Box<Response<ResponseBody<R>>>,
        recorded: Recorded,
    },
    /// An error of the inner service, for its first caller. There is nothing in it to record.
    Error(E),
}

/// How the attempt ends, for the executor.
pub(crate) type Verdict<R, E> = Result<HttpReply<R, E>, Fault<HttpReply<R, E>>>;

/// A response, and how it ends the record: as was said, or else as its status says.
pub(crate) fn verdict<R: Body<Data = Bytes>, E>(kept: Kept<R>, said: Option<Ends>, profile: &Profile) -> Verdict<R, E> {
    let Kept { live, body } = kept;
    let status = live.status();
    let by_status = if matches!(body, Whole::Aborted) { Ends::Unknown } else { profile.ends_of(status) };
    let recorded = match body {
        Whole::Yes(body) => with_body(profile, &live, body),
        Whole::No | Whole::Aborted => tombstone(status),
    };
    let reply = HttpReply::Response { live: Box::new(live), recorded };
    match said.unwrap_or(by_status) {
        Ends::Succeeded => Ok(reply),
        Ends::Failed => Err(Fault::Final(reply)),
        Ends::Unknown => Err(Fault::Unknown(reply)),
        Ends::NothingHappened => Err(Fault::NothingHappened(reply)),
    }
}

impl<R, E> Reply for HttpReply<R, E>
where
    R: Body<Data = Bytes> + Send + 'static,
    R::Error: Send,
    E: Send + 'static,
{
    fn record(&self) -> Result<Recorded, CodecError> {
        match self {
            HttpReply::Response { recorded, .. } => Ok(recorded.clone()),
            HttpReply::Error(_) => Err("an error of the inner service has no recorded form".into()),
        }
    }

    fn replay(response: idem_core::Response) -> Result<HttpReply<R, E>, CodecError> {
        let recorded = Recorded::Response(response.clone());
        let live = Box::new(replay(response)?.map(ResponseBody::whole));
        Ok(HttpReply::Response { live, recorded })
    }
}
