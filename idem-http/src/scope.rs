//! Whose key it is: chosen by the application, never guessed.

use std::marker::PhantomData;

use http::HeaderValue;
use http::request::Parts;
use idem_core::{Error, Scope};

/// Says whose key a request's key is.
///
/// It looks at the request's head only, and answers at once: whatever must be looked up (a session, an API key) belongs
/// into the authentication that runs outside of this layer, on every request, and leaves a principal in the request's
/// extensions. A scope is stored as it is: never make one of a password, a token or an API key itself.
///
/// Closures are extractors.
pub trait ScopeExtractor: Send + Sync + 'static {
    /// The scope of this request.
    ///
    /// # Errors
    /// [`Denied`], which is the answer to the client. The handler does not run.
    fn scope(&self, parts: &Parts) -> Result<Scope, Denied>;
}

impl<F> ScopeExtractor for F
where
    F: Fn(&Parts) -> Result<Scope, Denied> + Send + Sync + 'static,
{
    fn scope(&self, parts: &Parts) -> Result<Scope, Denied> {
        self(parts)
    }
}

/// One scope for all: for services with a single tenant, and for those that nobody logs in to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct GlobalScope;

impl ScopeExtractor for GlobalScope {
    fn scope(&self, _: &Parts) -> Result<Scope, Denied> {
        Ok(Scope::global())
    }
}

/// Takes the scope from what authentication left in the request's extensions. Without it the answer is 500: then the
/// authentication runs inside this layer, or not at all.
///
/// ```
/// use idem_core::Scope;
///
/// #[derive(Clone)]
/// struct User { id: u64 }
///
/// let scope = idem_http::from_extension(|user: &User| Ok(Scope::new(format!("user/{}", user.id))?));
/// ```
pub fn from_extension<T, F>(scope: F) -> FromExtension<T, F>
where
    T: Send + Sync + 'static,
    F: Fn(&T) -> Result<Scope, Denied> + Send + Sync + 'static,
{
    FromExtension { scope, principal: PhantomData }
}

/// Made by [`from_extension`].
pub struct FromExtension<T, F> {
    scope: F,
    principal: PhantomData<fn(&T)>,
}

impl<T, F> ScopeExtractor for FromExtension<T, F>
where
    T: Send + Sync + 'static,
    F: Fn(&T) -> Result<Scope, Denied> + Send + Sync + 'static,
{
    fn scope(&self, parts: &Parts) -> Result<Scope, Denied> {
        parts.extensions.get::<T>().map_or_else(|| Err(Denied::misconfigured()), &self.scope)
    }
}

impl<T, F: Clone> Clone for FromExtension<T, F> {
    fn clone(&self) -> FromExtension<T, F> {
        FromExtension { scope: self.scope.clone(), principal: PhantomData }
    }
}

impl<T, F> std::fmt::Debug for FromExtension<T, F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "FromExtension<{}>", std::any::type_name::<T>())
    }
}

/// No scope: the request is answered with this, and the handler does not run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Denied(pub(crate) Why);

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Why {
    Unauthenticated(Option<HeaderValue>),
    Misconfigured,
}

impl Denied {
    /// 401: the client did not say who it is.
    #[must_use]
    pub fn unauthenticated() -> Denied {
        Denied(Why::Unauthenticated(None))
    }

    /// 401 with this `WWW-Authenticate`, which RFC 9110 asks for.
    #[must_use]
    pub fn challenge(challenge: HeaderValue) -> Denied {
        Denied(Why::Unauthenticated(Some(challenge)))
    }

    /// 500: it is the service's own fault that nobody knows.
    #[must_use]
    pub fn misconfigured() -> Denied {
        Denied(Why::Misconfigured)
    }
}

/// A principal that makes no valid [`Scope`] is the service's own fault.
impl From<Error> for Denied {
    fn from(_: Error) -> Denied {
        Denied::misconfigured()
    }
}
