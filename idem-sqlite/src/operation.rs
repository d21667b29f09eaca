//! The operations of the store, each inside a transaction that somebody else opens and commits.
//!
//! They run under `BEGIN IMMEDIATE`, so nothing moves between a SELECT and the UPDATE after it, and a claim decides and
//! writes by one reading of the clock. The statements are conditional all the same: they are those of every SQL store.

use std::num::NonZeroU32;

use idem_core::machine::{self, Rewrite, Rules, Seen, Step};
use idem_core::{
    Claim, Claimed, Complete, Completed, End, Error, ErrorKind, Grant, Purged, Reach, Record, Recorded, Release,
    Released, Renew, Renewed, StoreTime,
};
use rusqlite::{Connection, Params, params};

use crate::clock::Clock;
use crate::error::{self, Moment};
use crate::row::{self, signed, span, state_number, time};
use crate::sql;

/// What an operation decides with.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) clock: Clock,
    pub(crate) rules: Rules,
    pub(crate) response_limit: usize,
}

/// One operation that writes. It can be run again as long as it was not committed.
pub(crate) trait Operation: Send + 'static {
    type Answer: Send + 'static;

    /// Runs it inside the open transaction. Only its last statement writes, so an error leaves nothing half done.
    fn run(&self, connection: &Connection, context: &Context) -> Result<Self::Answer, Error>;
}

impl Operation for Claim {
    type Answer = Claimed;

    fn run(&self, connection: &Connection, context: &Context) -> Result<Claimed, Error> {
        let now = context.clock.now();
        if let Some(fence) = insert(connection, self, now)? {
            return Ok(granted(machine::created(self, now), fence, self));
        }
        let record = find(connection, self)?.ok_or_else(moved)?;
        match machine::claim(Some(&record), self, now, &context.rules) {
            Step::Answer(answer) => Ok(answer),
            Step::Rewrite(how, seen) => {
                let fence = rewrite(connection, how, seen, &record, self, now)?.ok_or_else(moved)?;
                Ok(granted(machine::rewritten(how, &record, self, now), fence, self))
            }
            Step::Insert => Err(moved()),
        }
    }
}

impl Operation for Renew {
    type Answer = Renewed;

    fn run(&self, connection: &Connection, context: &Context) -> Result<Renewed, Error> {
        let lease = self.lease();
        let checkpoint = self.checkpoint_left();
        let changed = execute(
            connection,
            sql::RENEW,
            params![
                lease.identity.scope.as_str(),
                lease.identity.key.as_str(),
                lease.token.as_bytes(),
                signed(lease.fence.get()),
                span(self.length()),
                time(context.clock.now()),
                checkpoint.map(|checkpoint| signed(checkpoint.sequence)),
                checkpoint.map(|checkpoint| checkpoint.bytes.as_ref()),
            ],
        )?;
        Ok(if changed == 1 { Renewed::Held } else { Renewed::Lost })
    }
}

impl Operation for Complete {
    type Answer = Completed;

    fn run(&self, connection: &Connection, context: &Context) -> Result<Completed, Error> {
        let lease = self.lease();
        let state = match self.end() {
            End::Succeeded(_) => idem_core::State::Succeeded,
            End::Failed(_) => idem_core::State::Failed,
            End::Unknown(_) => idem_core::State::Unknown,
        };
        let recorded = self.end().recorded();
        let response = match recorded {
            Some(Recorded::Response(response)) => Some(response),
            _ => None,
        };
        let changed = execute(
            connection,
            sql::COMPLETE,
            params![
                lease.identity.scope.as_str(),
                lease.identity.key.as_str(),
                lease.token.as_bytes(),
                signed(lease.fence.get()),
                state_number(state),
                recorded.map(Recorded::code),
                response.map(|response| response.meta.as_ref()),
                response.and_then(|response| response.body.as_deref()),
                span(context.rules.floor),
                time(context.clock.now()),
            ],
        )?;
        if changed == 1 {
            return Ok(Completed::Stored);
        }
        let record = row::find(connection, &lease.identity).map_err(statement)?;
        Ok(machine::refused_complete(record.as_ref(), lease))
    }
}

impl Operation for Release {
    type Answer = Released;

    fn run(&self, connection: &Connection, context: &Context) -> Result<Released, Error> {
        let lease = self.lease();
        let changed = execute(
            connection,
            sql::RELEASE,
            params![
                lease.identity.scope.as_str(),
                lease.identity.key.as_str(),
                lease.token.as_bytes(),
                signed(lease.fence.get()),
                self.reach() == Reach::EveryAttempt,
                time(context.clock.now()),
            ],
        )?;
        if changed == 1 {
            return Ok(Released::Released);
        }
        let record = row::find(connection, &lease.identity).map_err(statement)?;
        Ok(machine::refused_release(record.as_ref(), lease))
    }
}

/// A purge of at most so many rows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Purge(pub(crate) NonZeroU32);

impl Operation for Purge {
    type Answer = Purged;

    fn run(&self, connection: &Connection, context: &Context) -> Result<Purged, Error> {
        let now = time(context.clock.now());
        let rules = &context.rules;
        let limit = u64::from(self.0.get());
        let remember = rules.remember.map_or(0, span);
        let deleted = execute(
            connection,
            sql::PURGE,
            params![now, span(rules.quarantine), remember, rules.evidence.map(span), signed(limit)],
        )?;
        let left = limit.saturating_sub(deleted);
        let dropped = match rules.remember {
            Some(_) if left > 0 => execute(connection, sql::PURGE_RESPONSES, params![now, signed(left)])?,
            _ => 0,
        };
        Ok(Purged { deleted, dropped })
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

fn insert(connection: &Connection, claim: &Claim, now: StoreTime) -> Result<Option<u64>, Error> {
    fence(
        connection,
        sql::CLAIM,
        params![
            claim.identity().scope.as_str(),
            claim.identity().key.as_str(),
            claim.operation().as_str(),
            claim.fingerprint().as_bytes(),
            row::take_over_within(claim.on_uncertain()),
            claim.token().as_bytes(),
            claim.owner().map(idem_core::Owner::as_str),
            claim.announces(),
            span(claim.lease()),
            span(claim.retention()),
            time(now),
        ],
    )
}

fn rewrite(
    connection: &Connection,
    how: Rewrite,
    seen: Seen,
    record: &Record,
    claim: &Claim,
    now: StoreTime,
) -> Result<Option<u64>, Error> {
    let (scope, key) = (claim.identity().scope.as_str(), claim.identity().key.as_str());
    let seen_fence = signed(seen.fence.get());
    let seen_token = seen.token.as_bytes();
    let seen_state = state_number(seen.state);
    let seen_end = time(seen.lease_until);
    match how {
        Rewrite::NewLife => fence(
            connection,
            sql::NEW_LIFE,
            params![
                scope,
                key,
                claim.operation().as_str(),
                claim.fingerprint().as_bytes(),
                row::take_over_within(claim.on_uncertain()),
                claim.token().as_bytes(),
                claim.owner().map(idem_core::Owner::as_str),
                claim.announces(),
                span(claim.lease()),
                span(claim.retention()),
                time(now),
                seen_fence,
                seen_token,
                seen_state,
                seen_end,
            ],
        ),
        Rewrite::TakeOver => fence(
            connection,
            sql::TAKE_OVER,
            params![
                scope,
                key,
                claim.token().as_bytes(),
                claim.owner().map(idem_core::Owner::as_str),
                claim.announces(),
                span(claim.lease()),
                time(now),
                idem_core::encode_history(&machine::remembering_last(record)),
                seen_fence,
                seen_token,
                seen_state,
                seen_end,
            ],
        ),
        Rewrite::Repeat => fence(
            connection,
            sql::REPEAT,
            params![scope, key, span(claim.lease()), time(now), seen_fence, seen_token, seen_state, seen_end],
        ),
    }
}

/// The grant; its fence is the one that the row has.
fn granted(record: Record, fence: u64, claim: &Claim) -> Claimed {
    let mut grant: Grant = machine::grant(&record, claim);
    grant.lease.fence = idem_core::Fence::new(fence);
    Claimed::Acquired(grant)
}

fn find(connection: &Connection, claim: &Claim) -> Result<Option<Record>, Error> {
    row::find(connection, claim.identity()).map_err(statement)
}

fn fence(connection: &Connection, sql: &str, params: impl Params) -> Result<Option<u64>, Error> {
    let mut prepared = connection.prepare_cached(sql).map_err(statement)?;
    let mut rows = prepared.query(params).map_err(statement)?;
    let Some(row) = rows.next().map_err(statement)? else { return Ok(None) };
    let fence: i64 = row.get(0).map_err(statement)?;
    // The write counts when the statement has been stepped to its end.
    while rows.next().map_err(statement)?.is_some() {}
    Ok(Some(fence.unsigned_abs()))
}

fn execute(connection: &Connection, sql: &str, params: impl Params) -> Result<u64, Error> {
    let mut prepared = connection.prepare_cached(sql).map_err(statement)?;
    let changed = prepared.execute(params).map_err(statement)?;
    Ok(changed as u64)
}

fn statement(error: rusqlite::Error) -> Error {
    error::of(error, Moment::Statement)
}

/// The write lock is held, so a row cannot have moved since this very call read it (clause C12).
fn moved() -> Error {
    Error::new(ErrorKind::Bug, "a record changed under the write lock")
}
