//! Token, fence and lease: the right to run one attempt.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{Identity, Span};

/// 128 random bits that name one attempt, chosen by the caller *before* the claim is sent.
///
/// Because it is chosen first, a claim whose reply was lost can be repeated and recognised as the same one (clause
/// C3). It names the attempt and never the worker: two attempts of one process have two tokens. `Debug` shows only
/// its first bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Token([u8; 16]);

impl Token {
    /// A fresh token from the operating system's random source (not a generator that a forked process would repeat).
    ///
    /// # Panics
    /// When the operating system has no randomness to give, as `HashMap::new` does.
    #[must_use]
    pub fn random() -> Token {
        use rand::TryRng;
        let mut bytes = [0; 16];
        #[allow(clippy::expect_used)] // Without randomness no two attempts can be told apart: going on would be worse.
        rand::rngs::SysRng.try_fill_bytes(&mut bytes).expect("the operating system's random source works");
        Token(bytes)
    }

    /// The token with these bytes, as a store reads it back.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 16]) -> Token {
        Token(bytes)
    }

    /// The bytes that a store writes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:02x}{:02x}…", self.0[0], self.0[1])
    }
}

/// A number that the store gives with every grant. For one identity it only grows, also across release, purge and
/// re-creation, so a table of the caller's own can refuse an older writer (a fencing token).
///
/// The rule that makes it grow is `max(old + 1, now in µs)`. Fences fit a signed 64-bit column.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Fence(u64);

impl Fence {
    /// The fence with this number.
    #[must_use]
    pub const fn new(number: u64) -> Fence {
        Fence(number)
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }
}

/// The right to run one attempt: identity, token, fence, attempt and how long it was granted for.
///
/// It can be serialized, so that a worker process finishes what an HTTP handler accepted (202). Whoever holds it can
/// end the attempt: treat it as a secret. It says nothing about *when* the lease ends on the store's clock; a holder's
/// own deadline is its monotonic clock from before the claim was sent, plus the length, less a margin (clause T5).
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Lease {
    /// Whose key, and which.
    pub identity: Identity,
    /// Names the attempt.
    pub token: Token,
    /// Given by the store with the grant.
    pub fence: Fence,
    /// 1 for the first attempt, then 2, …
    pub attempt: u32,
    /// How long the lease was granted for; renewals count from their own moment.
    pub length: Span,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_differ_and_debug_hides_them() {
        let (a, b) = (Token::random(), Token::random());
        assert_ne!(a, b);
        assert!(format!("{a:?}").len() < 10);
    }
}
