//! A store with one record in a known state.

use std::num::NonZeroU32;

use idem_core::machine::Rules;
use idem_core::{
    Claim, ClaimBuilder, Claimed, Complete, Completed, End, Fingerprint, Grant, Identity, Key, Lease, MemoryStore,
    OnUncertain, Operation, Purged, Record, Recorded, Release, Released, Renew, Renewed, Response, Scope, Span, Store,
    Token,
};

pub(crate) const LEASE: u64 = 10;
pub(crate) const RETENTION: u64 = 100;
pub(crate) const FLOOR: u64 = 20;
pub(crate) const REMEMBER: u64 = 50;
pub(crate) const EVIDENCE: u64 = 200;
pub(crate) const QUARANTINE: u64 = 30;
pub(crate) const WITHIN: u64 = 60;

/// Take over as long as the record is younger than [`WITHIN`].
pub(crate) const TAKE_OVER: OnUncertain = OnUncertain::TakeOver { within: Span::saturating_secs(WITHIN) };

/// A store, and the one identity that is asked about.
pub(crate) struct Bench {
    pub(crate) store: MemoryStore,
    pub(crate) identity: Identity,
}

/// What the bench's record is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Is {
    Absent,
    Running,
    Lapsed,
    Unknown,
    Succeeded,
    Failed,
    Released,
    OverAge,
    Spent,
}

pub(crate) const REQUEST: u8 = 1;
pub(crate) const OTHER_REQUEST: u8 = 2;
/// The token of the first claim; later claims take others.
pub(crate) const FIRST: u8 = 1;

impl Bench {
    pub(crate) fn new() -> Bench {
        Bench::with(None)
    }

    /// Remembers finished records past their retention.
    pub(crate) fn remembering() -> Bench {
        Bench::with(Some(Span::saturating_secs(REMEMBER)))
    }

    fn with(remember: Option<Span>) -> Bench {
        let rules = Rules {
            floor: Span::saturating_secs(FLOOR),
            remember,
            evidence: Some(Span::saturating_secs(EVIDENCE)),
            quarantine: Span::saturating_secs(QUARANTINE),
        };
        let identity = Identity::new(Scope::global(), Key::new("key").unwrap());
        Bench { store: MemoryStore::with_rules(rules), identity }
    }

    /// A bench whose record is this, and the lease of its first attempt when there was one.
    pub(crate) async fn that_is(is: Is, on_uncertain: OnUncertain) -> (Bench, Option<Lease>) {
        let bench = if is == Is::Spent { Bench::remembering() } else { Bench::new() };
        if is == Is::Absent {
            return (bench, None);
        }
        let lease = bench.acquire(bench.asking(FIRST).on_uncertain(on_uncertain)).await.lease;
        if is != Is::Running && is != Is::Released {
            assert_eq!(bench.renew(&lease).await, Renewed::Held); // so that it began
        }
        match is {
            Is::Absent | Is::Running => {}
            Is::Lapsed => bench.age(LEASE),
            Is::Unknown => assert_eq!(bench.complete(&lease, unknown(500)).await, Completed::Stored),
            Is::Failed => assert_eq!(bench.complete(&lease, failed(402)).await, Completed::Stored),
            Is::Succeeded | Is::OverAge | Is::Spent => {
                assert_eq!(bench.complete(&lease, succeeded(200)).await, Completed::Stored);
            }
            Is::Released => assert_eq!(bench.release(&lease).await, Released::Released),
        }
        if matches!(is, Is::OverAge | Is::Spent) {
            bench.age(RETENTION);
        }
        (bench, Some(lease))
    }

    /// A claim with this token, otherwise like every other.
    pub(crate) fn asking(&self, token: u8) -> ClaimBuilder {
        self.asking_for(REQUEST, token)
    }

    pub(crate) fn asking_for(&self, request: u8, token: u8) -> ClaimBuilder {
        let fingerprint = Fingerprint::from_bytes([request; 32]);
        Claim::builder(self.identity.clone(), Operation::new("pay").unwrap(), fingerprint)
            .token(Token::from_bytes([token; 16]))
            .lease(Span::saturating_secs(LEASE))
            .retention(Span::saturating_secs(RETENTION))
            .on_uncertain(TAKE_OVER)
    }

    pub(crate) async fn claim(&self, claim: ClaimBuilder) -> Claimed {
        self.store.claim(&claim.build().unwrap()).await.unwrap()
    }

    /// Claims, and is granted.
    pub(crate) async fn acquire(&self, claim: ClaimBuilder) -> Grant {
        match self.claim(claim).await {
            Claimed::Acquired(grant) => grant,
            other => panic!("not acquired: {other:?}"),
        }
    }

    pub(crate) async fn renew(&self, lease: &Lease) -> Renewed {
        self.store.renew(&Renew::new(lease.clone())).await.unwrap()
    }

    pub(crate) async fn renew_leaving(&self, lease: &Lease, sequence: u64) -> Renewed {
        let renew = Renew::new(lease.clone()).checkpoint(sequence, sequence.to_string()).unwrap();
        self.store.renew(&renew).await.unwrap()
    }

    pub(crate) async fn complete(&self, lease: &Lease, end: End) -> Completed {
        self.store.complete(&Complete::new(lease.clone(), end)).await.unwrap()
    }

    pub(crate) async fn release(&self, lease: &Lease) -> Released {
        self.store.release(&Release::new(lease.clone())).await.unwrap()
    }

    pub(crate) async fn get(&self) -> Option<Record> {
        self.store.get(&self.identity).await.unwrap()
    }

    pub(crate) async fn purge(&self) -> Purged {
        self.store.purge(NonZeroU32::MAX).await.unwrap()
    }

    /// Makes the record older.
    pub(crate) fn age(&self, seconds: u64) {
        assert!(self.store.age(&self.identity, Span::saturating_secs(seconds)));
    }

    /// The row as it is.
    pub(crate) fn row(&self) -> Option<Record> {
        self.store.peek(&self.identity)
    }
}

pub(crate) fn response(code: u16) -> Recorded {
    Response::new(code).with_body(vec![0, 0xff]).into()
}

pub(crate) fn succeeded(code: u16) -> End {
    End::Succeeded(response(code))
}

pub(crate) fn failed(code: u16) -> End {
    End::Failed(response(code))
}

pub(crate) fn unknown(code: u16) -> End {
    End::Unknown(Some(response(code)))
}
