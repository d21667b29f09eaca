//! The SQL says what the machine says: random sequences of operations, with time moved in between, run against
//! [`MemoryStore`] and [`PostgresStore`] side by side, and every answer and every record is compared.

#![allow(clippy::expect_used)] // A test fails by panicking.

mod common;

use std::cell::RefCell;
use std::num::NonZeroU32;

use common::*;
use idem_core::machine::Rules;
use idem_core::{
    Claim, Claimed, Complete, End, Fence, HowEnded, Lease, MemoryStore, OnUncertain, Owner, Record, Recorded, Release,
    Renew, Response, Store, StoreTime, Token,
};
use proptest::prelude::*;

/// One step. Numbers choose among the few keys, fingerprints, policies and leases of a sequence.
#[derive(Clone, Debug)]
enum Step {
    Claim {
        key: u8,
        other: bool,
        policy: u8,
        owner: bool,
        resolving: bool,
    },
    /// The last claim of this key once more, with its token.
    ClaimAgain {
        key: u8,
    },
    Renew {
        lease: usize,
        length: u8,
        checkpoint: Option<u8>,
        forged: bool,
    },
    Complete {
        lease: usize,
        end: u8,
        forged: bool,
    },
    Release {
        lease: usize,
        every_attempt: bool,
        forged: bool,
    },
    Age {
        key: u8,
        by: u8,
    },
    Purge {
        limit: u8,
    },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let forged = || prop::bool::weighted(0.1);
    let step = prop_oneof![
        6 => (0..3u8, prop::bool::weighted(0.1), 0..4u8, any::<bool>(), prop::bool::weighted(0.15))
            .prop_map(|(key, other, policy, owner, resolving)| Step::Claim { key, other, policy, owner, resolving }),
        1 => (0..3u8).prop_map(|key| Step::ClaimAgain { key }),
        3 => (any::<usize>(), 0..3u8, prop::option::of(0..4u8), forged())
            .prop_map(|(lease, length, checkpoint, forged)| Step::Renew { lease, length, checkpoint, forged }),
        3 => (any::<usize>(), 0..6u8, forged()).prop_map(|(lease, end, forged)| Step::Complete { lease, end, forged }),
        2 => (any::<usize>(), prop::bool::weighted(0.2), forged())
            .prop_map(|(lease, every_attempt, forged)| Step::Release { lease, every_attempt, forged }),
        5 => (0..3u8, 0..6u8).prop_map(|(key, by)| Step::Age { key, by }),
        2 => (1..4u8).prop_map(|limit| Step::Purge { limit }),
    ];
    prop::collection::vec(step, 1..60)
}

/// Every duration is a different count of thousands of seconds, so that no decision hangs on the moment between the
/// two stores' readings of the clock.
fn rules(kind: u8) -> Rules {
    Rules {
        floor: secs(3_000),
        remember: kind.is_multiple_of(2).then_some(secs(40_000)),
        evidence: (kind < 2).then_some(secs(90_000)),
        quarantine: secs(7_000),
    }
}

const AGES: [u64; 6] = [500, 2_300, 6_100, 11_700, 50_900, 110_300];

/// Both stores, and what the sequence has been given so far. A lease is a pair: the two stores' fences differ.
struct Pair {
    memory: MemoryStore,
    postgres: Fixture,
    leases: Vec<(Lease, Lease)>,
    claims: [Option<Claim>; 3],
}

impl Pair {
    async fn run(&mut self, step: Step) -> Result<(), TestCaseError> {
        match step {
            Step::Claim { key, other, policy, owner, resolving } => {
                let policy = match policy {
                    0 => OnUncertain::Hold,
                    1 => OnUncertain::TakeOver { within: secs(8_000) },
                    _ => OnUncertain::TakeOver { within: secs(60_000) },
                };
                let body = if other { "b" } else { "a" };
                let mut claim = Claim::builder(identity(&key.to_string()), operation(), fingerprint(body))
                    .on_uncertain(policy)
                    .lease(secs(1_000))
                    .retention(secs(20_000));
                if owner {
                    claim = claim.owner(Owner::new("host/1").expect("valid"));
                }
                if resolving {
                    claim = claim.resolving();
                }
                self.claim(key, claim.build().expect("valid")).await?;
            }
            Step::ClaimAgain { key } => {
                if let Some(claim) = self.claims[usize::from(key)].clone() {
                    self.claim(key, claim).await?;
                }
            }
            Step::Renew { lease, length, checkpoint, forged } => {
                let Some((memory, postgres)) = self.lease(lease, forged) else { return Ok(()) };
                let renew = |lease| {
                    let renew = Renew::new(lease).lasting(secs([1_000, 1_900, 12_500][usize::from(length)]));
                    match checkpoint {
                        Some(number) => renew.checkpoint(number.into(), vec![number; 3]).expect("valid"),
                        None => renew,
                    }
                };
                let (a, b) =
                    (self.memory.renew(&renew(memory)).await, self.postgres.store.renew(&renew(postgres)).await);
                prop_assert_eq!(a.expect("no error"), b.expect("no error"));
            }
            Step::Complete { lease, end, forged } => {
                let Some((memory, postgres)) = self.lease(lease, forged) else { return Ok(()) };
                let full = Recorded::from(Response::new(200).with_meta("m").with_body(vec![0, 0xff]));
                let end = match end {
                    0 => End::Succeeded(full),
                    1 => End::Failed(Response::new(402).into()),
                    2 => End::Unknown(None),
                    3 => End::Unknown(Some(full)),
                    4 => End::Succeeded(Recorded::Tombstone { code: 201 }),
                    _ => End::Unknown(Some(Recorded::Tombstone { code: 500 })),
                };
                let a = self.memory.complete(&Complete::new(memory, end.clone())).await;
                let b = self.postgres.store.complete(&Complete::new(postgres, end)).await;
                prop_assert_eq!(a.expect("no error"), b.expect("no error"));
            }
            Step::Release { lease, every_attempt, forged } => {
                let Some((memory, postgres)) = self.lease(lease, forged) else { return Ok(()) };
                let release =
                    |lease| if every_attempt { Release::of_every_attempt(lease) } else { Release::new(lease) };
                let (a, b) = (
                    self.memory.release(&release(memory)).await,
                    self.postgres.store.release(&release(postgres)).await,
                );
                prop_assert_eq!(a.expect("no error"), b.expect("no error"));
            }
            Step::Age { key, by } => {
                let identity = identity(&key.to_string());
                let by = secs(AGES[usize::from(by)]);
                if self.memory.age(&identity, by) {
                    self.postgres.age(&identity, by).await;
                }
            }
            Step::Purge { limit } => {
                // Which rows a limit leaves is each store's own choice; two calls of a store without one are alike.
                let limit = NonZeroU32::new(u32::from(limit)).expect("above 0");
                let all = NonZeroU32::MAX;
                let some = self.postgres.store.purge(limit).await.expect("no error");
                prop_assert!(some.rows() <= u64::from(limit.get()));
                let rest = self.postgres.store.purge(all).await.expect("no error");
                let memory = self.memory.purge(all).await.expect("no error");
                prop_assert_eq!(
                    (memory.deleted, memory.dropped),
                    (some.deleted + rest.deleted, some.dropped + rest.dropped)
                );
            }
        }
        self.compare().await
    }

    async fn claim(&mut self, key: u8, claim: Claim) -> Result<(), TestCaseError> {
        let a = self.memory.claim(&claim).await.expect("no error");
        let b = self.postgres.store.claim(&claim).await.expect("no error");
        self.claims[usize::from(key)] = Some(claim);
        if let (Claimed::Acquired(a), Claimed::Acquired(b)) = (&a, &b) {
            self.leases.push((a.lease.clone(), b.lease.clone()));
        }
        prop_assert_eq!(answer(a), answer(b));
        Ok(())
    }

    fn lease(&self, number: usize, forged: bool) -> Option<(Lease, Lease)> {
        let (mut memory, mut postgres) = self.leases.get(number.checked_rem(self.leases.len())?)?.clone();
        if forged {
            let token = Token::random();
            (memory.token, postgres.token) = (token, token);
        }
        Some((memory, postgres))
    }

    async fn compare(&self) -> Result<(), TestCaseError> {
        for key in 0..3 {
            let identity = identity(&key.to_string());
            let a = self.memory.get(&identity).await.expect("no error");
            let b = self.postgres.get(&identity).await;
            if let (Some(a), Some(b)) = (&a, &b) {
                for (a, b) in times(a).into_iter().zip(times(b)) {
                    prop_assert_eq!(a.is_some(), b.is_some());
                    if let (Some(a), Some(b)) = (a, b) {
                        let apart = a.since(b).max(b.since(a));
                        prop_assert!(apart < secs(100).as_duration(), "{:?} apart", apart);
                    }
                }
            }
            prop_assert_eq!(a.map(without_times), b.map(without_times));
        }
        Ok(())
    }
}

fn times(record: &Record) -> Vec<Option<StoreTime>> {
    let mut times = vec![
        Some(record.created_at),
        Some(record.claimed_at),
        Some(record.lease_until),
        record.ended_at,
        Some(record.expires_at),
    ];
    for past in &record.history {
        times.extend([Some(past.claimed_at), Some(past.ended_at)]);
    }
    times
}

const NEVER: StoreTime = StoreTime::from_micros(0);

fn without_times(mut record: Record) -> Record {
    record.fence = Fence::new(0);
    record.created_at = NEVER;
    record.claimed_at = NEVER;
    record.lease_until = NEVER;
    record.ended_at = None;
    record.expires_at = NEVER;
    for past in &mut record.history {
        past.claimed_at = NEVER;
        past.ended_at = NEVER;
    }
    record
}

/// An answer as text, without what the two clocks and the two counts of fences make different.
fn answer(claimed: Claimed) -> String {
    match claimed {
        Claimed::Acquired(mut grant) => {
            grant.lease.fence = Fence::new(0);
            let previous: Option<(u32, Option<Owner>, HowEnded)> =
                grant.previous.map(|past| (past.attempt, past.owner, past.how));
            format!("acquired {:?} {previous:?} {:?}", grant.lease, grant.checkpoint)
        }
        Claimed::InFlight { retry_after } => {
            let coarse = (retry_after.as_secs() + 50) / 100;
            format!("in flight for about {coarse}00 s")
        }
        Claimed::Uncertain(mut uncertain) => {
            uncertain.since = NEVER;
            format!("{uncertain:?}")
        }
        other => format!("{other:?}"),
    }
}

/// Runs a sequence in two empty stores.
async fn check(kind: u8, steps: Vec<Step>, postgres: Fixture) -> (Result<(), TestCaseError>, Fixture) {
    postgres.sql("TRUNCATE idem_records").await;
    let memory = MemoryStore::with_rules(rules(kind));
    let mut pair = Pair { memory, postgres, leases: Vec::new(), claims: [const { None }; 3] };
    for step in steps {
        if let Err(failure) = pair.run(step).await {
            return (Err(failure), pair.postgres);
        }
    }
    (Ok(()), pair.postgres)
}

#[test]
fn sql_and_machine_agree() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("built");
    // A store for each set of rules, which its cases use one after the other.
    let open = |kind| runtime.block_on(Fixture::with(|builder| builder.rules(rules(kind))));
    let stores: RefCell<Vec<Option<Fixture>>> = RefCell::new((0..4).map(open).collect());
    if stores.borrow().iter().any(Option::is_none) {
        return;
    }
    let mut config = ProptestConfig { failure_persistence: None, ..ProptestConfig::default() };
    if std::env::var_os("PROPTEST_CASES").is_none() {
        config.cases = 64;
    }
    let mut runner = proptest::test_runner::TestRunner::new(config);
    let outcome = runner.run(&(0..4u8, steps()), |(kind, steps)| {
        let postgres = stores.borrow_mut()[usize::from(kind)].take().expect("given back");
        let (outcome, postgres) = runtime.block_on(check(kind, steps, postgres));
        stores.borrow_mut()[usize::from(kind)] = Some(postgres);
        outcome
    });
    outcome.unwrap_or_else(|failure| panic!("{failure}"));
}
