//! What a caller of the executor gets, and what the work says about how it ended.

use std::time::Duration;

use crate::{Final, Replay, Spent, Uncertain};

/// How work failed. What it says decides how the record ends.
///
/// `?` on any standard error makes [`Fault::Unknown`] of it, with the error's text as evidence: what is not known to be
/// harmless is not run again blindly.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Fault<E = String> {
    /// Nothing happened, and nothing outside was called: the key is released and free at once.
    NothingHappened(E),
    /// A final refusal (the card was declined): recorded as FAILED, and replayed.
    Final(E),
    /// An outside call may have happened: recorded as UNKNOWN, and the policy decides.
    Unknown(E),
}

impl<E> Fault<E> {
    /// What the work said.
    #[must_use]
    pub fn value(&self) -> &E {
        match self {
            Fault::NothingHappened(value) | Fault::Final(value) | Fault::Unknown(value) => value,
        }
    }

    /// What the work said, without the kind.
    #[must_use]
    pub fn into_value(self) -> E {
        match self {
            Fault::NothingHappened(value) | Fault::Final(value) | Fault::Unknown(value) => value,
        }
    }
}

impl<X: std::error::Error> From<X> for Fault<String> {
    fn from(error: X) -> Fault<String> {
        Fault::Unknown(error.to_string())
    }
}

/// The outcome of [`Idem::run`](crate::Idem::run).
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome<T, E = String> {
    /// This call ran the work. `Ok` and `Fault::Final` are recorded and will be replayed; after
    /// `Fault::NothingHappened` the key is free; after `Fault::Unknown` the policy decides about the next claim.
    Executed(Result<T, Fault<E>>),
    /// An earlier call ran it: the first response. `Err` is a final refusal.
    Replayed(Result<T, E>),
    /// It was run, and its response was not kept.
    NotKept {
        /// How it ended.
        end: Final,
        /// The response's code.
        code: u16,
    },
    /// This call ran the work and it ended so, but the store has not confirmed the record inside the budget. Storing
    /// goes on behind. Whoever is told this should ask again with the same key.
    Unconfirmed(Result<T, Fault<E>>),
    /// This call ran the work, and it panicked; recorded as UNKNOWN.
    Panicked,
    /// Another attempt is running.
    InFlight {
        /// When to ask again.
        retry_after: Duration,
    },
    /// The key was used for another request.
    Mismatch,
    /// An earlier attempt's effect is not known, and the policy lets nobody run it again by itself.
    Uncertain(Uncertain),
    /// It was done long ago, and is not run again.
    Spent(Spent),
    /// This executor starts nothing more at the moment; nothing ran.
    Busy(Busy),
}

/// Why an executor starts nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Busy {
    /// As many attempts run as the configuration allows.
    Saturated,
    /// It is being [drained](crate::Idem::drain).
    Draining,
}

/// The answer of [`Idem::begin`](crate::Idem::begin).
#[derive(Debug)]
pub enum Begun {
    /// You run it.
    Granted(crate::Ticket),
    /// It is done, and this is how it went.
    Replay(Replay),
    /// Another attempt is running.
    InFlight {
        /// When to ask again.
        retry_after: Duration,
    },
    /// The key was used for another request.
    Mismatch,
    /// An earlier attempt's effect is not known, and is held.
    Uncertain(Uncertain),
    /// It was done long ago, and is not run again.
    Spent(Spent),
    /// This executor starts nothing more at the moment.
    Busy(Busy),
}
