//! Why a rule's check ended without holding.

use crate::harness::{Hook, OpenError};

/// What a rule's check gives back.
pub type Outcome = Result<(), Stop>;

/// Why a rule's check ended without holding.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Stop {
    /// The store does not do what the rule requires.
    Fail(String),
    /// The suite, the harness or the environment is broken.
    Error(String),
    /// The harness cannot reach what the rule needs.
    Gap {
        /// The missing hook.
        hook: Hook,
        /// What is missing.
        what: String,
    },
    /// There is nothing to run, for this reason.
    NotRun(String),
    /// The backend does not claim what the rule requires, and a probe agreed.
    NotApplicable(String),
    /// Nothing is known: the machine was too slow, or the window was missed. Never a pass.
    Inconclusive(String),
}

impl Stop {
    pub(crate) fn of_opening(error: OpenError, usual: bool) -> Stop {
        match error {
            OpenError::Unsupported(what) if usual => {
                Stop::Error(format!("the harness calls a usual handle unsupported: {what}"))
            }
            OpenError::Unsupported(what) => {
                Stop::Gap { hook: Hook::Open, what: format!("the harness cannot open a handle so: {what}") }
            }
            OpenError::Refused(error) => Stop::Fail(format!("the store refused to open: {error}")),
            OpenError::Environment(what) => Stop::Error(format!("no handle could be opened: {what}")),
        }
    }
}

/// Ends the check as failed, with this message, unless the condition holds.
macro_rules! ensure {
    ($condition:expr, $($message:tt)+) => {
        if !$condition {
            return Err($crate::trial::Stop::Fail(format!($($message)+)));
        }
    };
}

/// Ends the check as failed unless both sides are equal; says what each was.
macro_rules! ensure_eq {
    ($left:expr, $right:expr, $($message:tt)+) => {
        match (&$left, &$right) {
            (left, right) => {
                if left != right {
                    let what = format!($($message)+);
                    return Err($crate::trial::Stop::Fail(format!("{what}: {left:?}, expected {right:?}")));
                }
            }
        }
    };
}

pub(crate) use {ensure, ensure_eq};
