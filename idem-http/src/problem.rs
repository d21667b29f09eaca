//! The layer's own answers, as problem details (RFC 9457).

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Response, StatusCode, header};
use idem_core::{Busy, Error, ErrorKind};
use problem_details::{JsonProblemDetails, ProblemDetails};
use serde::Serialize;

use crate::Profile;
use crate::key::BadKey;
use crate::scope::{Denied, Why};

/// `true` on replays, and on nothing else.
pub const IDEMPOTENT_REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");

pub(crate) fn mark_replayed<B>(mut response: Response<B>) -> Response<B> {
    response.headers_mut().insert(IDEMPOTENT_REPLAYED, HeaderValue::from_static("true"));
    response
}

/// Why a request is answered by the layer itself. The README lists them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Refusal {
    Key(BadKey),
    Denied(Denied),
    BodyTooLarge,
    BodyUnreadable,
    Mismatch,
    InFlight { retry_after: Duration },
    Uncertain,
    NotKept { code: u16 },
    Unavailable,
    Unconfirmed,
    Busy(Busy),
    Panicked,
    Broken,
}

/// How a refusal is told.
struct Told {
    status: StatusCode,
    name: &'static str,
    title: &'static str,
    detail: &'static str,
    retry_after: Option<Duration>,
}

/// Members beyond the standard ones. The `type` is among them because the library takes it as an [`http::Uri`], which
/// can be neither a URN nor have a fragment.
#[derive(Serialize)]
struct Members {
    r#type: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    original_status: Option<u16>,
}

impl Refusal {
    /// Only an error that waiting may cure asks the client to wait.
    pub(crate) fn of_store(error: &Error) -> Refusal {
        match error.kind() {
            ErrorKind::Unavailable | ErrorKind::Indeterminate | ErrorKind::TransactionAborted => {
                tracing::warn!(%error, "refused a request because the store did not answer");
                Refusal::Unavailable
            }
            _ => {
                tracing::error!(%error, "refused a request because of the store");
                Refusal::Broken
            }
        }
    }

    pub(crate) fn response(self, profile: &Profile) -> Response<Bytes> {
        let told = self.told(profile);
        let original_status = match self {
            Refusal::NotKept { code } => StatusCode::from_u16(code).ok().map(|status| status.as_u16()),
            _ => None,
        };
        let problem = ProblemDetails::new()
            .with_status(told.status)
            .with_title(told.title)
            .with_detail(told.detail)
            .with_extensions(Members { r#type: format!("{}{}", profile.problem_base, told.name), original_status });
        // Texts and a number always serialize; the status line would still tell if they ever did not.
        let body = JsonProblemDetails::from(problem).to_body_string().unwrap_or_default();
        let mut response = Response::new(Bytes::from(body));
        *response.status_mut() = told.status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(JsonProblemDetails::<()>::CONTENT_TYPE));
        if let Some(pause) = told.retry_after {
            headers.insert(header::RETRY_AFTER, whole_seconds(pause, profile.retry_after_cap).into());
        }
        if let Some(link) = &profile.documentation {
            headers.insert(header::LINK, link.clone());
        }
        if let Refusal::Denied(Denied(Why::Unauthenticated(Some(challenge)))) = self {
            headers.insert(header::WWW_AUTHENTICATE, challenge);
        }
        response
    }

    fn told(&self, profile: &Profile) -> Told {
        let told = |status, name, title, detail| Told { status, name, title, detail, retry_after: None };
        let later = |retry_after, told| Told { retry_after: Some(retry_after), ..told };
        let unavailable = profile.retry_after_unavailable;
        match self {
            Refusal::Key(BadKey::Missing) => told(
                StatusCode::BAD_REQUEST,
                "key-missing",
                "The idempotency key is missing",
                "This operation needs an idempotency key in its header.",
            ),
            Refusal::Key(BadKey::Malformed(detail)) => {
                told(StatusCode::BAD_REQUEST, "key-malformed", "The idempotency key is malformed", detail)
            }
            Refusal::Denied(Denied(Why::Unauthenticated(_))) => told(
                StatusCode::UNAUTHORIZED,
                "unauthenticated",
                "Nobody is logged in",
                "An idempotency key belongs to somebody, and the request does not say to whom.",
            ),
            Refusal::Denied(Denied(Why::Misconfigured)) => told(
                StatusCode::INTERNAL_SERVER_ERROR,
                "no-scope",
                "The owner of the idempotency key is not known",
                "The service could not tell whose key it is. Nothing was run.",
            ),
            Refusal::BodyTooLarge => told(
                StatusCode::PAYLOAD_TOO_LARGE,
                "body-too-large",
                "The body is too large",
                "The body is longer than this operation accepts. Nothing was run.",
            ),
            Refusal::BodyUnreadable => told(
                StatusCode::BAD_REQUEST,
                "body-unreadable",
                "The body could not be read",
                "The body ended before it was complete. Nothing was run.",
            ),
            Refusal::Mismatch => told(
                StatusCode::UNPROCESSABLE_ENTITY,
                "mismatch",
                "The idempotency key was used for another request",
                "A key belongs to one request. Use a new key for a new request.",
            ),
            Refusal::InFlight { retry_after } => later(
                *retry_after,
                told(
                    StatusCode::CONFLICT,
                    "in-flight",
                    "A request with this idempotency key is running",
                    "Ask again later with the same key.",
                ),
            ),
            Refusal::Uncertain => told(
                StatusCode::CONFLICT,
                "uncertain",
                "The outcome of an earlier request with this idempotency key is not known",
                "It is held until somebody has looked. Asking again does not help.",
            ),
            Refusal::NotKept { .. } => told(
                StatusCode::GONE,
                "response-not-kept",
                "The request was run, and its response was not kept",
                "It is not run again under this idempotency key.",
            ),
            Refusal::Unavailable => later(
                unavailable,
                told(
                    StatusCode::SERVICE_UNAVAILABLE,
                    "unavailable",
                    "Idempotency keys cannot be looked up at the moment",
                    "Ask again later with the same key.",
                ),
            ),
            Refusal::Unconfirmed => later(
                unavailable,
                told(
                    StatusCode::SERVICE_UNAVAILABLE,
                    "unconfirmed",
                    "The request was run, and its outcome is not recorded yet",
                    "Ask again later with the same key to be told the outcome.",
                ),
            ),
            Refusal::Busy(Busy::Saturated) => later(
                unavailable,
                told(
                    StatusCode::SERVICE_UNAVAILABLE,
                    "saturated",
                    "Too many requests are running",
                    "Nothing was run. Ask again later with the same key.",
                ),
            ),
            Refusal::Busy(Busy::Draining) => later(
                unavailable,
                told(
                    StatusCode::SERVICE_UNAVAILABLE,
                    "draining",
                    "The service is shutting down",
                    "Nothing was run. Ask again later with the same key.",
                ),
            ),
            Refusal::Panicked => told(
                StatusCode::INTERNAL_SERVER_ERROR,
                "handler-failed",
                "The request failed while it was running",
                "Whether it had an effect is not known.",
            ),
            Refusal::Broken => told(
                StatusCode::INTERNAL_SERVER_ERROR,
                "store-failed",
                "The idempotency record could not be used",
                "The service refuses to go on without it.",
            ),
        }
    }
}

/// At least one, rounded up, and at most the cap.
fn whole_seconds(pause: Duration, cap: Duration) -> u64 {
    let up = |duration: Duration| duration.as_secs().saturating_add(u64::from(duration.subsec_nanos() > 0));
    up(pause).min(up(cap)).max(1)
}
