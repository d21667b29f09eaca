//! axum: extractors, and parts of responses.

use axum::extract::{FromRequestParts, OptionalFromRequestParts};
use axum::response::{IntoResponse, IntoResponseParts, Response, ResponseParts};
use http::StatusCode;
use http::request::Parts;
use std::convert::Infallible;

use crate::{Attempt, Ends, Identified, Unkept};

/// A handler asks for what only the layer can give, and the layer did not see its request: it is not around the route,
/// does not guard the method, or let a request without a key pass. 500.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct NoLayer;

impl std::fmt::Display for NoLayer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(
            "the idempotency layer has not seen this request: it is not around this route, does not guard this \
             method, or keys are optional and the handler must take an Option",
        )
    }
}

impl std::error::Error for NoLayer {}

impl IntoResponse for NoLayer {
    fn into_response(self) -> Response {
        tracing::error!("{self}");
        (StatusCode::INTERNAL_SERVER_ERROR, self.to_string()).into_response()
    }
}

macro_rules! extractor {
    ($name:ty) => {
        impl<S: Send + Sync> FromRequestParts<S> for $name {
            type Rejection = NoLayer;

            async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<$name, NoLayer> {
                <$name>::of(&parts.extensions).cloned().ok_or(NoLayer)
            }
        }

        impl<S: Send + Sync> OptionalFromRequestParts<S> for $name {
            type Rejection = Infallible;

            async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Option<$name>, Infallible> {
                Ok(<$name>::of(&parts.extensions).cloned())
            }
        }
    };
}

extractor!(Attempt);
extractor!(Identified);

macro_rules! response_part {
    ($name:ty) => {
        impl IntoResponseParts for $name {
            type Error = Infallible;

            fn into_response_parts(self, mut response: ResponseParts) -> Result<ResponseParts, Infallible> {
                response.extensions_mut().insert(self);
                Ok(response)
            }
        }
    };
}

response_part!(Ends);
response_part!(Unkept);
