//! The operations of the store: what each sends over one connection, and what the answers mean.
//!
//! Each statement is a transaction of its own. Where one depends on an earlier one, it is conditional on what that one
//! read (clause C13), so nothing is held in between.

use std::future::Future;
use std::num::NonZeroU32;
use std::time::Duration;

use idem_core::machine::{self, Rewrite, Rules, Seen, Step};
use idem_core::{
    Claim, Claimed, Complete, Completed, End, Error, ErrorKind, Fence, Identity, Lease, Purged, Reach, Record,
    Recorded, Release, Released, Renew, Renewed, State, StoreTime,
};
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Row, Value};

use crate::error::{Class, Refusal};
use crate::row::{self, Found, signed, span, state_number, time};
use crate::server::Product;
use crate::sql;

/// How often a claim looks again at a record that changes under it (clause C12).
const LOOKS: usize = 16;

/// When to come back for a key that another transaction holds and whose lease cannot be seen.
pub(crate) const HELD_BY_ANOTHER: Duration = Duration::from_millis(500);

/// What an operation decides with.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) product: Product,
    pub(crate) rules: Rules,
    pub(crate) response_limit: usize,
}

/// What a request that may have been applied means for another try.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Effect {
    /// It changes nothing.
    None,
    /// Repeating it with the same token is safe, and tells.
    Repeatable,
    /// Repeating it would count twice.
    Once,
}

/// One operation on a connection of the store's own.
pub(crate) trait Operation: Clone + Send + Sync + 'static {
    type Answer: Send + 'static;
    const EFFECT: Effect;

    fn run(&self, on: &mut Conn, context: &Context) -> impl Future<Output = Result<Self::Answer, Refusal>> + Send;
}

impl Operation for Claim {
    type Answer = Claimed;
    const EFFECT: Effect = Effect::Repeatable;

    async fn run(&self, on: &mut Conn, context: &Context) -> Result<Claimed, Refusal> {
        for _ in 0..LOOKS {
            let found = match insert(on, self, context.product).await {
                Ok(Inserted::Created(fence)) => return Ok(granted(machine::created(self, born(fence)), fence, self)),
                Ok(Inserted::Found(found)) => Some(*found),
                Ok(Inserted::Exists) => find(on, sql::GET, self.identity()).await?,
                // Somebody holds the row, or the key that it will have. What is committed can be read all the same.
                Err(refusal) if refusal.class == Class::Locked => {
                    match find(on, sql::GET, self.identity()).await? {
                        Some(found) => Some(found),
                        None => return Ok(held_by_another()), // C11
                    }
                }
                Err(refusal) => return Err(refusal),
            };
            let Some(found) = found else { continue }; // C12
            match machine::claim(Some(&found.record), self, found.now, &context.rules) {
                Step::Answer(answer) => return Ok(answer),
                Step::Insert => {}
                Step::Rewrite(how, seen) => match rewrite(on, how, seen, &found, self, &context.rules).await {
                    Ok(Some(fence)) => {
                        return Ok(granted(machine::rewritten(how, &found.record, self, found.now), fence, self));
                    }
                    Ok(None) => {} // It changed since it was read: look again.
                    Err(refusal) if refusal.class == Class::Locked => return Ok(held_by_another()),
                    Err(refusal) => return Err(refusal),
                },
            }
        }
        Err(Refusal::new(Class::Passing("the record kept changing while it was claimed")))
    }
}

impl Operation for Renew {
    type Answer = Renewed;
    const EFFECT: Effect = Effect::Repeatable;

    async fn run(&self, on: &mut Conn, _: &Context) -> Result<Renewed, Refusal> {
        let lease = self.lease();
        let checkpoint = self.checkpoint_left();
        let sequence = Value::from(checkpoint.map(|checkpoint| signed(checkpoint.sequence)));
        let mut params = vec![
            span(self.length()).into(),
            sequence.clone(),
            Value::from(checkpoint.map(|checkpoint| checkpoint.bytes.as_ref())),
            sequence,
        ];
        params.extend(held(lease));
        let changed = execute(on, sql::RENEW, params).await?.rows;
        Ok(if changed == 1 { Renewed::Held } else { Renewed::Lost })
    }
}

impl Operation for Complete {
    type Answer = Completed;
    const EFFECT: Effect = Effect::Repeatable;

    async fn run(&self, on: &mut Conn, context: &Context) -> Result<Completed, Refusal> {
        if execute(on, sql::COMPLETE, completing(self, &context.rules)).await?.rows == 1 {
            return Ok(Completed::Stored);
        }
        let found = find(on, sql::GET, &self.lease().identity).await?;
        Ok(machine::refused_complete(found.as_ref().map(|found| &found.record), self.lease()))
    }
}

impl Operation for Release {
    type Answer = Released;
    const EFFECT: Effect = Effect::Repeatable;

    async fn run(&self, on: &mut Conn, _: &Context) -> Result<Released, Refusal> {
        let mut params = vec![Value::from(self.reach() == Reach::EveryAttempt)];
        params.extend(held(self.lease()));
        if execute(on, sql::RELEASE, params).await?.rows >= 1 {
            return Ok(Released::Released);
        }
        let found = find(on, sql::GET, &self.lease().identity).await?;
        Ok(machine::refused_release(found.as_ref().map(|found| &found.record), self.lease()))
    }
}

impl Operation for Identity {
    type Answer = Option<Record>;
    const EFFECT: Effect = Effect::None;

    async fn run(&self, on: &mut Conn, context: &Context) -> Result<Option<Record>, Refusal> {
        let found = find(on, sql::GET, self).await?;
        Ok(found.and_then(|found| machine::visible(&found.record, found.now, &context.rules)))
    }
}

/// A purge of at most so many rows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Purge(pub(crate) NonZeroU32);

impl Operation for Purge {
    type Answer = Purged;
    const EFFECT: Effect = Effect::Once;

    async fn run(&self, on: &mut Conn, context: &Context) -> Result<Purged, Refusal> {
        let rules = &context.rules;
        let limit = Value::from(self.0.get());
        let quarantine = span(rules.quarantine);
        let after = |more: i64| Value::from(quarantine.saturating_add(more));
        let evidence = rules.evidence.map_or(Value::NULL, |evidence| after(span(evidence)));
        let params = vec![
            after(rules.remember.map_or(0, span)),
            limit.clone(),
            after(0),
            limit.clone(),
            after(0),
            after(0),
            limit.clone(),
            evidence.clone(),
            evidence,
            limit.clone(),
            limit,
        ];
        let deleted = execute(on, sql::PURGE, params).await?.rows;
        let left = u64::from(self.0.get()).saturating_sub(deleted);
        let dropped = match rules.remember {
            Some(_) if left > 0 => execute(on, sql::PURGE_RESPONSES, vec![left.into()]).await?.rows,
            _ => 0,
        };
        Ok(Purged { deleted, dropped })
    }
}

/// What became of an attempt whose COMMIT got no answer: the read waits for a transaction that still holds the record.
#[derive(Clone, Debug)]
pub(crate) struct Resolve(pub(crate) Lease);

impl Operation for Resolve {
    type Answer = Completed;
    const EFFECT: Effect = Effect::None;

    async fn run(&self, on: &mut Conn, _: &Context) -> Result<Completed, Refusal> {
        let found = find(on, sql::LATEST, &self.0.identity).await?;
        Ok(machine::refused_complete(found.as_ref().map(|found| &found.record), &self.0))
    }
}

/// Refuses a response that is over the limit, before anything is sent (clause F7).
pub(crate) fn check_size(recorded: Option<&Recorded>, limit: usize) -> Result<(), Error> {
    let size = recorded.map_or(0, Recorded::size);
    if size > limit {
        let message = format!("the response has {size} bytes, at most {limit} are kept");
        return Err(Error::new(ErrorKind::TooLarge, message));
    }
    Ok(())
}

/// What a statement did.
pub(crate) struct Done {
    pub(crate) rows: u64,
    insert_id: Option<u64>,
}

pub(crate) async fn execute<Q: Queryable>(on: &mut Q, statement: &str, params: Vec<Value>) -> Result<Done, Refusal> {
    let result = on.exec_iter(statement, params).await?;
    let done = Done { rows: result.affected_rows(), insert_id: result.last_insert_id() };
    result.drop_result().await?;
    Ok(done)
}

pub(crate) async fn find<Q: Queryable>(
    on: &mut Q,
    statement: &str,
    identity: &Identity,
) -> Result<Option<Found>, Refusal> {
    let row: Option<Row> = on.exec_first(statement, named(identity).to_vec()).await?;
    row.map(|row| row::decode(identity, row)).transpose()
}

/// The parameters of `claim`.
pub(crate) fn creating(claim: &Claim) -> Vec<Value> {
    let [scope, key] = named(claim.identity());
    vec![
        scope,
        key,
        claim.operation().as_str().into(),
        claim.fingerprint().as_bytes().into(),
        row::take_over_within(claim.on_uncertain()).into(),
        claim.token().as_bytes().into(),
        owner(claim),
        (!claim.announces()).then_some(1_u32).into(),
        span(claim.lease()).into(),
        span(claim.retention()).into(),
    ]
}

/// The parameters of the statement that carries out a rewrite.
pub(crate) fn rewriting(how: Rewrite, seen: Seen, record: &Record, claim: &Claim, rules: &Rules) -> Vec<Value> {
    let mut params = match how {
        Rewrite::NewLife => vec![
            claim.operation().as_str().into(),
            claim.fingerprint().as_bytes().into(),
            row::take_over_within(claim.on_uncertain()).into(),
            claim.token().as_bytes().into(),
            owner(claim),
            (!claim.announces()).then_some(1_u32).into(),
            span(claim.lease()).into(),
            span(claim.retention()).into(),
        ],
        Rewrite::TakeOver => vec![
            claim.token().as_bytes().into(),
            owner(claim),
            claim.announces().into(),
            span(claim.lease()).into(),
            idem_core::encode_history(&machine::remembering_last(record)).into(),
        ],
        Rewrite::Repeat => vec![span(claim.lease()).into()],
    };
    params.extend(named(claim.identity()));
    params.extend([
        signed(seen.fence.get()).into(),
        seen.token.as_bytes().into(),
        state_number(seen.state).into(),
        time(seen.lease_until).into(),
    ]);
    match how {
        Rewrite::NewLife => params.push(rules.remember.map_or(0, span).into()),
        Rewrite::TakeOver => params.extend([
            record.checkpoint.as_ref().map(|checkpoint| signed(checkpoint.sequence)).into(),
            claim.is_resolving().into(),
            row::take_over_within(claim.on_uncertain()).into(),
        ]),
        Rewrite::Repeat => {}
    }
    params
}

/// The parameters of `complete`.
pub(crate) fn completing(complete: &Complete, rules: &Rules) -> Vec<Value> {
    let state = match complete.end() {
        End::Succeeded(_) => State::Succeeded,
        End::Failed(_) => State::Failed,
        End::Unknown(_) => State::Unknown,
    };
    let recorded = complete.end().recorded();
    let response = match recorded {
        Some(Recorded::Response(response)) => Some(response),
        _ => None,
    };
    let keep = Value::from(recorded.is_none());
    let mut params = vec![
        keep.clone(),
        recorded.map(Recorded::code).into(),
        keep.clone(),
        response.map(|response| response.meta.as_ref()).into(),
        keep,
        response.and_then(|response| response.body.as_deref()).into(),
        (state != State::Unknown).then(|| span(rules.floor)).into(),
        state_number(state).into(),
    ];
    params.extend(held(complete.lease()));
    params
}

enum Inserted {
    Created(Fence),
    Exists,
    Found(Box<Found>),
}

async fn insert(on: &mut Conn, claim: &Claim, product: Product) -> Result<Inserted, Refusal> {
    match product {
        Product::MySql => match execute(on, sql::CLAIM, creating(claim)).await {
            Ok(done) => fence(&done).map(Inserted::Created),
            Err(refusal) if refusal.class == Class::Duplicate => Ok(Inserted::Exists),
            Err(refusal) => Err(refusal),
        },
        Product::MariaDb => {
            let row: Option<Row> = on.exec_first(sql::MARIADB_CLAIM, creating(claim)).await?;
            let row = row.ok_or_else(Refusal::unreadable)?;
            let found = row::decode(claim.identity(), row)?;
            let record = &found.record;
            let created = record.token == claim.token()
                && record.state == State::Processing
                && record.created_at == found.now
                && record.fence.get() == found.now.as_micros();
            Ok(if created { Inserted::Created(record.fence) } else { Inserted::Found(Box::new(found)) })
        }
    }
}

async fn rewrite(
    on: &mut Conn,
    how: Rewrite,
    seen: Seen,
    found: &Found,
    claim: &Claim,
    rules: &Rules,
) -> Result<Option<Fence>, Refusal> {
    let statement = match how {
        Rewrite::NewLife => sql::NEW_LIFE,
        Rewrite::TakeOver => sql::TAKE_OVER,
        Rewrite::Repeat => sql::REPEAT,
    };
    let done = execute(on, statement, rewriting(how, seen, &found.record, claim, rules)).await?;
    match (done.rows, how) {
        (0, _) => Ok(None),
        (_, Rewrite::Repeat) => Ok(Some(seen.fence)),
        (_, Rewrite::NewLife | Rewrite::TakeOver) => fence(&done).map(Some),
    }
}

/// The fence that the statement gave, as the server tells it with the statement's own reply.
fn fence(done: &Done) -> Result<Fence, Refusal> {
    done.insert_id.map(Fence::new).ok_or(Refusal::new(Class::Unsupported(
        "the server does not tell LAST_INSERT_ID(expr) with its reply; a proxy in between may not pass it on",
    )))
}

/// A record's first fence is the time of its creation.
fn born(fence: Fence) -> StoreTime {
    StoreTime::from_micros(fence.get())
}

/// The grant; its fence is the one that the row has.
fn granted(record: Record, fence: Fence, claim: &Claim) -> Claimed {
    let mut grant = machine::grant(&record, claim);
    grant.lease.fence = fence;
    Claimed::Acquired(grant)
}

fn held_by_another() -> Claimed {
    Claimed::InFlight { retry_after: HELD_BY_ANOTHER }
}

fn named(identity: &Identity) -> [Value; 2] {
    [identity.scope.as_str().into(), identity.key.as_str().into()]
}

/// What every change after a claim is conditional on (clause X1).
fn held(lease: &Lease) -> [Value; 4] {
    let [scope, key] = named(&lease.identity);
    [scope, key, lease.token.as_bytes().into(), signed(lease.fence.get()).into()]
}

fn owner(claim: &Claim) -> Value {
    claim.owner().map(idem_core::Owner::as_str).into()
}
