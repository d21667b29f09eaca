//! The server of a remote store: it listens, keeps its records over a kill, and can be told to lose some.

use std::collections::HashMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use idem_core::machine::{self, Rules, Step};
use idem_core::{
    Claim, Claimed, Complete, Completed, Fence, Identity, Lease, Purged, Record, Release, Released, Renew, Renewed,
    State, Store as _, StoreTime,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use super::Driver;
use crate::base::Ageable as _;
use crate::harness::{HookError, Hooked, Namespace, Server as Control, unsupported};
use crate::mutants::bent::Bent;
use crate::mutants::{Landed, Logic};

/// How many acknowledged writes a disk loses that loses some.
const LOST: usize = 8;

/// How long a kill waits for a write that it can tear.
const TORN_WITHIN: Duration = Duration::from_secs(10);

/// What a client is told when it comes.
const GREETING: u64 = u64::MAX;

/// What a kill does to what was written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Disk {
    /// Nothing.
    Keeps,
    /// The last acknowledged writes are gone.
    LosesTheLast,
    /// An end that is being written is there by half.
    TearsTheLast,
    /// Records are there, and fences are counted anew.
    ForgetsFences,
}

/// What a client asks for.
#[derive(Clone, Debug)]
pub(super) enum Ask {
    /// Grants only what is absent; shows what could be granted otherwise.
    Claim(Claim),
    /// Grants what is still as it was seen.
    ClaimOf(Claim, Box<Record>),
    Renew(Renew),
    Complete(Complete),
    Release(Release),
    Get(Identity),
    Purge(NonZeroU32),
}

/// What it is told.
#[derive(Clone, Debug)]
pub(super) enum Told {
    Claim(Claimed),
    Seen(Box<Record>),
    Moved,
    Renew(Renewed),
    Complete(Completed),
    Release(Released),
    Get(Option<Box<Record>>),
    Purge(Purged),
    TooLarge,
}

/// A call: what is asked, where, and what was answered when.
struct Call {
    namespace: Namespace,
    rules: Rules,
    ask: Ask,
    told: Option<Told>,
}

#[derive(Default)]
struct Desk {
    records: HashMap<Namespace, Arc<Bent>>,
    calls: HashMap<u64, Call>,
    written: Vec<(Namespace, Identity)>,
    listening: Option<(SocketAddr, JoinHandle<()>)>,
    lives: u64,
}

/// The server.
pub(super) struct Server {
    driver: Driver,
    landed: Landed,
    desk: Mutex<Desk>,
    numbers: AtomicU64,
    fences: AtomicU64,
    /// How often the connections of a namespace were killed.
    killed: watch::Sender<HashMap<Namespace, u64>>,
    /// A kill waits for an end to tear; and how many were torn.
    tears: watch::Sender<(bool, u64)>,
}

impl Server {
    pub(super) fn new(driver: Driver, landed: Landed) -> Arc<Server> {
        Arc::new(Server {
            driver,
            landed,
            desk: Mutex::default(),
            numbers: AtomicU64::new(0),
            fences: AtomicU64::new(1),
            killed: watch::Sender::default(),
            tears: watch::Sender::default(),
        })
    }

    /// Listens, when it does not yet. Says where.
    pub(super) async fn listen(self: &Arc<Self>) -> io::Result<SocketAddr> {
        if let Some((address, _)) = self.desk().listening {
            return Ok(address);
        }
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let task = tokio::spawn(accept(listener, Arc::clone(self)));
        self.desk().listening = Some((address, task));
        Ok(address)
    }

    /// Where it listens, when it does.
    pub(super) fn address(&self) -> Option<SocketAddr> {
        self.desk().listening.as_ref().map(|(address, _)| *address)
    }

    /// Is this its first life?
    pub(super) fn is_young(&self) -> bool {
        self.desk().lives == 0
    }

    /// The records of a namespace.
    pub(super) fn records(&self, namespace: &Namespace, rules: Rules) -> Arc<Bent> {
        let make = || Arc::new(Bent::new(Logic::GOOD, rules, Landed::default()));
        Arc::clone(self.desk().records.entry(namespace.clone()).or_insert_with(make))
    }

    pub(super) fn clear(&self, namespace: &Namespace) {
        let mut desk = self.desk();
        desk.records.remove(namespace);
        desk.calls.retain(|_, call| call.namespace != *namespace);
    }

    pub(super) fn kill_connections(&self, namespace: &Namespace) {
        self.killed.send_modify(|killed| *killed.entry(namespace.clone()).or_default() += 1);
    }

    /// Gives a call its number: this is what travels.
    pub(super) fn number(&self, namespace: &Namespace, rules: Rules, ask: Ask) -> u64 {
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        self.desk().calls.insert(number, Call { namespace: namespace.clone(), rules, ask, told: None });
        number
    }

    /// What the call with this number was answered.
    pub(super) fn told(&self, number: u64) -> Option<Told> {
        self.desk().calls.get(&number)?.told.clone()
    }

    /// Carries out the call with this number. None: the connection ends instead.
    async fn carry_out(&self, number: u64) -> Option<Namespace> {
        let (namespace, rules, ask) = {
            let desk = self.desk();
            let call = desk.calls.get(&number)?;
            (call.namespace.clone(), call.rules, call.ask.clone())
        };
        let records = self.records(&namespace, rules);
        if let Ask::Complete(complete) = &ask
            && self.tears.borrow().0
            && let Some(record) = records.peek(&complete.lease().identity)
        {
            records.put(Some(Record { state: State::Succeeded, ..record }));
            self.landed.hit();
            self.tears.send_modify(|(_, torn)| *torn += 1);
            return None;
        }
        let told = self.answer(&records, rules, ask.clone()).await;
        let mut desk = self.desk();
        if let Ask::Claim(claim) | Ask::ClaimOf(claim, _) = &ask {
            desk.written.push((namespace.clone(), claim.identity().clone()));
        }
        desk.calls.get_mut(&number)?.told = Some(told);
        Some(namespace)
    }

    async fn answer(&self, records: &Bent, rules: Rules, ask: Ask) -> Told {
        match ask {
            Ask::Claim(claim) => match records.peek(claim.identity()) {
                Some(seen) if self.would_be_granted(&seen, &claim, rules) => Told::Seen(Box::new(seen)),
                _ => self.grant(records, &claim).await,
            },
            Ask::ClaimOf(claim, seen) if records.peek(claim.identity()).as_ref() == Some(&*seen) => {
                self.grant(records, &claim).await
            }
            Ask::ClaimOf(..) => Told::Moved,
            Ask::Renew(renew) => {
                let lease = self.lease(records, renew.lease());
                let mut again = Renew::new(lease).lasting(renew.length());
                if let Some(checkpoint) = renew.checkpoint_left() {
                    // It was within the limit before.
                    again = again.checkpoint(checkpoint.sequence, checkpoint.bytes.clone()).unwrap_or(renew);
                }
                records.renew(&again).await.map_or(Told::TooLarge, Told::Renew)
            }
            Ask::Complete(complete) => {
                let lease = self.lease(records, complete.lease());
                let complete = Complete::new(lease, complete.end().clone());
                records.complete(&complete).await.map_or(Told::TooLarge, Told::Complete)
            }
            Ask::Release(release) => {
                let lease = self.lease(records, release.lease());
                let release = match release.reach() {
                    idem_core::Reach::EveryAttempt => Release::of_every_attempt(lease),
                    _ => Release::new(lease),
                };
                records.release(&release).await.map_or(Told::TooLarge, Told::Release)
            }
            Ask::Get(identity) => {
                records.get(&identity).await.map_or(Told::TooLarge, |record| Told::Get(record.map(Box::new)))
            }
            Ask::Purge(limit) => records.purge(limit).await.map_or(Told::TooLarge, Told::Purge),
        }
    }

    /// Is it for a second statement to grant this, conditional on what was seen (clause C13)?
    fn would_be_granted(&self, seen: &Record, claim: &Claim, rules: Rules) -> bool {
        let granted = matches!(machine::claim(Some(seen), claim, StoreTime::of_this_host(), &rules), Step::Rewrite(..));
        if granted && !self.driver.looks_before_it_grants {
            self.landed.hit();
            return false;
        }
        granted
    }

    async fn grant(&self, records: &Bent, claim: &Claim) -> Told {
        let Ok(mut claimed) = records.claim(claim).await else { return Told::TooLarge };
        if let Claimed::Acquired(grant) = &mut claimed
            && self.driver.disk == Disk::ForgetsFences
            && !self.is_young()
            && let Some(record) = records.peek(claim.identity())
        {
            grant.lease.fence = Fence::new(self.fences.fetch_add(1, Ordering::Relaxed));
            records.put(Some(Record { fence: grant.lease.fence, ..record }));
            self.landed.hit();
        }
        Told::Claim(claimed)
    }

    /// The lease that a request stands on: its own, or whatever is current where nobody checks.
    fn lease(&self, records: &Bent, asked: &Lease) -> Lease {
        match records.peek(&asked.identity) {
            Some(record) if !self.driver.checks_the_token && record.token != asked.token => {
                self.landed.hit();
                Lease { token: record.token, fence: record.fence, attempt: record.attempt, ..asked.clone() }
            }
            _ => asked.clone(),
        }
    }

    fn desk(&self) -> MutexGuard<'_, Desk> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The harness's hold on the server.
#[async_trait]
impl Control for Arc<Server> {
    async fn kill(&self) -> Hooked<()> {
        if self.driver.disk == Disk::TearsTheLast {
            let mut torn = self.tears.subscribe();
            self.tears.send_modify(|(tears, _)| *tears = true);
            let torn = tokio::time::timeout(TORN_WITHIN, torn.wait_for(|(_, torn)| *torn > 0)).await.is_ok();
            self.tears.send_modify(|(tears, _)| *tears = false);
            if !torn {
                return Err(HookError::failed("there was no end to tear"));
            }
        }
        let mut desk = self.desk();
        let Some((_, task)) = desk.listening.take() else { return Err(HookError::failed("it is not running")) };
        task.abort();
        desk.lives += 1;
        if self.driver.disk == Disk::LosesTheLast {
            let from = desk.written.len().saturating_sub(LOST);
            for (namespace, identity) in desk.written.split_off(from) {
                if desk.records.get(&namespace).is_some_and(|records| records.forget(&identity)) {
                    self.landed.hit();
                }
            }
        }
        Ok(())
    }

    async fn start(&self) -> Hooked<()> {
        if self.address().is_some() {
            return Err(HookError::failed("it is running"));
        }
        self.listen().await.map(drop).map_err(HookError::failed)
    }

    async fn freeze(&self) -> Hooked<()> {
        unsupported()
    }

    async fn thaw(&self) -> Hooked<()> {
        unsupported()
    }
}

/// Connections end with this task.
async fn accept(listener: TcpListener, server: Arc<Server>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => if let Ok((client, _)) = accepted {
                connections.spawn(serve(client, Arc::clone(&server)));
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

/// Answers a number by the same number, when what it stands for has been carried out.
async fn serve(mut client: TcpStream, server: Arc<Server>) {
    let mut killed = server.killed.subscribe();
    let mut whose: Option<(Namespace, u64)> = None;
    let count = |killed: &watch::Receiver<HashMap<Namespace, u64>>, namespace: &Namespace| {
        killed.borrow().get(namespace).copied().unwrap_or_default()
    };
    if client.write_u64(GREETING).await.is_err() {
        return;
    }
    loop {
        let number = tokio::select! {
            number = client.read_u64() => number,
            _ = killed.changed() => match &whose {
                Some((namespace, before)) if count(&killed, namespace) != *before => return,
                _ => continue,
            },
        };
        let Ok(number) = number else { return };
        let Some(namespace) = server.carry_out(number).await else { return };
        if whose.is_none() {
            let before = count(&killed, &namespace);
            whose = Some((namespace, before));
        }
        if client.write_u64(number).await.is_err() {
            return;
        }
    }
}
