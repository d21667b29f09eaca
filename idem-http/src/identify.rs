//! From an HTTP request to what is claimed.

use std::error::Error as StdError;

use bytes::Bytes;
use http::request::Parts;
use http_body::Body;
use idem_core::{Identity, Request};

use crate::fingerprint::fingerprint;
use crate::key::key;
use crate::problem::Refusal;
use crate::{Profile, ScopeExtractor, request_body};

/// Scope, key, body and fingerprint, in this order: who is not let in learns nothing about its key, and nothing is read
/// for a request without one.
pub(crate) async fn identify<X, B>(
    scope: &X,
    profile: &Profile,
    parts: &Parts,
    body: B,
) -> Result<(Request, Bytes), Refusal>
where
    X: ScopeExtractor,
    B: Body<Data = Bytes>,
    B::Error: Into<Box<dyn StdError + Send + Sync>>,
{
    let scope = scope.scope(parts).map_err(Refusal::Denied)?;
    let key = key(&parts.headers, &profile.header, profile.syntax).map_err(Refusal::Key)?;
    let body = request_body::read(body, profile.body_limit).await?;
    let (operation, fingerprint) = fingerprint(profile, parts, &body).map_err(|error| Refusal::of_store(&error))?;
    Ok((Request::new(Identity::new(scope, key), operation, fingerprint), body))
}
