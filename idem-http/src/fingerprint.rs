//! What makes two HTTP requests the same request.

use http::request::Parts;
use http::{Uri, header};
use idem_core::{Error, Fingerprint, MAX_TEXT, Operation};

use crate::Profile;

/// Names the recipe below. A stored fingerprint outlives a deployment, so another recipe gets another name.
const RECIPE: &[u8] = b"http/1";

/// The operation, and the digest of operation, method, original path, query, content type and body.
///
/// Everything in it is what the client sent, or was named by [`Profile::operation`]: a route's template is not among
/// it, so that renaming a path parameter, or moving the layer outside of the router, turns no retry into a mismatch.
pub(crate) fn fingerprint(profile: &Profile, parts: &Parts, body: &[u8]) -> Result<(Operation, Fingerprint), Error> {
    let uri = original(parts);
    let operation = match &profile.operation {
        Some(named) => named.clone(),
        None => by_request(parts, uri)?,
    };
    let mut builder = Fingerprint::of(&operation)
        .field("recipe", RECIPE)
        .field("method", parts.method.as_str().as_bytes())
        .field("path", uri.path().as_bytes());
    if let Some(query) = uri.query() {
        builder = builder.field("query", query.as_bytes());
    }
    for value in parts.headers.get_all(header::CONTENT_TYPE) {
        builder = builder.field("content-type", value.as_bytes());
    }
    Ok((operation, builder.field("body", body).finish()))
}

/// Method and path, cut to what an operation may have; the fingerprint has the whole path beside it.
fn by_request(parts: &Parts, uri: &Uri) -> Result<Operation, Error> {
    let text = format!("{} {}", parts.method, uri.path());
    Operation::new(&text[..text.floor_char_boundary(MAX_TEXT)])
}

/// The URI that the client sent: a nested router shortens the one in the request.
#[cfg(feature = "axum")]
fn original(parts: &Parts) -> &Uri {
    parts.extensions.get::<axum::extract::OriginalUri>().map_or(&parts.uri, |original| &original.0)
}

#[cfg(not(feature = "axum"))]
fn original(parts: &Parts) -> &Uri {
    &parts.uri
}
