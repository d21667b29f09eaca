//! The defaults, in one table that the code and the documentation share, and the executor's configuration.

use std::time::Duration;

use crate::{OnUncertain, Owner, Span};

/// The defaults. `ARCHITECTURE.md` shows the same table, and a test compares the two.
pub mod defaults {
    use std::time::Duration;

    use crate::{OnUncertain, Span};

    /// How long a lease runs unless it is renewed.
    pub const LEASE: Span = Span::saturating_secs(30);
    /// How long a finished record is replayed, from the claim that created it.
    pub const RETENTION: Span = Span::saturating_secs(24 * 3_600);
    /// What happens to a record whose effect is not known. An hour below the 24 hours that payment providers commonly
    /// keep a key for.
    pub const ON_UNCERTAIN: OnUncertain = OnUncertain::TakeOver { within: Span::saturating_secs(23 * 3_600) };
    /// The least time that a finished record is replayable after its completion.
    pub const REPLAY_FLOOR: Span = Span::saturating_secs(3_600);
    /// How long a record is remembered as spent after its retention.
    pub const REMEMBER: Option<Span> = None;
    /// How long lapsed and unknown records are kept as evidence.
    pub const EVIDENCE: Span = Span::saturating_secs(30 * 86_400);
    /// How long a free record stays before it is deleted.
    pub const QUARANTINE: Span = Span::saturating_secs(3_600);
    /// How long a caller waits for a key that is in flight; zero answers at once.
    pub const WAIT_BUDGET: Duration = Duration::ZERO;
    /// How long an attempt's lease is renewed at the most.
    pub const RUN_CEILING: Duration = Duration::from_secs(15 * 60);
    /// How long a caller waits for a claim's answer.
    pub const CLAIM_BUDGET: Duration = Duration::from_secs(10);
    /// How long the answer to the caller waits for its record to be stored.
    pub const CONFIRM_BUDGET: Duration = Duration::from_secs(5);
    /// How long a completion is tried again while the store is away.
    pub const STORE_BUDGET: Duration = Duration::from_secs(15 * 60);
    /// How many attempts one executor runs at once.
    pub const MAX_RUNNING: usize = 1_024;
    /// The longest request body that `idem-http` reads.
    pub const REQUEST_BODY_LIMIT: usize = 1024 * 1024;
    /// The longest response (meta and body) that a store keeps.
    pub const RESPONSE_LIMIT: usize = 1024 * 1024;
    /// Connections of a store's own pool.
    pub const POOL_SIZE: usize = 4;
    /// Time between two purges, on average.
    pub const PURGE_EVERY: Duration = Duration::from_secs(60);
    /// Rows that one purge statement touches at the most.
    pub const PURGE_BATCH: u32 = 500;

    /// Name, value and meaning of each, for the documentation.
    #[must_use]
    pub fn table() -> Vec<(&'static str, String, &'static str)> {
        let OnUncertain::TakeOver { within } = ON_UNCERTAIN else { return Vec::new() };
        vec![
            (
                "lease",
                format!("{LEASE:?}"),
                "how long a lease runs unless it is renewed, which happens at a third of it",
            ),
            (
                "retention",
                format!("{RETENTION:?}"),
                "how long a finished record is replayed, from the claim that created it",
            ),
            (
                "on uncertain",
                format!("TakeOver within {within:?}"),
                "what happens to a record whose effect is not known",
            ),
            (
                "replay floor",
                format!("{REPLAY_FLOOR:?}"),
                "the least time that a finished record is replayable after its completion",
            ),
            (
                "remember",
                REMEMBER.map_or("no".to_owned(), |span| format!("{span:?}")),
                "how long a record is remembered as spent after its retention",
            ),
            (
                "evidence",
                format!("{EVIDENCE:?}"),
                "how long lapsed and unknown records are kept; those under Hold until somebody decides",
            ),
            ("quarantine", format!("{QUARANTINE:?}"), "how long a free record stays before it is deleted"),
            (
                "wait budget",
                format!("{WAIT_BUDGET:?}"),
                "how long a caller waits for a key in flight; zero answers at once",
            ),
            ("run ceiling", format!("{RUN_CEILING:?}"), "how long an attempt's lease is renewed at the most"),
            ("claim budget", format!("{CLAIM_BUDGET:?}"), "how long a caller waits for a claim's answer"),
            (
                "confirm budget",
                format!("{CONFIRM_BUDGET:?}"),
                "how long the answer to the caller waits for its record to be stored",
            ),
            (
                "store budget",
                format!("{STORE_BUDGET:?}"),
                "how long a completion is tried again while the store is away",
            ),
            ("max running", MAX_RUNNING.to_string(), "attempts that one executor runs at once"),
            ("request body limit", REQUEST_BODY_LIMIT.to_string(), "bytes of a request body that `idem-http` reads"),
            ("response limit", RESPONSE_LIMIT.to_string(), "bytes of meta and body that a store keeps"),
            (
                "pool size",
                POOL_SIZE.to_string(),
                "connections of a store's own pool (SQLite: readers beside the one writer)",
            ),
            ("purge every", format!("{PURGE_EVERY:?}"), "time between two purges, on average"),
            ("purge batch", PURGE_BATCH.to_string(), "rows that one purge statement touches at the most"),
        ]
    }
}

/// What a caller does about a key that is in flight.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wait {
    /// Answers `InFlight` at once.
    Reject,
    /// Asks again with backoff and jitter, holding no connection in between, for at most this long.
    UpTo(Duration),
}

/// When the caller of an executed attempt gets its answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Confirm {
    /// When the record is stored, or after this long as [`Unconfirmed`](crate::Outcome::Unconfirmed). Nobody is told
    /// what is not recorded.
    Within(Duration),
    /// At once; storing goes on behind. A crash in between leaves an answered request whose key runs again. Work that
    /// has asked for its [`lease`](crate::Attempt::lease) may have ended the record itself: its caller is answered from
    /// what is stored, inside the default confirm budget.
    AtOnce,
}

/// The configuration of an [`Idem`](crate::Idem). `Config::default()` is [`defaults`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Config {
    /// How long a lease runs unless it is renewed.
    pub lease: Span,
    /// How long a finished record is replayed.
    pub retention: Span,
    /// What happens to a record whose effect is not known.
    pub on_uncertain: OnUncertain,
    /// What a caller does about a key in flight.
    pub wait: Wait,
    /// When the caller gets its answer.
    pub confirm: Confirm,
    /// How long an attempt's lease is renewed at the most.
    pub run_ceiling: Duration,
    /// How long a caller waits for a claim's answer.
    pub claim_budget: Duration,
    /// How long a completion is tried again while the store is away.
    pub store_budget: Duration,
    /// How many attempts run at once.
    pub max_running: usize,
    /// Who runs them, for the audit trail. By default host name and process id.
    pub owner: Option<Owner>,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            lease: defaults::LEASE,
            retention: defaults::RETENTION,
            on_uncertain: defaults::ON_UNCERTAIN,
            wait: Wait::Reject,
            confirm: Confirm::Within(defaults::CONFIRM_BUDGET),
            run_ceiling: defaults::RUN_CEILING,
            claim_budget: defaults::CLAIM_BUDGET,
            store_budget: defaults::STORE_BUDGET,
            max_running: defaults::MAX_RUNNING,
            owner: this_process(),
        }
    }
}

fn this_process() -> Option<Owner> {
    let host = gethostname::gethostname().to_string_lossy().into_owned();
    Owner::new(format!("{host}/{}", std::process::id())).ok()
}
