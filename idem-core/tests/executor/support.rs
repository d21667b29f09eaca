//! What the executor's tests share: a store in virtual time, a store that fails on request, and short names.

use std::collections::VecDeque;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use idem_core::{
    Claim, Claimed, Complete, Completed, Config, Error, ErrorKind, Fingerprint, Idem, Identity, Key, MemoryStore,
    Operation, Outcome, Purged, Record, Release, Released, Renew, Renewed, Request, Scope, Span, Store, StoreTime,
};
use tokio::sync::Semaphore;
use tokio::time::Instant;

/// A memory store whose clock is the test's virtual one.
pub(crate) fn virtual_store() -> Arc<MemoryStore> {
    let start = Instant::now();
    Arc::new(MemoryStore::with_clock(move || {
        StoreTime::from_micros(1_700_000_000_000_000 + u64::try_from(start.elapsed().as_micros()).unwrap())
    }))
}

pub(crate) fn idem(store: &Arc<MemoryStore>) -> Idem {
    Idem::new(Arc::clone(store) as Arc<dyn Store>)
}

pub(crate) fn configured(store: Arc<dyn Store>, change: impl FnOnce(&mut Config)) -> Idem {
    let mut config = Config::default();
    change(&mut config);
    Idem::with_config(store, config)
}

pub(crate) fn identity(key: &str) -> Identity {
    Identity::new(Scope::global(), Key::new(key).unwrap())
}

pub(crate) fn request_of(key: &str, body: &str) -> Request {
    let operation = Operation::new("POST /payments").unwrap();
    let fingerprint = Fingerprint::of(&operation).field("body", body.as_bytes()).finish();
    Request::new(identity(key), operation, fingerprint)
}

pub(crate) fn request(key: &str) -> Request {
    request_of(key, "{}")
}

pub(crate) fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

pub(crate) fn span(secs: u64) -> Span {
    Span::try_from(Duration::from_secs(secs)).unwrap()
}

pub(crate) type Text = Outcome<String, String>;

/// Counts how often the work ran, and does nothing else.
#[derive(Clone, Default)]
pub(crate) struct Effects(Arc<AtomicU32>);

impl Effects {
    pub(crate) fn happen(&self) -> u32 {
        self.0.fetch_add(1, Ordering::SeqCst) + 1
    }

    pub(crate) fn count(&self) -> u32 {
        self.0.load(Ordering::SeqCst)
    }

    /// Runs work that takes effect and answers "paid N".
    pub(crate) async fn pay(&self, idem: &Idem, request: Request) -> Result<Text, Error> {
        let effects = self.clone();
        idem.run(request, |_| async move { Ok(format!("paid {}", effects.happen())) }).await
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Op {
    Claim,
    Renew,
    Complete,
    Release,
    Get,
    Purge,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Trouble {
    /// The operation goes through untroubled.
    None,
    /// Nothing is applied, and the caller is told so.
    Refuse,
    /// Nothing is applied, and trying again does not help.
    RefuseForGood,
    /// It is applied, and the caller is told that nobody knows.
    LoseReply,
    /// It is applied once the gate opens.
    Hang,
    Panic,
}

/// A store with a queue of troubles for each operation; with an empty queue all is well.
pub(crate) struct Troubled {
    inner: Arc<MemoryStore>,
    queue: Mutex<VecDeque<(Op, Trouble)>>,
    calls: Mutex<Vec<Op>>,
    /// Lets one hanging operation go on for each permit.
    pub(crate) gate: Semaphore,
}

impl Troubled {
    pub(crate) fn new(inner: &Arc<MemoryStore>, troubles: impl IntoIterator<Item = (Op, Trouble)>) -> Arc<Troubled> {
        Arc::new(Troubled {
            inner: Arc::clone(inner),
            queue: Mutex::new(troubles.into_iter().collect()),
            calls: Mutex::default(),
            gate: Semaphore::new(0),
        })
    }

    /// From now on all is well.
    pub(crate) fn heal(&self) {
        self.queue.lock().unwrap().clear();
    }

    pub(crate) fn calls(&self, op: Op) -> usize {
        self.calls.lock().unwrap().iter().filter(|called| **called == op).count()
    }

    async fn through<T>(&self, op: Op, apply: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        self.calls.lock().unwrap().push(op);
        let trouble = {
            let mut queue = self.queue.lock().unwrap();
            let next = queue.iter().position(|(when, _)| *when == op).and_then(|at| queue.remove(at));
            next.map_or(Trouble::None, |(_, trouble)| trouble)
        };
        match trouble {
            Trouble::None => apply.await,
            Trouble::Refuse => Err(Error::new(ErrorKind::Unavailable, "refused by the test")),
            Trouble::RefuseForGood => Err(Error::new(ErrorKind::Bug, "refused by the test")),
            Trouble::LoseReply => {
                apply.await?;
                Err(Error::new(ErrorKind::Indeterminate, "reply lost by the test"))
            }
            Trouble::Hang => {
                self.gate.acquire().await.unwrap().forget();
                apply.await
            }
            Trouble::Panic => panic!("the test's store panics"),
        }
    }
}

#[async_trait]
impl Store for Troubled {
    async fn claim(&self, claim: &Claim) -> Result<Claimed, Error> {
        self.through(Op::Claim, self.inner.claim(claim)).await
    }

    async fn renew(&self, renew: &Renew) -> Result<Renewed, Error> {
        self.through(Op::Renew, self.inner.renew(renew)).await
    }

    async fn complete(&self, complete: &Complete) -> Result<Completed, Error> {
        self.through(Op::Complete, self.inner.complete(complete)).await
    }

    async fn release(&self, release: &Release) -> Result<Released, Error> {
        self.through(Op::Release, self.inner.release(release)).await
    }

    async fn get(&self, identity: &Identity) -> Result<Option<Record>, Error> {
        self.through(Op::Get, self.inner.get(identity)).await
    }

    async fn purge(&self, limit: NonZeroU32) -> Result<Purged, Error> {
        self.through(Op::Purge, self.inner.purge(limit)).await
    }
}

/// Lets every other task run until all of them wait for something.
pub(crate) async fn settle_down() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}
