//! One trial: a rule's own namespace, its handles, and the ways to look at a record.

mod apart;
mod handle;
mod network;
mod pace;
mod record;
mod request;
mod stage;
mod stop;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use idem_core::machine::Rules;
use idem_core::{Identity, Key, Scope, Span};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use tokio::sync::Mutex;

pub use apart::Apart;
pub use handle::Handle;
pub(crate) use handle::name_of;
pub(crate) use network::{DEADLINE, SLACK};
use pace::Pace;
pub(crate) use request::built;
pub use stage::Stage;
pub(crate) use stage::{minus, plus};
pub use stop::{Outcome, Stop};
pub(crate) use stop::{ensure, ensure_eq};

use crate::harness::{
    Aged, Declaration, Guard, Harness, Hook, HookError, Hooked, How, LEAST_RESPONSE_LIMIT, Namespace, OpenError,
};

/// The lease of a trial, unless a rule says otherwise. Minutes, so that a slow machine ends none.
pub const LEASE: Span = Span::saturating_secs(300);
/// How far from a limit a rule looks at both sides of it. A trial that takes longer is inconclusive.
pub const MARGIN: Span = Span::saturating_secs(60);
/// How often a handle is opened again that was refused for now.
const TRIES: u32 = 5;
/// The retention of a trial, unless a rule says otherwise.
pub const RETENTION: Span = Span::saturating_secs(24 * 3_600);

/// What a rule's check works with.
pub struct Trial {
    harness: Arc<dyn Harness>,
    declaration: Declaration,
    namespace: Namespace,
    nonce: u64,
    numbers: AtomicU32,
    random: std::sync::Mutex<StdRng>,
    first: Mutex<Option<Handle>>,
    reader: Mutex<Option<Handle>>,
    rules: std::sync::Mutex<Rules>,
    read_through_the_store: AtomicBool,
    guards: std::sync::Mutex<Vec<Guard>>,
    others: std::sync::Mutex<Vec<Namespace>>,
    round_trips: std::sync::Mutex<BTreeMap<&'static str, u64>>,
    pace: Pace,
}

impl Trial {
    /// A trial of this rule, with random choices from this seed and a namespace that this nonce makes unique.
    pub(crate) fn new(harness: Arc<dyn Harness>, rule: &str, seed: u64, nonce: u64, number: u32) -> Trial {
        // Each rule has its own stream, so that a rule that runs alone chooses as it does among the others.
        let stream = rule.bytes().fold(seed, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3));
        Trial {
            declaration: harness.declare(),
            harness,
            namespace: Namespace::new(rule, nonce, number),
            nonce,
            numbers: AtomicU32::new(0),
            random: std::sync::Mutex::new(StdRng::seed_from_u64(stream)),
            first: Mutex::new(None),
            reader: Mutex::new(None),
            rules: std::sync::Mutex::new(Rules::default()),
            read_through_the_store: AtomicBool::new(false),
            guards: std::sync::Mutex::new(Vec::new()),
            others: std::sync::Mutex::new(Vec::new()),
            round_trips: std::sync::Mutex::default(),
            pace: Pace::begun(),
        }
    }

    /// What the backend declares.
    #[must_use]
    pub fn declaration(&self) -> &Declaration {
        &self.declaration
    }

    /// The backend's harness, for hooks that only one rule needs.
    #[must_use]
    pub fn harness(&self) -> &dyn Harness {
        self.harness.as_ref()
    }

    /// Where this trial keeps its records.
    #[must_use]
    pub fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    /// The first handle, opened as usual when it is first asked for.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub async fn store(&self) -> Result<Handle, Stop> {
        let mut first = self.first.lock().await;
        if let Some(handle) = first.as_ref() {
            return Ok(handle.clone());
        }
        let handle = self.open(&How::usual()).await?;
        *first = Some(handle.clone());
        Ok(handle)
    }

    /// A first handle that keeps things for as long as these rules say. Asked for before [`store`](Self::store), which
    /// gives the same one afterwards.
    ///
    /// # Errors
    /// A gap when the backend cannot keep things for so long.
    pub async fn store_keeping(&self, rules: Rules) -> Result<Handle, Stop> {
        *lock(&self.rules) = rules;
        let handle = self.open(&How::usual().keeping(rules)).await?;
        *self.first.lock().await = Some(handle.clone());
        Ok(handle)
    }

    /// Another handle on the same records.
    ///
    /// # Errors
    /// When the harness gives the first one again: then nothing that is seen through it proves anything.
    pub async fn second(&self) -> Result<Handle, Stop> {
        let first = self.store().await?;
        let rules = *lock(&self.rules);
        let second = self.open(&How::second().keeping(rules)).await?;
        if first.is_same(&second) {
            return Err(Stop::Error("the harness gave the first handle again instead of a second one".into()));
        }
        Ok(second)
    }

    /// A handle, opened so.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub async fn open(&self, how: &How) -> Result<Handle, Stop> {
        self.open_in(&self.namespace, how).await
    }

    /// A handle in another namespace, and that namespace.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub async fn elsewhere(&self) -> Result<(Namespace, Handle), Stop> {
        let namespace = Namespace::new("other", self.nonce, self.numbers.fetch_add(1, Ordering::Relaxed) + 0x1000);
        lock(&self.others).push(namespace.clone());
        let handle = self.open_in(&namespace, &How::usual()).await?;
        Ok((namespace, handle))
    }

    async fn open_in(&self, namespace: &Namespace, how: &How) -> Result<Handle, Stop> {
        let mut tries = 1;
        loop {
            match self.harness.open(namespace, how).await {
                Ok((guard, store)) => {
                    lock(&self.guards).push(guard);
                    return Ok(Handle::new(store));
                }
                // As with every other request: a busy server may not manage it within the deadline.
                Err(OpenError::Refused(error)) if error.is_retryable() && tries < TRIES => tries += 1,
                Err(error) => return Err(Stop::of_opening(error, how.is_usual())),
            }
        }
    }

    /// A fresh identity: another scope and key each time, the same for the same seed.
    ///
    /// # Errors
    /// None that a suite without a defect gives.
    pub fn identity(&self) -> Result<Identity, Stop> {
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        let random: u64 = lock(&self.random).random();
        self.named(&format!("tenant-{}", random >> 48), &format!("key-{number}-{random:x}"))
    }

    /// The identity with this scope and key.
    ///
    /// # Errors
    /// When the suite itself made a text that no store accepts.
    pub fn named(&self, scope: &str, key: &str) -> Result<Identity, Stop> {
        match (Scope::new(scope), Key::new(key)) {
            (Ok(scope), Ok(key)) => Ok(Identity::new(scope, key)),
            (Err(error), _) | (_, Err(error)) => Err(Stop::Error(format!("the suite made a bad identity: {error}"))),
        }
    }

    /// So many random bytes from this trial's seed.
    #[must_use]
    pub fn bytes(&self, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        rand::Rng::fill_bytes(&mut *lock(&self.random), &mut bytes);
        bytes
    }

    /// Makes a record older by this much.
    ///
    /// # Errors
    /// A gap without the hook; an error when there is no such record.
    pub async fn age(&self, identity: &Identity, by: Span) -> Outcome {
        self.age_in(&self.namespace, identity, by).await
    }

    /// The same in another namespace.
    ///
    /// # Errors
    /// As [`age`](Self::age).
    pub async fn age_in(&self, namespace: &Namespace, identity: &Identity, by: Span) -> Outcome {
        self.pace.aged();
        match self.hooked(Hook::Age, self.harness.age(namespace, identity, by).await)? {
            Aged::Older => Ok(()),
            Aged::NoRecord => Err(Stop::Fail("the record that was to become older is not there any more".into())),
        }
    }

    /// The declared response limit.
    ///
    /// # Errors
    /// When it is so small that rules about responses could not be tested.
    pub fn response_limit(&self) -> Result<usize, Stop> {
        let limit = self.declaration.response_limit;
        ensure!(
            limit >= LEAST_RESPONSE_LIMIT,
            "the declared response limit of {limit} bytes is below the least, {LEAST_RESPONSE_LIMIT}"
        );
        Ok(limit)
    }

    /// What a hook answered, or why the trial ends.
    ///
    /// # Errors
    /// A gap where the hook is missing, an error where it failed.
    pub fn hooked<T>(&self, hook: Hook, answer: Hooked<T>) -> Result<T, Stop> {
        answer.map_err(|error| match error {
            HookError::Unsupported => Stop::Gap { hook, what: format!("the harness has no `{hook}`") },
            HookError::Failed(what) => Stop::Error(format!("the hook `{hook}` failed: {what}")),
        })
    }

    /// Drops the first handle and all guards: the next [`store`](Self::store) opens anew.
    pub(crate) async fn drop_handles(&self) {
        self.first.lock().await.take();
        self.reader.lock().await.take();
        let guards = std::mem::take(&mut *lock(&self.guards));
        drop(guards);
    }

    /// Drops handles and guards, then clears the namespaces.
    pub(crate) async fn close(&self) {
        self.drop_handles().await;
        let others = std::mem::take(&mut *lock(&self.others));
        for namespace in others.iter().chain([&self.namespace]) {
            self.harness.clear(namespace).await;
        }
    }

    /// Did the first handle itself show what it had written, because there was no other way to see it?
    pub(crate) fn read_through_the_store(&self) -> bool {
        self.read_through_the_store.load(Ordering::Relaxed)
    }

    /// What was noted of round trips.
    pub(crate) fn round_trips(&self) -> BTreeMap<&'static str, u64> {
        lock(&self.round_trips).clone()
    }

    /// What comes now has nothing to do with the identities before: its times count from here.
    pub(crate) fn goes_on_afresh(&self) {
        self.pace.begin_afresh();
    }

    /// How it ended: inconclusive when it moved time, and took so long itself that time has moved, too.
    pub(crate) fn judged<T>(&self, outcome: Result<T, Stop>) -> Result<T, Stop> {
        match (self.pace.too_slow(), &outcome) {
            (Some(took), Ok(_) | Err(Stop::Fail(_))) => {
                Err(Stop::Inconclusive(format!("the trial took {took:?}, longer than the margin of its times")))
            }
            _ => outcome,
        }
    }
}

/// No rule panics while it holds one of these locks, and a poisoned one still guards a whole value.
fn lock<T>(mutex: &std::sync::Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
