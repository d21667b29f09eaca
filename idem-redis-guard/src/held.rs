//! What this process remembers between a claim and its end.

use std::time::Duration;

use idem_core::{Fingerprint, Lease, StoreTime, Token};
use moka::future::Cache;

/// What a grant's end needs, so that its copy can be made without asking the database again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    pub(crate) fingerprint: Fingerprint,
    /// Had this claim created the record, the database would keep it replayable at least until then.
    pub(crate) kept_until: StoreTime,
}

/// The claims of this process whose attempts have not ended, as many as fit. For one that is forgotten the record is read.
#[derive(Clone)]
pub(crate) struct Held(Cache<Token, Asked>);

impl Held {
    pub(crate) fn new(at_most: u64) -> Held {
        // Those that nobody ends go with time; an attempt seldom takes a day.
        Held(Cache::builder().max_capacity(at_most).time_to_idle(Duration::from_secs(86_400)).build())
    }

    /// Of a claim that is sent again (clause C3), what was known of the first stays: the record may be that old.
    pub(crate) async fn remember(&self, token: Token, asked: Asked) {
        self.0.entry(token).or_insert(asked).await;
    }

    pub(crate) async fn fingerprint(&self, lease: &Lease) -> Option<Fingerprint> {
        Some(self.0.get(&lease.token).await?.fingerprint)
    }

    pub(crate) async fn forget(&self, token: Token) {
        self.0.invalidate(&token).await;
    }

    pub(crate) fn clear(&self) {
        self.0.invalidate_all();
    }

    /// None too when an earlier attempt created the record (clause C15).
    pub(crate) async fn take(&self, lease: &Lease) -> Option<Asked> {
        self.0.remove(&lease.token).await.filter(|_| lease.attempt == 1)
    }
}
