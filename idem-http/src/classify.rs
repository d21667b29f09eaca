//! How a response ends the record.

use http::StatusCode;

/// How an attempt ends.
///
/// The status decides, by [`Ends::of`] and [`Profile::ends`](crate::Profile::ends). The handler overrules it by
/// [`Attempt::ends`](crate::Attempt::ends), or by putting this value into the response's extensions (in axum it is a
/// part of a response), which has the last word; the layer takes it out of the response. A panic and an error of the
/// inner service always end as unknown.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Ends {
    /// The effect happened: replayed.
    Succeeded,
    /// A final refusal (the card was declined): replayed.
    Failed,
    /// An outside call may have happened: `on_uncertain` decides about the next request with the key.
    Unknown,
    /// Nothing happened, and nothing outside was called: the key is free at once, also for a corrected body.
    NothingHappened,
}

impl Ends {
    /// What a status says when nobody says otherwise.
    ///
    /// | response | ends as |
    /// |---|---|
    /// | 2xx, 3xx, 101 | `Succeeded` |
    /// | 4xx that says the server refused to start: 400 401 403 404 405 406 411 413 414 415 417 422 428 429 431 | `NothingHappened` |
    /// | other 4xx (402 card declined, 409, 410, …) | `Failed` |
    /// | 408, 425, 5xx, panic, aborted stream | `Unknown` |
    #[must_use]
    pub fn of(status: StatusCode) -> Ends {
        match status.as_u16() {
            100..400 => Ends::Succeeded,
            400 | 401 | 403..=406 | 411 | 413..=415 | 417 | 422 | 428 | 429 | 431 => Ends::NothingHappened,
            408 | 425 => Ends::Unknown,
            400..500 => Ends::Failed,
            // A status outside of the known classes says nothing either.
            _ => Ends::Unknown,
        }
    }
}
