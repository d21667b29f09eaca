//! The state machine: record + request + now → answer + new record. No clock, no input, no output.
//!
//! Every store decides with it. [`MemoryStore`](crate::MemoryStore) runs it behind a lock. A SQL store sends the one
//! INSERT that may grant on its own, and when the row is there already it reads the row, asks [`claim`] what the row
//! means, and carries out a [`Rewrite`] as a second statement that is conditional on [`Seen`] (clause C13). The other
//! operations are single statements there; where one changes no row, the `refused_*` functions say why.
//!
//! The clause that a line serves is named beside it; the clauses stand in [`Store`](crate::Store)'s documentation.

use crate::config::defaults;
use crate::{
    Claim, Claimed, Complete, Completed, End, Fence, Final, Grant, HowEnded, Lease, MAX_HISTORY, OnUncertain,
    PastAttempt, Purged, Reach, Record, Recorded, Release, Released, Renew, Renewed, Replay, Span, Spent, State,
    StoreTime, Token, Uncertain,
};

/// How long a store keeps what. One value for all processes on one store; durations, never instants.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Rules {
    /// A finished record is replayable for at least this long after it was finished (clause F6b).
    pub floor: Span,
    /// How long after its retention a finished record is remembered as spent; None forgets at once.
    pub remember: Option<Span>,
    /// How long lapsed and unknown records are kept as evidence; None keeps them for ever (clause P5). Records under
    /// [`OnUncertain::Hold`] are always kept until somebody decides.
    pub evidence: Option<Span>,
    /// How long a free record stays before purge deletes it (clause P7): longer than a statement can be delayed, and
    /// than any step of the store's clock.
    pub quarantine: Span,
}

impl Default for Rules {
    fn default() -> Rules {
        Rules {
            floor: defaults::REPLAY_FLOOR,
            remember: defaults::REMEMBER,
            evidence: Some(defaults::EVIDENCE),
            quarantine: defaults::QUARANTINE,
        }
    }
}

/// What a claim does to the record that it found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Step {
    /// There is no record: create it ([`created`]). The only write that needs nothing read (clause C13).
    Insert,
    /// Replace the record by [`rewritten`], if it still [`stands`]; else look again.
    Rewrite(Rewrite, Seen),
    /// Change nothing.
    Answer(Claimed),
}

/// How a claim rewrites a record.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Rewrite {
    /// A free record begins a new life (clause C1).
    NewLife,
    /// An uncertain record is taken over by the next attempt (clause C6).
    TakeOver,
    /// Our own claim again: its reply was lost (clause C3).
    Repeat,
}

/// What a rewrite is conditional on: what *this* claim has just read. A renewal leaves the fence as it is, so the
/// fence alone is not enough.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Seen {
    /// The fence.
    pub fence: Fence,
    /// The token.
    pub token: Token,
    /// The state.
    pub state: State,
    /// The end of the lease.
    pub lease_until: StoreTime,
}

impl Seen {
    /// What there is to see of a record.
    #[must_use]
    pub fn of(record: &Record) -> Seen {
        Seen { fence: record.fence, token: record.token, state: record.state, lease_until: record.lease_until }
    }
}

/// What a claim does, given the record that is there. The first row of the contract's table that matches.
#[must_use]
pub fn claim(record: Option<&Record>, claim: &Claim, now: StoreTime, rules: &Rules) -> Step {
    let Some(record) = record else {
        return Step::Insert; // C1
    };
    let rewrite = |how| Step::Rewrite(how, Seen::of(record));
    let seen = state_at(record, now, rules);
    if seen == AtAge::Free {
        return rewrite(Rewrite::NewLife); // C1
    }
    if record.fingerprint != *claim.fingerprint() {
        return Step::Answer(Claimed::Mismatch); // C2
    }
    match seen {
        AtAge::Free => rewrite(Rewrite::NewLife),
        AtAge::Owned if record.token == claim.token() => rewrite(Rewrite::Repeat), // C3
        AtAge::Finished(end) => Step::Answer(Claimed::Replay(Replay { end, recorded: recorded(record) })), // C4
        AtAge::Owned if now < record.lease_until => {
            Step::Answer(Claimed::InFlight { retry_after: record.lease_until.since(now) }) // C5
        }
        AtAge::Owned | AtAge::Unknown if may_take_over(record, claim, now) => rewrite(Rewrite::TakeOver), // C6
        AtAge::Owned | AtAge::Unknown => Step::Answer(Claimed::Uncertain(uncertain(record))),             // C7
        AtAge::Spent(end) => {
            Step::Answer(Claimed::Spent(Spent { end, code: recorded(record).code() })) // C8
        }
    }
}

/// Does a rewrite still stand when its own statement runs? The row must be as it was seen, and the clock of *this*
/// statement must still lead to the same decision: one that was delayed takes nothing over past `within`, and after
/// a clock's step back it takes nothing from an owner whose lease runs again.
#[must_use]
pub fn stands(how: Rewrite, seen: &Seen, record: &Record, asked: &Claim, now: StoreTime, rules: &Rules) -> bool {
    Seen::of(record) == *seen
        && matches!(claim(Some(record), asked, now, rules), Step::Rewrite(again, _) if again == how)
}

/// The record that a claim of an absent identity creates.
#[must_use]
pub fn created(claim: &Claim, now: StoreTime) -> Record {
    born(claim, now, Fence::new(now.as_micros()))
}

/// The record after a rewrite. `record` is the row as the rewriting statement finds it, never a copy from an earlier
/// read: a renewal in between may have left its lease end alone and still have announced the work (clause C14) or left
/// a checkpoint. `now` may be later than the decision's.
#[must_use]
pub fn rewritten(how: Rewrite, record: &Record, claim: &Claim, now: StoreTime) -> Record {
    let next_fence = Fence::new(now.as_micros().max(record.fence.get() + 1));
    match how {
        Rewrite::NewLife => born(claim, now, next_fence),
        Rewrite::Repeat => {
            let mut record = record.clone();
            record.lease_until = record.lease_until.max(now.plus(claim.lease()));
            record
        }
        Rewrite::TakeOver => {
            let mut record = record.clone();
            record.history = remembering_last(&record);
            record.attempt = record.attempt.saturating_add(1);
            record.ran_since = record.ran_since.or(begins(claim, record.attempt));
            record.state = State::Processing;
            record.undone = false;
            record.token = claim.token();
            record.fence = next_fence;
            record.owner = claim.owner().cloned();
            record.claimed_at = now;
            record.lease_until = now.plus(claim.lease());
            record.ended_at = None;
            record
        }
    }
}

/// The grant that a record which was just created or rewritten by this claim stands for.
#[must_use]
pub fn grant(record: &Record, claim: &Claim) -> Grant {
    Grant {
        lease: Lease {
            identity: record.identity.clone(),
            token: record.token,
            fence: record.fence,
            attempt: record.attempt,
            length: claim.lease(),
        },
        previous: record.previous().cloned(),
        checkpoint: record.checkpoint.clone(),
    }
}

/// What a renewal does; the record is None when nothing changes.
#[must_use]
pub fn renew(record: Option<&Record>, renew: &Renew, now: StoreTime) -> (Renewed, Option<Record>) {
    let Some(record) = record.filter(|record| holds(record, renew.lease())) else {
        return (Renewed::Lost, None); // R1, R4
    };
    let mut record = record.clone();
    record.lease_until = record.lease_until.max(now.plus(renew.length())); // R2, R3
    record.ran_since = record.ran_since.or(Some(record.attempt)); // C14
    if let Some(checkpoint) = renew.checkpoint_left()
        && record.checkpoint.as_ref().is_none_or(|old| old.sequence < checkpoint.sequence)
    {
        record.checkpoint = Some(checkpoint.clone()); // R5
    }
    (Renewed::Held, Some(record))
}

/// What a completion does; the record is None when nothing changes.
#[must_use]
pub fn complete(
    record: Option<&Record>,
    complete: &Complete,
    now: StoreTime,
    rules: &Rules,
) -> (Completed, Option<Record>) {
    let Some(held) = record.filter(|record| holds(record, complete.lease())) else {
        return (refused_complete(record, complete.lease()), None);
    };
    let mut record = held.clone(); // F1: lapsed or not
    record.ended_at = Some(now);
    record.undone = false;
    record.ran_since = record.ran_since.or(Some(record.attempt));
    record.state = match complete.end() {
        End::Succeeded(_) => State::Succeeded,
        End::Failed(_) => State::Failed,
        End::Unknown(_) => State::Unknown,
    };
    if let Some(recorded) = complete.end().recorded() {
        record.recorded = Some(recorded.clone());
    }
    if record.state != State::Unknown {
        record.expires_at = record.expires_at.max(now.plus(rules.floor)); // F6b
    }
    (Completed::Stored, Some(record))
}

/// The answer to a completion that changed no row.
#[must_use]
pub fn refused_complete(record: Option<&Record>, lease: &Lease) -> Completed {
    match record {
        Some(record) if owns(record, lease) && ended_by_completion(record) => Completed::AlreadyStored, // F2
        _ => Completed::Lost,                                                                           // F3
    }
}

/// What a release does; the record is None when nothing changes.
#[must_use]
pub fn release(record: Option<&Record>, release: &Release, now: StoreTime) -> (Released, Option<Record>) {
    let Some(held) = record.filter(|record| holds(record, release.lease())) else {
        return (refused_release(record, release.lease()), None);
    };
    let mut record = held.clone();
    let earlier_may_have_run = record.ran_since.is_some_and(|first| first < record.attempt);
    record.ended_at = Some(now);
    if release.reach() == Reach::ThisAttempt && earlier_may_have_run {
        record.state = State::Unknown; // L1: only this attempt's grant is undone
        record.undone = true;
    } else {
        record.state = State::Released;
        record.expires_at = record.expires_at.max(now); // the quarantine counts from here
        record.recorded = None;
        record.checkpoint = None;
    }
    (Released::Released, Some(record))
}

/// The answer to a release that changed no row.
#[must_use]
pub fn refused_release(record: Option<&Record>, lease: &Lease) -> Released {
    match record {
        Some(record) if owns(record, lease) && (record.state == State::Released || record.undone) => {
            Released::Released // L2: the repeat of our own release
        }
        _ => Released::Lost, // L3
    }
}

/// What a reader sees: a record over age is none, a remembered one is spent (clause G1).
#[must_use]
pub fn visible(record: &Record, now: StoreTime, rules: &Rules) -> Option<Record> {
    match state_at(record, now, rules) {
        AtAge::Free if record.state == State::Released && now < record.expires_at => Some(record.clone()),
        AtAge::Free => None,
        AtAge::Spent(end) => {
            let mut record = record.clone();
            record.state = State::Spent(end);
            record.recorded = Some(tombstone(&record));
            Some(record)
        }
        _ => Some(record.clone()),
    }
}

/// What purge does to a record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Purge {
    /// Leave it.
    Keep,
    /// Replace its response by a tombstone: it is remembered, not replayed (clause P2).
    DropResponse,
    /// Delete it.
    Delete,
}

/// What purge does to a record at this instant (clauses P1, P2, P5, P7).
#[must_use]
pub fn purge(record: &Record, now: StoreTime, rules: &Rules) -> Purge {
    if now < record.expires_at {
        return Purge::Keep; // P2
    }
    let over = |since: StoreTime, span: Span| since.plus(span).plus(rules.quarantine) <= now;
    let gone = match record.state {
        State::Processing if now < record.lease_until => false, // P1
        State::Processing if record.ran_since.is_none() => {
            record.lease_until.max(record.expires_at).plus(rules.quarantine) <= now // nothing ran: no evidence
        }
        State::Processing | State::Unknown => match (record.on_uncertain, rules.evidence) {
            (OnUncertain::Hold, _) | (_, None) => false,
            (OnUncertain::TakeOver { .. }, Some(evidence)) => {
                over(record.ended_at.unwrap_or(record.lease_until).max(record.expires_at), evidence) // P5
            }
        },
        State::Released => record.expires_at.plus(rules.quarantine) <= now, // P7
        State::Succeeded | State::Failed | State::Spent(_) => {
            forgotten_at(record, rules).plus(rules.quarantine) <= now // P7
        }
    };
    let finished = matches!(record.state, State::Succeeded | State::Failed);
    match record.recorded {
        _ if gone => Purge::Delete,
        Some(Recorded::Response(_)) if finished && rules.remember.is_some() => Purge::DropResponse,
        _ => Purge::Keep,
    }
}

/// Purges a set of records in place, at most `limit` of them: the reference for what a SQL purge does.
pub fn purge_all<'a>(
    records: impl IntoIterator<Item = &'a mut Option<Record>>,
    limit: u32,
    now: StoreTime,
    rules: &Rules,
) -> Purged {
    let mut purged = Purged::default();
    for slot in records {
        if purged.rows() >= u64::from(limit) {
            break;
        }
        let Some(record) = slot else { continue };
        match purge(record, now, rules) {
            Purge::Keep => {}
            Purge::DropResponse => {
                record.recorded = Some(tombstone(record));
                purged.dropped += 1;
            }
            Purge::Delete => {
                *slot = None;
                purged.deleted += 1;
            }
        }
    }
    purged
}

/// What a stored state is at an age.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AtAge {
    Free,
    Owned,
    Finished(Final),
    Unknown,
    Spent(Final),
}

fn state_at(record: &Record, now: StoreTime, rules: &Rules) -> AtAge {
    let end = match record.state {
        State::Processing => return AtAge::Owned, // P5: no age frees it
        State::Unknown => return AtAge::Unknown,
        State::Released => return AtAge::Free,
        State::Succeeded | State::Spent(Final::Succeeded) => Final::Succeeded,
        State::Failed | State::Spent(Final::Failed) => Final::Failed,
    };
    if now < record.expires_at {
        AtAge::Finished(end)
    } else if now < forgotten_at(record, rules) {
        AtAge::Spent(end)
    } else {
        AtAge::Free
    }
}

fn forgotten_at(record: &Record, rules: &Rules) -> StoreTime {
    rules.remember.map_or(record.expires_at, |remember| record.expires_at.plus(remember))
}

fn born(claim: &Claim, now: StoreTime, fence: Fence) -> Record {
    Record {
        identity: claim.identity().clone(),
        operation: claim.operation().clone(),
        fingerprint: *claim.fingerprint(),
        state: State::Processing,
        undone: false,
        on_uncertain: claim.on_uncertain(),
        attempt: 1,
        token: claim.token(),
        fence,
        owner: claim.owner().cloned(),
        ran_since: begins(claim, 1),
        created_at: now,
        claimed_at: now,
        lease_until: now.plus(claim.lease()),
        ended_at: None,
        expires_at: now.plus(claim.retention()),
        checkpoint: None,
        recorded: None,
        history: Vec::new(),
    }
}

/// A claimant that does not promise to announce itself may begin as soon as it is granted.
fn begins(claim: &Claim, attempt: u32) -> Option<u32> {
    (!claim.announces()).then_some(attempt)
}

fn may_take_over(record: &Record, claim: &Claim, now: StoreTime) -> bool {
    if record.ran_since.is_none() || claim.is_resolving() {
        return true; // C14: nothing ran; C15: an explicit decision
    }
    match (record.on_uncertain, claim.on_uncertain()) {
        (OnUncertain::TakeOver { within: theirs }, OnUncertain::TakeOver { within: ours }) => {
            now < record.created_at.plus(theirs.min(ours))
        }
        (OnUncertain::Hold, _) | (_, OnUncertain::Hold) => false,
    }
}

/// The history with the record's last attempt added, the oldest forgotten when it is full.
#[must_use]
pub fn remembering_last(record: &Record) -> Vec<PastAttempt> {
    let how = match record.state {
        State::Unknown if record.undone => HowEnded::Released,
        State::Unknown => HowEnded::Unknown,
        _ => HowEnded::Lapsed,
    };
    let last = PastAttempt {
        attempt: record.attempt,
        owner: record.owner.clone(),
        claimed_at: record.claimed_at,
        ended_at: record.ended_at.unwrap_or(record.lease_until),
        how,
    };
    let skip = (record.history.len() + 1).saturating_sub(MAX_HISTORY);
    record.history.iter().skip(skip).cloned().chain([last]).collect()
}

fn uncertain(record: &Record) -> Uncertain {
    Uncertain {
        attempt: record.attempt,
        since: record.ended_at.unwrap_or(record.lease_until),
        checkpoint: record.checkpoint.clone(),
        evidence: record.recorded.clone(),
    }
}

/// A finished record always has a response; code 0 stands for a row that lost it.
fn recorded(record: &Record) -> Recorded {
    record.recorded.clone().unwrap_or(Recorded::Tombstone { code: 0 })
}

fn tombstone(record: &Record) -> Recorded {
    Recorded::Tombstone { code: recorded(record).code() }
}

/// Is this the current or last attempt's lease? Token *and* fence (clause X1).
fn owns(record: &Record, lease: &Lease) -> bool {
    record.token == lease.token && record.fence == lease.fence
}

fn holds(record: &Record, lease: &Lease) -> bool {
    record.state == State::Processing && owns(record, lease)
}

fn ended_by_completion(record: &Record) -> bool {
    match record.state {
        State::Succeeded | State::Failed | State::Spent(_) => true,
        State::Unknown => !record.undone,
        State::Processing | State::Released => false,
    }
}
