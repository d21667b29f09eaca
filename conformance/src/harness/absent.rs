//! Nothing to test a store on.

/// Why there is nothing to test a store on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Absent {
    /// What was tried, why it failed, and what would help. Holds no password.
    pub reason: String,
    /// Somebody requires it: then this is an error, and no gap.
    pub required: bool,
}
