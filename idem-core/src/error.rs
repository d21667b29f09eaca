//! The one error type of a store: what happened, and whether trying again can help.

use std::borrow::Cow;
use std::error::Error as StdError;
use std::fmt;

/// What happened (clause X4). Outcomes of an operation (`InFlight`, `Lost`, …) are values, not errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The store could not be reached, or refused for now; nothing was applied.
    Unavailable,
    /// The request may have been applied. Repeating it with the same token is safe and tells.
    Indeterminate,
    /// The caller's own transaction is gone; the caller starts it again from its beginning.
    TransactionAborted,
    /// The request itself is wrong: an empty key, a zero lease, a retention below the lease.
    InvalidInput,
    /// The response or checkpoint is longer than this store keeps. Nothing was changed.
    TooLarge,
    /// The tables, or what is stored in them, are not what this version expects.
    Schema,
    /// This store cannot do that, and says so instead of pretending.
    Unsupported,
    /// A defect in the store. Please report it.
    Bug,
}

impl ErrorKind {
    fn phrase(self) -> &'static str {
        match self {
            Self::Unavailable => "the store is unavailable",
            Self::Indeterminate => "the store may or may not have applied the request",
            Self::TransactionAborted => "the transaction was aborted and must be started again",
            Self::InvalidInput => "the request is not valid",
            Self::TooLarge => "the value is too large for this store",
            Self::Schema => "the store's schema or data is not what this version expects",
            Self::Unsupported => "this store does not support the request",
            Self::Bug => "a defect in the store",
        }
    }
}

/// An error of a store: opaque, with two questions that it answers apart, [`kind`](Error::kind) and
/// [`is_retryable`](Error::is_retryable).
///
/// It never carries a key, a scope or a response (clause X6), so it can be logged as it is. A store that attaches a
/// driver's error as the [`source`](StdError::source) sees to it that the driver's text carries none either.
pub struct Error(Box<Inner>);

struct Inner {
    kind: ErrorKind,
    retryable: bool,
    message: Cow<'static, str>,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

impl Error {
    /// An error of this kind. `Unavailable`, `Indeterminate` and `TransactionAborted` are retryable, the others not.
    pub fn new(kind: ErrorKind, message: impl Into<Cow<'static, str>>) -> Error {
        let retryable =
            matches!(kind, ErrorKind::Unavailable | ErrorKind::Indeterminate | ErrorKind::TransactionAborted);
        Error(Box::new(Inner { kind, retryable, message: message.into(), source: None }))
    }

    pub(crate) fn invalid_input(message: impl Into<Cow<'static, str>>) -> Error {
        Error::new(ErrorKind::InvalidInput, message)
    }

    /// The same error with its cause attached. The cause's text must not carry keys or responses.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Error {
        self.0.source = Some(source.into());
        self
    }

    /// The same error, said not to be worth another try (a wrong password is `Unavailable`, and stays so).
    #[must_use]
    pub fn permanent(mut self) -> Error {
        self.0.retryable = false;
        self
    }

    /// What happened.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// May the same request, with the same token, succeed when it is sent again?
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        self.0.retryable
    }

    /// What the store says about it, without the kind.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.0.message
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.0.kind.phrase(), self.0.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Error")
            .field("kind", &self.0.kind)
            .field("retryable", &self.0.retryable)
            .field("message", &self.0.message)
            .field("source", &self.0.source)
            .finish()
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source.as_deref().map(|source| source as &(dyn StdError + 'static))
    }
}
