//! What a claim does about a record that is there: the machine decides, and a rewrite is a second statement that is
//! conditional on what was seen (clause C13).

use idem_core::machine::{self, Rewrite, Seen, Step};
use idem_core::{Claim, Claimed, Owner, Record};
use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row};

use crate::error::Failure;
use crate::operation::{Context, claim_parameters, one, query};
use crate::row::{self, signed, span, state_number};

/// What came of one look.
pub(crate) enum Looked {
    Answer(Claimed),
    /// The row is not what it was a moment ago: look again.
    Moved,
}

/// What the answer of the claim statement means by itself.
pub(crate) enum Read {
    Answer(Claimed),
    Rewrite(Rewrite, Seen, Box<Record>),
    /// Made by somebody else after the statement began.
    Moved,
}

/// Carries out what the row of a claim statement asks for.
pub(crate) async fn decide(
    connection: &mut PgConnection,
    context: &Context,
    claim: &Claim,
    row: &PgRow,
) -> Result<Looked, Failure> {
    match read(context, claim, row)? {
        Read::Answer(answer) => Ok(Looked::Answer(answer)),
        Read::Moved => Ok(Looked::Moved),
        Read::Rewrite(how, seen, record) => rewrite(connection, context, how, seen, &record, claim).await,
    }
}

pub(crate) fn read(context: &Context, claim: &Claim, row: &PgRow) -> Result<Read, Failure> {
    let Some(record) = row::record(claim.identity(), row)? else { return Ok(Read::Moved) };
    if row.try_get::<Option<bool>, _>("granted")? == Some(true) {
        return Ok(Read::Answer(Claimed::Acquired(machine::grant(&record, claim))));
    }
    Ok(match machine::claim(Some(&record), claim, row::now(row)?, &context.rules) {
        Step::Answer(answer) => Read::Answer(answer),
        Step::Rewrite(how, seen) => Read::Rewrite(how, seen, Box::new(record)),
        Step::Insert => Read::Moved,
    })
}

/// One UPDATE that still has to find the record as it was seen, and to come to the same decision by its own clock.
pub(crate) async fn rewrite(
    connection: &mut PgConnection,
    context: &Context,
    how: Rewrite,
    seen: Seen,
    record: &Record,
    claim: &Claim,
) -> Result<Looked, Failure> {
    let statements = &context.statements;
    let statement = match how {
        Rewrite::NewLife => &statements.new_life,
        Rewrite::TakeOver => &statements.take_over,
        Rewrite::Repeat => &statements.repeat,
    };
    let (scope, key) = (claim.identity().scope.as_str(), claim.identity().key.as_str());
    let query = match how {
        Rewrite::NewLife => claim_parameters(query(statement), claim),
        Rewrite::TakeOver => query(statement)
            .bind(scope)
            .bind(key)
            .bind(claim.token().as_bytes().to_vec())
            .bind(claim.owner().map(Owner::as_str))
            .bind(claim.announces())
            .bind(span(claim.lease()))
            .bind(idem_core::encode_history(&machine::remembering_last(record)))
            .bind(row::take_over_within(claim.on_uncertain()))
            .bind(claim.is_resolving()),
        Rewrite::Repeat => query(statement).bind(scope).bind(key).bind(span(claim.lease())),
    };
    let query = query
        .bind(signed(seen.fence.get()))
        .bind(seen.token.as_bytes().to_vec())
        .bind(state_number(seen.state))
        .bind(signed(seen.lease_until.as_micros()));
    let query = match how {
        Rewrite::NewLife => query.bind(context.rules.remember.map_or(0, span)),
        Rewrite::TakeOver | Rewrite::Repeat => query,
    };
    let row = one(connection, statement, query).await?;
    Ok(match row::record(claim.identity(), &row)? {
        Some(record) => Looked::Answer(Claimed::Acquired(machine::grant(&record, claim))),
        None => Looked::Moved,
    })
}
