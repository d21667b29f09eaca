//! Who asks. Authentication runs outside of the idempotency layer, on every request, replays included.

use axum::extract::{FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

/// The demonstration's users and their tokens. A real service asks its own user table.
pub(crate) const USERS: [(&str, &str); 2] = [("alice", "token-of-alice"), ("bob", "token-of-bob")];

/// An authenticated user. The scope of a key is made of this, never of the token.
#[derive(Clone, Debug)]
pub(crate) struct User(pub(crate) String);

/// Lets authenticated requests through, with a [`User`] in their extensions.
pub(crate) async fn authenticate(mut request: Request, next: Next) -> Response {
    match user_of(request.headers()) {
        Some(user) => {
            request.extensions_mut().insert(user);
            next.run(request).await
        }
        None => (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, "Bearer")]).into_response(),
    }
}

fn user_of(headers: &HeaderMap) -> Option<User> {
    let token = headers.get(header::AUTHORIZATION)?.to_str().ok()?.strip_prefix("Bearer ")?;
    USERS.iter().find(|(_, known)| *known == token).map(|(name, _)| User((*name).to_owned()))
}

impl<S: Send + Sync> FromRequestParts<S> for User {
    type Rejection = StatusCode;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<User, StatusCode> {
        parts.extensions.get::<User>().cloned().ok_or(StatusCode::UNAUTHORIZED)
    }
}
