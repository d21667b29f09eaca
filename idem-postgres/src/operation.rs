//! The operations of the store, each on a connection that somebody else gives: of the pool, or in a transaction of the
//! caller's.

use std::num::NonZeroU32;

use idem_core::machine::{self, Rules};
use idem_core::{
    Claim, Claimed, Complete, Completed, End, Error, ErrorKind, Identity, Purged, Reach, Record, Recorded, Release,
    Released, Renew, Renewed, StoreTime,
};
use sqlx::postgres::{PgArguments, PgRow};
use sqlx::query::Query;
use sqlx::{PgConnection, Postgres, Row};

use crate::error::Failure;
use crate::rewrite::{Looked, decide};
use crate::row::{self, signed, span};
use crate::sql::{Statement, Statements};

/// How often a claim looks again when the row moved between two statements (clause C12). Each turn means that somebody
/// else's statement came through.
const LOOKS: u32 = 16;

/// What an operation decides with.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) statements: Statements,
    pub(crate) rules: Rules,
    pub(crate) response_limit: usize,
}

/// Was an earlier try of the very same request sent, and its answer lost?
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Earlier {
    None,
    MayHaveBeenApplied,
}

/// What to do when the answer was lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Lost {
    /// The same again tells.
    Repeat,
    /// It only looked: the same again, and no doubt is left.
    LookAgain,
    /// It would tell something else.
    Report,
}

/// One operation. It is sent again, with the same token, when its answer was lost.
pub(crate) trait Operation: Clone + Send + Sync + 'static {
    type Answer: Send + 'static;

    const WHEN_LOST: Lost = Lost::Repeat;

    fn run(
        &self,
        connection: &mut PgConnection,
        context: &Context,
        earlier: Earlier,
    ) -> impl Future<Output = Result<Self::Answer, Failure>> + Send;

    /// What it is answered when another transaction kept the row for longer than it waits, if that is an answer.
    fn when_locked(&self) -> Option<Self::Answer> {
        None
    }
}

impl Operation for Claim {
    type Answer = Claimed;

    async fn run(&self, connection: &mut PgConnection, context: &Context, _: Earlier) -> Result<Claimed, Failure> {
        for _ in 0..LOOKS {
            let statement = &context.statements.claim;
            let row = one(connection, statement, claim_parameters(query(statement), self)).await?;
            match decide(connection, context, self, &row).await? {
                Looked::Answer(answer) => return Ok(answer),
                Looked::Moved => {}
            }
        }
        Err(Failure::Moved)
    }

    /// It is somebody's: an owner who is settling it, or a claim whose transaction is still open (clauses C11, J4).
    fn when_locked(&self) -> Option<Claimed> {
        Some(Claimed::InFlight { retry_after: SOON })
    }
}

/// After how long it is worth asking again for what an open transaction keeps; how long that one runs, nobody knows.
pub(crate) const SOON: std::time::Duration = std::time::Duration::from_millis(100);

impl Operation for Renew {
    type Answer = Renewed;

    async fn run(&self, connection: &mut PgConnection, context: &Context, _: Earlier) -> Result<Renewed, Failure> {
        let lease = self.lease();
        let checkpoint = self.checkpoint_left();
        let statement = &context.statements.renew;
        let query = query(statement)
            .bind(lease.identity.scope.as_str())
            .bind(lease.identity.key.as_str())
            .bind(lease.token.as_bytes())
            .bind(signed(lease.fence.get()))
            .bind(span(self.length()))
            .bind(checkpoint.map(|checkpoint| signed(checkpoint.sequence)))
            .bind(checkpoint.map(|checkpoint| checkpoint.bytes.as_ref()));
        let changed = changed(connection, statement, query).await?;
        Ok(if changed == 1 { Renewed::Held } else { Renewed::Lost })
    }
}

impl Operation for Complete {
    type Answer = Completed;

    async fn run(
        &self,
        connection: &mut PgConnection,
        context: &Context,
        earlier: Earlier,
    ) -> Result<Completed, Failure> {
        let lease = self.lease();
        let recorded = self.end().recorded();
        let response = match recorded {
            Some(Recorded::Response(response)) => Some(response),
            _ => None,
        };
        let statement = &context.statements.complete;
        let query = query(statement)
            .bind(lease.identity.scope.as_str())
            .bind(lease.identity.key.as_str())
            .bind(lease.token.as_bytes())
            .bind(signed(lease.fence.get()))
            .bind(row::state_number(ending(self.end())))
            .bind(recorded.map(|recorded| i32::from(recorded.code())))
            .bind(response.map(|response| response.meta.as_ref()))
            .bind(response.and_then(|response| response.body.as_deref()))
            .bind(span(context.rules.floor));
        if changed(connection, statement, query).await? == 1 {
            return Ok(Completed::Stored);
        }
        let (record, _) = find(connection, &context.statements.get, &lease.identity).await?;
        match (machine::refused_complete(record.as_ref(), lease), record) {
            // It was this very request that ended it.
            (Completed::AlreadyStored, Some(record))
                if earlier == Earlier::MayHaveBeenApplied && is_end_of(&record, self.end()) =>
            {
                Ok(Completed::Stored)
            }
            (refused, _) => Ok(refused),
        }
    }
}

impl Operation for Release {
    type Answer = Released;

    async fn run(&self, connection: &mut PgConnection, context: &Context, _: Earlier) -> Result<Released, Failure> {
        let lease = self.lease();
        let statement = &context.statements.release;
        let query = query(statement)
            .bind(lease.identity.scope.as_str())
            .bind(lease.identity.key.as_str())
            .bind(lease.token.as_bytes())
            .bind(signed(lease.fence.get()))
            .bind(self.reach() == Reach::EveryAttempt);
        if changed(connection, statement, query).await? == 1 {
            return Ok(Released::Released);
        }
        let (record, _) = find(connection, &context.statements.get, &lease.identity).await?;
        Ok(machine::refused_release(record.as_ref(), lease))
    }
}

/// A look at a record.
#[derive(Clone, Debug)]
pub(crate) struct Get(pub(crate) Identity);

impl Operation for Get {
    type Answer = Option<Record>;

    const WHEN_LOST: Lost = Lost::LookAgain;

    async fn run(
        &self,
        connection: &mut PgConnection,
        context: &Context,
        _: Earlier,
    ) -> Result<Option<Record>, Failure> {
        let (record, now) = find(connection, &context.statements.get, &self.0).await?;
        Ok(record.and_then(|record| machine::visible(&record, now, &context.rules)))
    }
}

/// A look at what became of a transaction whose COMMIT was not answered.
#[derive(Clone, Debug)]
pub(crate) struct Settled(pub(crate) Identity);

impl Operation for Settled {
    type Answer = Option<Record>;

    const WHEN_LOST: Lost = Lost::LookAgain;

    async fn run(
        &self,
        connection: &mut PgConnection,
        context: &Context,
        _: Earlier,
    ) -> Result<Option<Record>, Failure> {
        let wait = &context.statements.wait;
        changed(connection, wait, query(wait).bind(self.0.scope.as_str()).bind(self.0.key.as_str())).await?;
        Ok(find(connection, &context.statements.settled, &self.0).await?.0)
    }
}

/// A purge of at most so many rows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Purge(pub(crate) NonZeroU32);

impl Operation for Purge {
    type Answer = Purged;

    /// A second purge would not count what the first one did (clause P3).
    const WHEN_LOST: Lost = Lost::Report;

    async fn run(&self, connection: &mut PgConnection, context: &Context, _: Earlier) -> Result<Purged, Failure> {
        let rules = &context.rules;
        let limit = u64::from(self.0.get());
        let statement = &context.statements.purge;
        let query = query(statement)
            .bind(span(rules.quarantine))
            .bind(rules.remember.map_or(0, span))
            .bind(rules.evidence.map(span))
            .bind(signed(limit));
        let deleted = changed(connection, statement, query).await?;
        let left = limit.saturating_sub(deleted);
        let dropped = match rules.remember {
            Some(_) if left > 0 => {
                let statement = &context.statements.purge_responses;
                changed(connection, statement, self::query(statement).bind(signed(left))).await?
            }
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

/// Parameters 1 to 10 of claim, once and new_life.
pub(crate) fn claim_parameters<'q>(query: PgQuery<'q>, claim: &'q Claim) -> PgQuery<'q> {
    query
        .bind(claim.identity().scope.as_str())
        .bind(claim.identity().key.as_str())
        .bind(claim.operation().as_str())
        .bind(claim.fingerprint().as_bytes())
        .bind(row::take_over_within(claim.on_uncertain()))
        .bind(claim.token().as_bytes())
        .bind(claim.owner().map(idem_core::Owner::as_str))
        .bind(claim.announces())
        .bind(span(claim.lease()))
        .bind(span(claim.retention()))
}

pub(crate) type PgQuery<'q> = Query<'q, Postgres, PgArguments>;

pub(crate) fn query<'q>(statement: &Statement) -> PgQuery<'q> {
    sqlx::query(statement.text())
}

/// Sends a statement, and takes its one row when it is this statement's.
pub(crate) async fn one(
    connection: &mut PgConnection,
    statement: &Statement,
    query: PgQuery<'_>,
) -> Result<PgRow, Failure> {
    let row = query.fetch_one(connection).await?;
    // By name: another statement's answer may have other columns, or other types in their places.
    match row.try_get::<&str, _>("op") {
        Ok(op) if op == statement.op => Ok(row),
        _ => Err(Failure::Swapped),
    }
}

/// Sends a statement that says how many rows it changed.
pub(crate) async fn changed(
    connection: &mut PgConnection,
    statement: &Statement,
    query: PgQuery<'_>,
) -> Result<u64, Failure> {
    let row = one(connection, statement, query).await?;
    u64::try_from(row.try_get::<i64, _>("changed")?).map_err(|_| Failure::Swapped)
}

async fn find(
    connection: &mut PgConnection,
    statement: &Statement,
    identity: &Identity,
) -> Result<(Option<Record>, StoreTime), Failure> {
    let query = query(statement).bind(identity.scope.as_str()).bind(identity.key.as_str());
    let row = one(connection, statement, query).await?;
    Ok((row::record(identity, &row)?, row::now(&row)?))
}

fn ending(end: &End) -> idem_core::State {
    match end {
        End::Succeeded(_) => idem_core::State::Succeeded,
        End::Failed(_) => idem_core::State::Failed,
        End::Unknown(_) => idem_core::State::Unknown,
    }
}

/// Is this what an end left? One without a response keeps what was recorded before.
pub(crate) fn is_end_of(record: &Record, end: &End) -> bool {
    record.state == ending(end) && end.recorded().is_none_or(|recorded| record.recorded.as_ref() == Some(recorded))
}
