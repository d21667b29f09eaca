//! Small values in place of real ones: ticks for instants, small numbers for tokens, one identity.

use std::hash::{Hash, Hasher};
use std::sync::LazyLock;

use idem_core::{
    Fence, Fingerprint, Identity, Key, Lease, Operation, PastAttempt, Record, Recorded, Scope, Span, StoreTime, Token,
};

/// An instant of the model's clock.
pub(crate) type Tick = u8;

/// One tick is a second, so two grants in one tick have fences that differ by `old + 1`, and grants in different ticks
/// have fences that differ by the clock: both halves of the fence's rule are explored.
pub(crate) const fn ticks(count: u64) -> Span {
    Span::saturating_secs(count)
}

/// The store's time at a tick; far enough from zero that a clock can step back.
pub(crate) fn at(tick: u64) -> StoreTime {
    StoreTime::from_micros((1_000 + tick) * 1_000_000)
}

/// A token's small name.
pub(crate) fn token(name: u8) -> Token {
    Token::from_bytes([name; 16])
}

/// One of two requests.
pub(crate) fn fingerprint(name: u8) -> Fingerprint {
    Fingerprint::from_bytes([name; 32])
}

/// The one identity that everybody fights over.
pub(crate) fn identity() -> Identity {
    #[allow(clippy::expect_used)] // A constant of the test.
    static KEY: LazyLock<Key> = LazyLock::new(|| Key::new("key").expect("a valid key"));
    Identity::new(Scope::global(), KEY.clone())
}

/// What is run under it.
pub(crate) fn operation() -> Operation {
    #[allow(clippy::expect_used)] // A constant of the test.
    static OPERATION: LazyLock<Operation> = LazyLock::new(|| Operation::new("pay").expect("a valid operation"));
    OPERATION.clone()
}

/// A lease, as small as the model needs it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Held {
    pub(crate) token: u8,
    pub(crate) fence: Fence,
    pub(crate) attempt: u32,
}

impl Held {
    pub(crate) fn of(lease: &Lease) -> Held {
        Held { token: lease.token.as_bytes()[0], fence: lease.fence, attempt: lease.attempt }
    }

    pub(crate) fn lease(self, length: Span) -> Lease {
        Lease { identity: identity(), token: token(self.token), fence: self.fence, attempt: self.attempt, length }
    }
}

/// A record that can be hashed. The checker tells states apart by their hash alone, so a field that decides anything
/// must go in: the pattern below names them all, and a new field does not compile until somebody has thought of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Row(pub(crate) Record);

impl Hash for Row {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        let Record {
            identity: _,  // always the same
            operation: _, // always the same
            fingerprint,
            state,
            undone,
            on_uncertain,
            attempt,
            token,
            fence,
            owner: _, // nobody has a name here
            ran_since,
            created_at,
            claimed_at,
            lease_until,
            ended_at,
            expires_at,
            checkpoint,
            recorded,
            history,
        } = &self.0;
        (fingerprint, state, undone, on_uncertain, attempt, token, fence, ran_since).hash(hasher);
        (created_at, claimed_at, lease_until, ended_at, expires_at).hash(hasher);
        checkpoint.as_ref().map(|checkpoint| checkpoint.sequence).hash(hasher);
        recorded.as_ref().map(|recorded| (recorded.code(), matches!(recorded, Recorded::Response(_)))).hash(hasher);
        history.len().hash(hasher);
        for PastAttempt { attempt, owner: _, claimed_at, ended_at, how } in history {
            (attempt, claimed_at, ended_at, how).hash(hasher);
        }
    }
}
