//! The client of a remote store: one connection, a deadline, and the same again when an answer was lost.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use idem_core::machine::Rules;
use idem_core::{
    Claim, Claimed, Complete, Completed, Error, ErrorKind, Identity, Lease, Purged, Record, Release, Released, Renew,
    Renewed, Store, Token,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout_at};

use super::server::{Ask, Disk, Server, Told};
use crate::harness::Namespace;
use crate::mutants::Landed;

/// How often a call is sent before its errors are reported.
const TRIES: usize = 4;

/// How often a claim looks again that was overtaken.
const LOOKS: usize = 16;

/// What a driver does, and its server: each of it can be wrong.
#[derive(Clone, Copy)]
pub struct Driver {
    pub(super) lost: Lost,
    pub(super) waiting: Waiting,
    pub(super) connects_again: bool,
    pub(super) knows_other_handles_leases: bool,
    pub(super) looks_before_it_grants: bool,
    pub(super) checks_the_token: bool,
    pub(super) disk: Disk,
}

impl Driver {
    /// A good one.
    pub(super) const GOOD: Driver = Driver {
        lost: Lost::SentAgain,
        waiting: Waiting::UntilTheDeadline,
        connects_again: true,
        knows_other_handles_leases: true,
        looks_before_it_grants: true,
        checks_the_token: true,
        disk: Disk::Keeps,
    };
}

/// What a call is taken for whose answer did not come.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Lost {
    /// It is sent again, with the same token; what is left is Indeterminate.
    SentAgain,
    /// A claim is sent again, with another token.
    SentAgainWithoutTheToken,
    /// It was not applied.
    CalledUnavailable,
    /// It was applied.
    CalledSuccess,
    /// It was refused.
    CalledRefusal,
}

/// How long an answer is waited for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Waiting {
    /// And then the connection is closed.
    UntilTheDeadline,
    /// And then the connection is used again.
    GivesTheConnectionBack,
    /// As long as it takes.
    ForEver,
}

/// Why a call has no answer.
enum Silence {
    /// Nothing was sent.
    NotSent,
    /// It was, perhaps.
    NotAnswered,
}

#[derive(Default)]
struct Pool {
    connection: Option<TcpStream>,
    died: bool,
}

/// A handle.
pub(super) struct Client {
    pub(super) server: Arc<Server>,
    pub(super) address: SocketAddr,
    pub(super) namespace: Namespace,
    pub(super) rules: Rules,
    pub(super) deadline: Duration,
    pub(super) driver: Driver,
    pub(super) landed: Landed,
    pool: Mutex<Pool>,
    granted: std::sync::Mutex<HashSet<Token>>,
}

impl Client {
    pub(super) fn new(server: Arc<Server>, address: SocketAddr, driver: Driver, landed: Landed) -> Client {
        Client {
            server,
            address,
            namespace: Namespace::new("remote", 0, 0),
            rules: Rules::default(),
            deadline: Duration::ZERO,
            driver,
            landed,
            pool: Mutex::default(),
            granted: std::sync::Mutex::default(),
        }
    }

    /// Sends a call until it is answered, or there is no use in it.
    async fn ask(&self, mut ask: Ask) -> Result<Told, Error> {
        let deadline = Instant::now() + self.deadline;
        let mut doubt = ErrorKind::Unavailable;
        for _ in 0..TRIES {
            match self.send(&ask, deadline).await {
                Ok(told) => return Ok(told),
                Err(Silence::NotSent) => {}
                Err(Silence::NotAnswered) => doubt = ErrorKind::Indeterminate,
            }
            if self.driver.lost != Lost::SentAgain
                && doubt == ErrorKind::Indeterminate
                && let Some(taken_for) = self.take_for(&mut ask)
            {
                return taken_for;
            }
            if Instant::now() >= deadline {
                break;
            }
        }
        Err(Error::new(doubt, "the connection broke"))
    }

    /// What a driver makes of an answer that did not come. None: the call is sent again.
    fn take_for(&self, ask: &mut Ask) -> Option<Result<Told, Error>> {
        self.landed.hit();
        let told = match (self.driver.lost, &*ask) {
            (Lost::CalledUnavailable, _) => {
                return Some(Err(Error::new(ErrorKind::Unavailable, "the connection broke")));
            }
            (Lost::CalledSuccess, Ask::Complete(_)) => Told::Complete(Completed::Stored),
            (Lost::CalledSuccess, Ask::Renew(_)) => Told::Renew(Renewed::Held),
            (Lost::CalledSuccess, Ask::Release(_)) => Told::Release(Released::Released),
            (Lost::CalledRefusal, Ask::Claim(_) | Ask::ClaimOf(..)) => {
                Told::Claim(Claimed::InFlight { retry_after: Duration::from_secs(1) })
            }
            (Lost::CalledRefusal, Ask::Complete(_)) => Told::Complete(Completed::Lost),
            (Lost::CalledRefusal, Ask::Renew(_)) => Told::Renew(Renewed::Lost),
            (Lost::CalledRefusal, Ask::Release(_)) => Told::Release(Released::Lost),
            (Lost::SentAgainWithoutTheToken, Ask::Claim(claim)) => {
                let again = Claim::builder(claim.identity().clone(), claim.operation().clone(), *claim.fingerprint())
                    .lease(claim.lease())
                    .retention(claim.retention())
                    .on_uncertain(claim.on_uncertain());
                if let Ok(again) = again.build() {
                    *ask = Ask::Claim(again);
                }
                return None;
            }
            _ => return None,
        };
        Some(Ok(told))
    }

    async fn send(&self, ask: &Ask, deadline: Instant) -> Result<Told, Silence> {
        let promised = deadline;
        let forever = promised + Duration::from_secs(86_400);
        let deadline = if self.driver.waiting == Waiting::ForEver { forever } else { promised };
        let mut pool = timeout_at(deadline, self.pool.lock()).await.map_err(|_| Silence::NotSent)?;
        // Taken out, so that a caller who leaves leaves nothing half read in the pool.
        let mut connection = match pool.connection.take() {
            Some(connection) => connection,
            None if pool.died && !self.driver.connects_again => {
                self.landed.hit();
                return Err(Silence::NotSent);
            }
            None => match timeout_at(deadline, connect(self.address)).await {
                Ok(Ok(connection)) => connection,
                _ => return Err(Silence::NotSent),
            },
        };
        pool.died = true;
        let number = self.server.number(&self.namespace, self.rules, ask.clone());
        let exchange = async {
            connection.write_u64(number).await?;
            let answered = connection.read_u64();
            if self.driver.waiting != Waiting::ForEver {
                return answered.await;
            }
            let mut answered = std::pin::pin!(answered);
            if let Ok(answered) = timeout_at(promised, answered.as_mut()).await {
                return answered;
            }
            self.landed.hit();
            answered.await
        };
        match timeout_at(deadline, exchange).await {
            Ok(Ok(answered)) if answered == number || self.driver.waiting == Waiting::GivesTheConnectionBack => {
                if answered != number {
                    self.landed.hit();
                }
                pool.connection = Some(connection);
                self.server.told(answered).ok_or(Silence::NotAnswered)
            }
            Err(_) if self.driver.waiting == Waiting::GivesTheConnectionBack => {
                pool.connection = Some(connection);
                Err(Silence::NotAnswered)
            }
            Err(_) | Ok(_) => Err(Silence::NotAnswered),
        }
    }

    fn is_known(&self, lease: &Lease) -> bool {
        let granted = self.granted.lock().unwrap_or_else(PoisonError::into_inner);
        let known = self.driver.knows_other_handles_leases || granted.contains(&lease.token);
        if !known {
            self.landed.hit();
        }
        known
    }

    fn note(&self, claimed: Claimed) -> Claimed {
        if let Claimed::Acquired(grant) = &claimed {
            self.granted.lock().unwrap_or_else(PoisonError::into_inner).insert(grant.lease.token);
        }
        claimed
    }
}

/// Connects, and waits to be greeted: until then nothing has been sent.
async fn connect(address: SocketAddr) -> std::io::Result<TcpStream> {
    let mut connection = TcpStream::connect(address).await?;
    connection.read_u64().await?;
    Ok(connection)
}

/// The driver was answered with what nobody asked for.
fn crossed<T>(told: &Told) -> Result<T, Error> {
    match told {
        Told::TooLarge => Err(Error::new(ErrorKind::TooLarge, "the response is too long")),
        _ => Err(Error::new(ErrorKind::Bug, "the answer of another call")),
    }
}

#[async_trait]
impl Store for Client {
    async fn claim(&self, claim: &Claim) -> Result<Claimed, Error> {
        let mut ask = Ask::Claim(claim.clone());
        for _ in 0..LOOKS {
            ask = match self.ask(ask).await? {
                Told::Claim(claimed) => return Ok(self.note(claimed)),
                Told::Seen(seen) => Ask::ClaimOf(claim.clone(), seen),
                Told::Moved => Ask::Claim(claim.clone()),
                other => return crossed(&other),
            };
        }
        Err(Error::new(ErrorKind::Unavailable, "the record never stands still"))
    }

    async fn renew(&self, renew: &Renew) -> Result<Renewed, Error> {
        if !self.is_known(renew.lease()) {
            return Ok(Renewed::Lost);
        }
        match self.ask(Ask::Renew(renew.clone())).await? {
            Told::Renew(renewed) => Ok(renewed),
            other => crossed(&other),
        }
    }

    async fn complete(&self, complete: &Complete) -> Result<Completed, Error> {
        if !self.is_known(complete.lease()) {
            return Ok(Completed::Lost);
        }
        match self.ask(Ask::Complete(complete.clone())).await? {
            Told::Complete(completed) => Ok(completed),
            other => crossed(&other),
        }
    }

    async fn release(&self, release: &Release) -> Result<Released, Error> {
        if !self.is_known(release.lease()) {
            return Ok(Released::Lost);
        }
        match self.ask(Ask::Release(release.clone())).await? {
            Told::Release(released) => Ok(released),
            other => crossed(&other),
        }
    }

    async fn get(&self, identity: &Identity) -> Result<Option<Record>, Error> {
        match self.ask(Ask::Get(identity.clone())).await? {
            Told::Get(record) => Ok(record.map(|record| *record)),
            other => crossed(&other),
        }
    }

    async fn purge(&self, limit: NonZeroU32) -> Result<Purged, Error> {
        match self.ask(Ask::Purge(limit)).await? {
            Told::Purge(purged) => Ok(purged),
            other => crossed(&other),
        }
    }
}
