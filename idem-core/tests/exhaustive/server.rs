//! The store: one statement is one atomic step on the record.

use idem_core::machine::{self, Purge, Rewrite, Seen, Step};
use idem_core::{
    Claim, Claimed, Complete, Completed, End, Record, Recorded, Release, Released, Renew, Renewed, Response, State,
};

use crate::decisions::Basis;
use crate::ledger::{Breach, Written};
use crate::network::{EndAs, Message, Statement, Whose};
use crate::setting::Setting;
use crate::values::{Held, Row, at};
use crate::world::World;

/// What a statement answers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Reply {
    Granted(Held),
    /// The claim has to send this as its second statement.
    Rewrite(Statement),
    /// The row is no longer as it was seen.
    LookAgain,
    /// A claim's answer that is no grant.
    Refused,
    /// The lease is held.
    Held,
    /// The lease is lost.
    Lost,
    /// The attempt is ended.
    Ended,
}

/// Carries out one statement.
pub(crate) fn execute(setting: &Setting, world: &mut World, message: &Message) -> Reply {
    let before = world.record.clone();
    let reply = match &message.statement {
        Statement::Insert => insert(setting, world, message),
        Statement::Rewrite { how, seen, copy } => rewrite(setting, world, message, *how, seen, copy.as_deref()),
        Statement::Renew { held, checkpoint } => renew(setting, world, message, *held, *checkpoint),
        Statement::Complete { held, end } => complete(setting, world, message, *held, *end),
        Statement::Release { held, all } => release(setting, world, message, *held, *all),
    };
    if reply == Reply::Lost && world.record != before {
        world.ledger.note(Breach::LostChanged);
    }
    compare(world, before.as_ref());
    reply
}

/// One purge.
pub(crate) fn purge(setting: &Setting, world: &mut World) {
    let Some(Row(record)) = world.record.clone() else { return };
    let kept = world.ledger.remembers(world.now, &setting.rules);
    let replayed = world.ledger.replays(world.now, &setting.rules);
    match (setting.decisions.purge)(&record, at(world.now.into()), &setting.rules) {
        Purge::Keep => {}
        Purge::DropResponse => {
            if replayed {
                world.ledger.note(Breach::FinishedChanged);
            }
            let code = record.recorded.as_ref().map_or(0, Recorded::code);
            world.record = Some(Row(Record { recorded: Some(Recorded::Tombstone { code }), ..record }));
        }
        Purge::Delete => {
            if kept {
                world.ledger.note(Breach::FinishedChanged);
            }
            world.ledger.deleted(&record, world.now, &setting.rules);
            world.record = None;
        }
    }
}

fn insert(setting: &Setting, world: &mut World, message: &Message) -> Reply {
    let (decisions, now) = (&setting.decisions, at(world.now.into()));
    let claim = setting.workers[message.worker].claim(message.token);
    let found = world.record.as_ref().map(|row| &row.0);
    let step = (decisions.claim)(found, &claim, now, &setting.rules);
    let alone = (decisions.alone)(&step);
    match (step, found) {
        (Step::Insert, _) => {
            let record = (decisions.created)(&claim, now);
            grant(setting, world, message, &claim, record, Written::Insert)
        }
        (Step::Rewrite(how, _), Some(found)) if alone => {
            let record = (decisions.rewritten)(how, found, &claim, now);
            grant(setting, world, message, &claim, record, Written::from(how))
        }
        (Step::Rewrite(how, seen), found) => {
            let copy = found.filter(|_| decisions.basis == Basis::Copy).map(|found| Box::new(Row(found.clone())));
            Reply::Rewrite(Statement::Rewrite { how, seen, copy })
        }
        (Step::Answer(answer), found) => {
            if let (Claimed::InFlight { retry_after }, Some(found)) = (answer, found)
                && (retry_after.is_zero() || retry_after > found.lease_until.since(now))
            {
                world.ledger.note(Breach::WrongRetryAfter);
            }
            Reply::Refused
        }
    }
}

fn rewrite(
    setting: &Setting,
    world: &mut World,
    message: &Message,
    how: Rewrite,
    seen: &Seen,
    copy: Option<&Row>,
) -> Reply {
    let (decisions, now) = (&setting.decisions, at(world.now.into()));
    let claim = setting.workers[message.worker].claim(message.token);
    let stands = |row: &&Row| (decisions.stands)(how, seen, &row.0, &claim, now, &setting.rules);
    let Some(Row(found)) = world.record.as_ref().filter(stands) else {
        return Reply::LookAgain;
    };
    let basis = copy.map_or(found, |copy| &copy.0);
    let record = (decisions.rewritten)(how, basis, &claim, now);
    if how == Rewrite::Repeat {
        let held = Held::of(&machine::grant(&record, &claim).lease);
        world.record = Some(Row(record));
        return Reply::Granted(held);
    }
    let running = found.state == State::Processing && now < found.lease_until;
    if running {
        world.ledger.note(Breach::RunningPreempted);
    }
    grant(setting, world, message, &claim, record, Written::from(how))
}

fn grant(
    setting: &Setting,
    world: &mut World,
    message: &Message,
    claim: &Claim,
    record: Record,
    written: Written,
) -> Reply {
    if world.ledger.replays(world.now, &setting.rules) {
        world.ledger.note(Breach::FinishedChanged);
    }
    let held = Held::of(&machine::grant(&record, claim).lease);
    world.ledger.granted(held, message, written, world.now, setting);
    world.record = Some(Row(record));
    Reply::Granted(held)
}

fn renew(setting: &Setting, world: &mut World, message: &Message, held: Held, checkpoint: Option<u8>) -> Reply {
    let renew = Renew::new(held.lease(setting.workers[message.worker].lease));
    let renew = match checkpoint {
        #[allow(clippy::expect_used)] // A small number and no bytes.
        Some(number) => renew.checkpoint(number.into(), Vec::new()).expect("a valid checkpoint"),
        None => renew,
    };
    let found = world.record.as_ref().map(|row| &row.0);
    let (answer, changed) = (setting.decisions.renew)(found, &renew, at(world.now.into()));
    if changed.is_some() {
        protect(setting, world, changed.as_ref());
        if let Some(grant) = world.ledger.grant_of(held) {
            grant.began = true;
        }
        world.record = changed.map(Row);
    }
    match answer {
        Renewed::Held => Reply::Held,
        Renewed::Lost => Reply::Lost,
    }
}

fn complete(setting: &Setting, world: &mut World, message: &Message, held: Held, end: EndAs) -> Reply {
    let response = Recorded::Response(Response::new(held.token.into()));
    let ended = match end {
        EndAs::Succeeded => End::Succeeded(response),
        EndAs::Unknown => End::Unknown(Some(response)),
    };
    let complete = Complete::new(held.lease(setting.workers[message.worker].lease), ended);
    let found = world.record.as_ref().map(|row| &row.0);
    let (answer, changed) = (setting.decisions.complete)(found, &complete, at(world.now.into()), &setting.rules);
    if changed.is_some() {
        protect(setting, world, changed.as_ref());
        world.record = changed.map(Row);
        world.ledger.completed(held, end, world.now);
    }
    let completed = world.ledger.grant_of(held).is_some_and(|grant| grant.completed);
    match answer {
        Completed::Stored => Reply::Ended,
        Completed::AlreadyStored => {
            if !completed {
                world.ledger.note(Breach::FalseEcho);
            }
            Reply::Ended
        }
        Completed::Lost => Reply::Lost,
    }
}

fn release(setting: &Setting, world: &mut World, message: &Message, held: Held, all: Whose) -> Reply {
    let lease = held.lease(setting.workers[message.worker].lease);
    let release = match all {
        Whose::ThisAttempt => Release::new(lease),
        Whose::EveryAttempt => Release::of_every_attempt(lease),
    };
    let found = world.record.as_ref().map(|row| &row.0);
    let (answer, changed) = (setting.decisions.release)(found, &release, at(world.now.into()));
    if changed.is_some() {
        protect(setting, world, changed.as_ref());
        world.record = changed.map(Row);
        world.ledger.released(all);
    }
    match answer {
        Released::Released => Reply::Ended,
        Released::Lost => Reply::Lost,
    }
}

/// Notes when a finished record that is to be replayed is about to change.
fn protect(setting: &Setting, world: &mut World, after: Option<&Record>) {
    let unchanged = world.record.as_ref().map(|row| &row.0) == after;
    if !unchanged && world.ledger.replays(world.now, &setting.rules) {
        world.ledger.note(Breach::FinishedChanged);
    }
}

/// Compares the record with what it was, where it is still the same life.
fn compare(world: &mut World, before: Option<&Row>) {
    let (Some(Row(before)), Some(Row(after))) = (before, world.record.clone()) else { return };
    if before.created_at != after.created_at || after.state == State::Released {
        return;
    }
    let sequence = |record: &Record| record.checkpoint.as_ref().map(|checkpoint| checkpoint.sequence);
    if sequence(&after) < sequence(before) {
        world.ledger.note(Breach::CheckpointLost);
    }
    if before.fence == after.fence && after.lease_until < before.lease_until {
        world.ledger.note(Breach::LeaseShortened);
    }
}
