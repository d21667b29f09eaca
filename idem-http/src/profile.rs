//! Everything that can be chosen, in one value.

use std::borrow::Cow;
use std::time::Duration;

use http::{HeaderName, HeaderValue, Method, Request, StatusCode, Uri};
use idem_core::Operation;
use idem_core::config::defaults;

use crate::{Ends, HeaderFilter, KeySyntax};

/// Is a request without a key refused?
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Demand {
    /// 400.
    Required,
    /// It passes untouched, and may run twice. A key is never invented: one that the client does not know protects
    /// nobody.
    Optional,
}

/// How the layer reads requests and answers them. [`Profile::ietf`] is the default.
///
/// What executes (lease, retention, policy, waiting, confirming) is configured on [`Idem`](idem_core::Idem) instead.
#[derive(Clone, Debug)]
#[must_use = "a profile does nothing until it is given to a layer"]
pub struct Profile {
    pub(crate) header: HeaderName,
    pub(crate) syntax: KeySyntax,
    pub(crate) demand: Demand,
    pub(crate) methods: Vec<Method>,
    pub(crate) operation: Option<Operation>,
    pub(crate) body_limit: usize,
    pub(crate) response_limit: usize,
    pub(crate) stream_after: Duration,
    pub(crate) headers: HeaderFilter,
    pub(crate) ends: Vec<(StatusCode, Ends)>,
    pub(crate) problem_base: Cow<'static, str>,
    pub(crate) documentation: Option<HeaderValue>,
    pub(crate) retry_after_cap: Duration,
    pub(crate) retry_after_unavailable: Duration,
}

impl Profile {
    /// The IETF draft (`draft-ietf-httpapi-idempotency-key-header`): header `Idempotency-Key`, required on POST and
    /// PATCH, read [leniently](KeySyntax::Lenient).
    pub fn ietf() -> Profile {
        Profile {
            header: HeaderName::from_static("idempotency-key"),
            syntax: KeySyntax::Lenient,
            demand: Demand::Required,
            methods: vec![Method::POST, Method::PATCH],
            operation: None,
            body_limit: defaults::REQUEST_BODY_LIMIT,
            response_limit: defaults::RESPONSE_LIMIT,
            stream_after: Duration::from_secs(10),
            headers: HeaderFilter::default(),
            ends: Vec::new(),
            problem_base: Cow::Borrowed("urn:idem:problem:"),
            documentation: None,
            retry_after_cap: Duration::from_secs(60),
            retry_after_unavailable: Duration::from_secs(5),
        }
    }

    /// The header that carries the key.
    pub fn header(mut self, name: HeaderName) -> Profile {
        self.header = name;
        self
    }

    /// How the header is read.
    pub fn syntax(mut self, syntax: KeySyntax) -> Profile {
        self.syntax = syntax;
        self
    }

    /// Whether a request without a key is refused.
    pub fn demand(mut self, demand: Demand) -> Profile {
        self.demand = demand;
        self
    }

    /// The methods that are guarded. Requests of other methods pass untouched, even with a key.
    pub fn methods(mut self, methods: impl IntoIterator<Item = Method>) -> Profile {
        self.methods = methods.into_iter().collect();
        self
    }

    /// Names what runs, for a layer around a single route. Without it the operation is the method and the original
    /// path of each request.
    ///
    /// The name is part of the fingerprint: another one turns retries of requests from before into mismatches.
    pub fn operation(mut self, operation: Operation) -> Profile {
        self.operation = Some(operation);
        self
    }

    /// The longest request body that is read, in bytes; a longer one is answered 413.
    pub fn body_limit(mut self, bytes: usize) -> Profile {
        self.body_limit = bytes;
        self
    }

    /// The longest response (headers and body, in bytes) that is recorded. A longer one reaches the first client
    /// untouched and leaves a tombstone. A store may have a lower limit of its own, to the same effect.
    pub fn response_limit(mut self, bytes: usize) -> Profile {
        self.response_limit = bytes;
        self
    }

    /// How long a response body may take to end before it is taken for a stream: passed on as it comes, with a
    /// tombstone in the record. Until then the client waits.
    pub fn stream_after(mut self, patience: Duration) -> Profile {
        self.stream_after = patience;
        self
    }

    /// Which response headers are recorded and replayed.
    pub fn replayed_headers(mut self, filter: HeaderFilter) -> Profile {
        self.headers = filter;
        self
    }

    /// How a response with this status ends the record, instead of [`Ends::of`].
    pub fn ends(mut self, status: StatusCode, ends: Ends) -> Profile {
        self.ends.retain(|(other, _)| *other != status);
        self.ends.push((status, ends));
        self
    }

    /// What the `type` of every problem begins with; the name of the problem follows. By default
    /// `urn:idem:problem:`, as in `urn:idem:problem:in-flight`.
    pub fn problem_base(mut self, base: impl Into<Cow<'static, str>>) -> Profile {
        self.problem_base = base.into();
        self
    }

    /// Where people read about the service's idempotency: a `Link` with `rel="describedby"` on every problem.
    pub fn documentation(mut self, page: &Uri) -> Profile {
        // A URI is made of characters that a header value may have.
        self.documentation = HeaderValue::try_from(format!("<{page}>; rel=\"describedby\"")).ok();
        self
    }

    /// The longest `Retry-After`. A client that asks once more too early costs less than one that waits for a lease to
    /// lapse that was ended long before.
    pub fn retry_after_cap(mut self, cap: Duration) -> Profile {
        self.retry_after_cap = cap;
        self
    }

    /// The `Retry-After` of 503, where nobody knows how long it takes.
    pub fn retry_after_unavailable(mut self, pause: Duration) -> Profile {
        self.retry_after_unavailable = pause;
        self
    }

    pub(crate) fn covers<B>(&self, request: &Request<B>) -> bool {
        self.methods.contains(request.method())
            && (self.demand == Demand::Required || request.headers().contains_key(&self.header))
    }

    pub(crate) fn ends_of(&self, status: StatusCode) -> Ends {
        let chosen = self.ends.iter().find(|(other, _)| *other == status);
        chosen.map_or_else(|| Ends::of(status), |(_, ends)| *ends)
    }
}

impl Default for Profile {
    fn default() -> Profile {
        Profile::ietf()
    }
}
