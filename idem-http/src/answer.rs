//! From the executor's outcome to the client's answer.

use bytes::Bytes;
use http::Response;
use http_body::Body;
use idem_core::{Error, Fault, Outcome, Spent};

use crate::problem::{IDEMPOTENT_REPLAYED, Refusal, mark_replayed};
use crate::reply::HttpReply;
use crate::service::refused;
use crate::{Profile, ResponseBody};

/// An outcome as the executor gives it.
type Ran<R, E> = Result<Outcome<HttpReply<R, E>, HttpReply<R, E>>, Error>;

pub(crate) fn answer<R, E>(ran: Ran<R, E>, profile: &Profile) -> Result<Response<ResponseBody<R>>, E>
where
    R: Body<Data = Bytes>,
{
    let refusal = match ran {
        Ok(Outcome::Executed(result)) => return live(result.unwrap_or_else(Fault::into_value)),
        Ok(Outcome::Replayed(result)) => {
            let (Ok(reply) | Err(reply)) = result;
            return live(reply).map(mark_replayed);
        }
        // An error claims nothing about the effect, so there is nothing that must be recorded before it is told.
        Ok(Outcome::Unconfirmed(Err(Fault::Unknown(HttpReply::Error(error))))) => return Err(error),
        Ok(Outcome::Unconfirmed(_)) => Refusal::Unconfirmed,
        Ok(Outcome::NotKept { code, .. } | Outcome::Spent(Spent { code, .. })) => Refusal::NotKept { code },
        Ok(Outcome::Panicked) => {
            tracing::error!("a handler panicked; its effect is not known");
            Refusal::Panicked
        }
        Ok(Outcome::InFlight { retry_after }) => Refusal::InFlight { retry_after },
        Ok(Outcome::Mismatch) => Refusal::Mismatch,
        Ok(Outcome::Uncertain(uncertain)) => {
            tracing::warn!(attempt = uncertain.attempt, "refused a request that is held: somebody has to look");
            Refusal::Uncertain
        }
        Ok(Outcome::Busy(busy)) => Refusal::Busy(busy),
        Err(error) => Refusal::of_store(&error),
    };
    Ok(refused(refusal, profile))
}

/// What has just been run is no replay, also when the handler passes on what was one elsewhere.
fn live<R: Body, E>(reply: HttpReply<R, E>) -> Result<Response<ResponseBody<R>>, E> {
    match reply {
        HttpReply::Response { mut live, .. } => {
            live.headers_mut().remove(IDEMPOTENT_REPLAYED);
            Ok(*live)
        }
        HttpReply::Error(error) => Err(error),
    }
}
