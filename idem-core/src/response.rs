//! What a finished record answers with.

use std::fmt;

use bytes::Bytes;

/// A response as the store keeps it: opaque, and given back byte for byte (clause F6).
///
/// `code` is a number for the caller (an HTTP status, an exit code), `meta` and `body` are bytes. An absent body and
/// an empty one are two different things. `Debug` shows lengths only (clause X6).
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Response {
    /// The caller's number for how it went.
    pub code: u16,
    /// What belongs to the body (headers, a content type), in the caller's own format.
    pub meta: Bytes,
    /// The body, when there is one.
    pub body: Option<Bytes>,
}

impl Response {
    /// A response with this code, without meta and without a body.
    #[must_use]
    pub fn new(code: u16) -> Response {
        Response { code, meta: Bytes::new(), body: None }
    }

    /// The same with this body.
    #[must_use]
    pub fn with_body(mut self, body: impl Into<Bytes>) -> Response {
        self.body = Some(body.into());
        self
    }

    /// The same with this meta.
    #[must_use]
    pub fn with_meta(mut self, meta: impl Into<Bytes>) -> Response {
        self.meta = meta.into();
        self
    }

    /// How many bytes a store has to keep for it: meta and body.
    #[must_use]
    pub fn size(&self) -> usize {
        self.meta.len() + self.body.as_ref().map_or(0, Bytes::len)
    }
}

impl fmt::Debug for Response {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Response")
            .field("code", &self.code)
            .field("meta_bytes", &self.meta.len())
            .field("body_bytes", &self.body.as_ref().map(Bytes::len))
            .finish()
    }
}

/// What a completion leaves in the record: the response, or a tombstone that says "done, response not kept".
///
/// A response that is too long or cannot be kept leaves a tombstone, so that the operation is never run again because
/// its answer was long (clause F7).
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Recorded {
    /// The response itself.
    Response(Response),
    /// Done, but the response was not kept.
    Tombstone {
        /// The code that the lost response had.
        code: u16,
    },
}

impl Recorded {
    /// The code, which a tombstone keeps too.
    #[must_use]
    pub fn code(&self) -> u16 {
        match self {
            Recorded::Response(response) => response.code,
            Recorded::Tombstone { code } => *code,
        }
    }

    /// How many bytes a store has to keep for it.
    #[must_use]
    pub fn size(&self) -> usize {
        match self {
            Recorded::Response(response) => response.size(),
            Recorded::Tombstone { .. } => 0,
        }
    }
}

impl From<Response> for Recorded {
    fn from(response: Response) -> Recorded {
        Recorded::Response(response)
    }
}
