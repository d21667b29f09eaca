//! Machines that are broken in one place each. The exploration must find every one of them, by the property that the
//! broken place is there for: an exploration that finds nothing in these would prove nothing about the real one.

use idem_core::machine::{self, Purge, Rewrite, Rules, Seen, Step};
use idem_core::{
    Claim, Claimed, Complete, Completed, Fence, Lease, Record, Release, Released, Renew, Renewed, State, StoreTime,
};

use crate::decisions::{Basis, Decisions};
use crate::properties::{
    CHECKPOINTS_STAY, CLEAN_IS_CLEAN, ECHO_IS_TRUE, FENCES_GROW, FINISHED_STAYS, GRANTED_ONCE, LEASES_GROW,
    LOST_CHANGES_NOTHING, NO_PREEMPTION, NOTHING_STUCK, ONE_OWNER, RETRY_AFTER, SECOND_EFFECT_ALLOWED,
};
use crate::setting::Setting;
use crate::settings;

/// One broken machine.
pub(crate) struct Broken {
    /// What is wrong with it.
    pub(crate) defect: &'static str,
    pub(crate) decisions: Decisions,
    /// Where the defect is in reach.
    pub(crate) setting: fn() -> Setting,
    /// What it breaks.
    pub(crate) breaks: &'static str,
}

const REAL: Decisions = Decisions::REAL;

/// All of them.
pub(crate) const ALL: &[Broken] = &[
    Broken {
        defect: "a rewrite does not look whether the row is as it was seen",
        decisions: Decisions { stands: |_, _, _, _, _, _| true, ..REAL },
        setting: settings::take_over,
        breaks: FINISHED_STAYS,
    },
    Broken {
        defect: "a rewrite is judged by the clock of the read, and takes over past `within`",
        decisions: Decisions { stands: as_seen, ..REAL },
        setting: settings::take_over,
        breaks: SECOND_EFFECT_ALLOWED,
    },
    Broken {
        defect: "a rewrite is judged by the clock of the read, and the clock steps back: a running lease is taken over",
        decisions: Decisions { stands: as_seen, ..REAL },
        setting: settings::step_back,
        breaks: NO_PREEMPTION,
    },
    Broken {
        defect: "a rewrite is judged by the clock of the read, and the clock steps back: a held attempt is taken over",
        decisions: Decisions { stands: as_seen, ..REAL },
        setting: settings::step_back,
        breaks: SECOND_EFFECT_ALLOWED,
    },
    Broken {
        defect: "a rewrite compares the fence alone",
        decisions: Decisions { stands: |_, seen, record, _, _, _| seen.fence == record.fence, ..REAL },
        setting: settings::hold,
        breaks: SECOND_EFFECT_ALLOWED,
    },
    Broken {
        defect: "a rewrite writes back the row as it was read, and forgets that the work was announced",
        decisions: Decisions { basis: Basis::Copy, ..REAL },
        setting: settings::hold_repeating,
        breaks: SECOND_EFFECT_ALLOWED,
    },
    Broken {
        defect: "the first statement of a claim takes over by itself (no C13)",
        decisions: Decisions { alone: |step| !matches!(step, Step::Rewrite(Rewrite::Repeat, _)), ..REAL },
        setting: settings::take_over,
        breaks: GRANTED_ONCE,
    },
    Broken {
        defect: "a takeover forgets that an earlier attempt may have run",
        decisions: Decisions { rewritten: forgetting_who_ran, ..REAL },
        setting: settings::release,
        breaks: CLEAN_IS_CLEAN,
    },
    Broken {
        defect: "a takeover forgets the checkpoint",
        decisions: Decisions { rewritten: forgetting_the_checkpoint, ..REAL },
        setting: settings::checkpoint,
        breaks: CHECKPOINTS_STAY,
    },
    Broken {
        defect: "a takeover changes the token and keeps the fence",
        decisions: Decisions { rewritten: keeping_the_fence, ..REAL },
        setting: settings::take_over,
        breaks: FENCES_GROW,
    },
    Broken {
        defect: "a new life after a release takes its fence from the clock alone",
        decisions: Decisions { rewritten: fence_of_the_clock, ..REAL },
        setting: settings::release,
        breaks: FENCES_GROW,
    },
    Broken {
        defect: "the policy is not asked",
        decisions: Decisions { claim: without_policy, stands: as_seen, ..REAL },
        setting: settings::hold,
        breaks: SECOND_EFFECT_ALLOWED,
    },
    Broken {
        defect: "the claimant's policy overrides the record's",
        decisions: Decisions { claim: by_the_claimants_policy, stands: as_seen, ..REAL },
        setting: settings::mixed,
        breaks: SECOND_EFFECT_ALLOWED,
    },
    Broken {
        defect: "a lapsed record is never taken over",
        decisions: Decisions { claim: never_taking_over, ..REAL },
        setting: settings::take_over,
        breaks: NOTHING_STUCK,
    },
    Broken {
        defect: "a lapsed record that never began is held all the same (no C14)",
        decisions: Decisions { created: |claim, now| begun(machine::created(claim, now)), ..REAL },
        setting: settings::hold,
        breaks: NOTHING_STUCK,
    },
    Broken {
        defect: "a finished record is free at once",
        decisions: Decisions { claim: without_retention, stands: as_seen, ..REAL },
        setting: settings::take_over,
        breaks: FINISHED_STAYS,
    },
    Broken {
        defect: "a record that took long to finish is over age at once (no F6b)",
        decisions: Decisions { complete: without_floor, ..REAL },
        setting: settings::old_results,
        breaks: FINISHED_STAYS,
    },
    Broken {
        defect: "whoever waits is told to come back at once",
        decisions: Decisions { claim: impatient, ..REAL },
        setting: settings::take_over,
        breaks: RETRY_AFTER,
    },
    Broken {
        defect: "a renewal does not note that the work begins",
        decisions: Decisions { renew: unannounced, ..REAL },
        setting: settings::hold,
        breaks: SECOND_EFFECT_ALLOWED,
    },
    Broken {
        defect: "a worker does not announce its work under Hold",
        decisions: Decisions { announces: |_| false, ..REAL },
        setting: settings::hold,
        breaks: SECOND_EFFECT_ALLOWED,
    },
    Broken {
        defect: "a renewal revives what is finished",
        decisions: Decisions { renew: reviving, ..REAL },
        setting: settings::checkpoint,
        breaks: FINISHED_STAYS,
    },
    Broken {
        defect: "a lost renewal still lengthens the lease",
        decisions: Decisions { renew: lost_but_written, ..REAL },
        setting: settings::checkpoint,
        breaks: LOST_CHANGES_NOTHING,
    },
    Broken {
        defect: "a renewal counts from now even when that is less",
        decisions: Decisions { renew: shortening, ..REAL },
        setting: settings::step_back,
        breaks: LEASES_GROW,
    },
    Broken {
        defect: "a completion does not look at the token",
        decisions: Decisions { complete: of_any_token, ..REAL },
        setting: settings::take_over,
        breaks: ONE_OWNER,
    },
    Broken {
        defect: "a completion that lost says that it was stored before",
        decisions: Decisions { complete: echoing, ..REAL },
        setting: settings::take_over,
        breaks: ECHO_IS_TRUE,
    },
    Broken {
        defect: "a release of a later attempt frees the identity",
        decisions: Decisions { release: freeing, ..REAL },
        setting: settings::release,
        breaks: CLEAN_IS_CLEAN,
    },
    Broken {
        defect: "a release frees a lease that was taken over",
        decisions: Decisions { release: of_any_lease, ..REAL },
        setting: settings::release,
        breaks: ONE_OWNER,
    },
    Broken {
        defect: "purge deletes without a quarantine",
        decisions: Decisions { purge: without_quarantine, ..REAL },
        setting: settings::purge_released,
        breaks: GRANTED_ONCE,
    },
    Broken {
        defect: "purge deletes held evidence",
        decisions: Decisions { purge: without_evidence, ..REAL },
        setting: settings::purge_held,
        breaks: SECOND_EFFECT_ALLOWED,
    },
    Broken {
        defect: "purge deletes what is still remembered",
        decisions: Decisions {
            purge: |record, now, rules| machine::purge(record, now, &Rules { remember: None, ..*rules }),
            ..REAL
        },
        setting: settings::remembered,
        breaks: FINISHED_STAYS,
    },
];

fn as_seen(_: Rewrite, seen: &Seen, record: &Record, _: &Claim, _: StoreTime, _: &Rules) -> bool {
    *seen == Seen::of(record)
}

fn forgetting_who_ran(how: Rewrite, record: &Record, claim: &Claim, now: StoreTime) -> Record {
    let record = Record { ran_since: None, ..record.clone() };
    machine::rewritten(how, &record, claim, now)
}

fn forgetting_the_checkpoint(how: Rewrite, record: &Record, claim: &Claim, now: StoreTime) -> Record {
    Record { checkpoint: None, ..machine::rewritten(how, record, claim, now) }
}

fn keeping_the_fence(how: Rewrite, record: &Record, claim: &Claim, now: StoreTime) -> Record {
    Record { fence: record.fence, ..machine::rewritten(how, record, claim, now) }
}

fn fence_of_the_clock(how: Rewrite, record: &Record, claim: &Claim, now: StoreTime) -> Record {
    let rewritten = machine::rewritten(how, record, claim, now);
    match how {
        Rewrite::NewLife => Record { fence: Fence::new(now.as_micros()), ..rewritten },
        Rewrite::TakeOver | Rewrite::Repeat => rewritten,
    }
}

fn without_policy(record: Option<&Record>, claim: &Claim, now: StoreTime, rules: &Rules) -> Step {
    let unbegun = record.map(|record| Record { ran_since: None, ..record.clone() });
    machine::claim(unbegun.as_ref(), claim, now, rules)
}

fn by_the_claimants_policy(record: Option<&Record>, claim: &Claim, now: StoreTime, rules: &Rules) -> Step {
    let converted = record.map(|record| Record { on_uncertain: claim.on_uncertain(), ..record.clone() });
    machine::claim(converted.as_ref(), claim, now, rules)
}

fn never_taking_over(record: Option<&Record>, claim: &Claim, now: StoreTime, rules: &Rules) -> Step {
    match (machine::claim(record, claim, now, rules), record) {
        (Step::Rewrite(Rewrite::TakeOver, _), Some(record)) => Step::Answer(Claimed::Uncertain(idem_core::Uncertain {
            attempt: record.attempt,
            since: now,
            checkpoint: None,
            evidence: None,
        })),
        (step, _) => step,
    }
}

fn without_retention(record: Option<&Record>, claim: &Claim, now: StoreTime, rules: &Rules) -> Step {
    let aged = record.map(|record| Record { expires_at: record.created_at, ..record.clone() });
    machine::claim(aged.as_ref(), claim, now, rules)
}

fn impatient(record: Option<&Record>, claim: &Claim, now: StoreTime, rules: &Rules) -> Step {
    match machine::claim(record, claim, now, rules) {
        Step::Answer(Claimed::InFlight { .. }) => {
            Step::Answer(Claimed::InFlight { retry_after: std::time::Duration::ZERO })
        }
        step => step,
    }
}

fn begun(record: Record) -> Record {
    Record { ran_since: Some(record.attempt), ..record }
}

fn unannounced(record: Option<&Record>, renew: &Renew, now: StoreTime) -> (Renewed, Option<Record>) {
    let (answer, changed) = machine::renew(record, renew, now);
    let before = record.and_then(|record| record.ran_since);
    (answer, changed.map(|changed| Record { ran_since: before, ..changed }))
}

fn reviving(record: Option<&Record>, renew: &Renew, now: StoreTime) -> (Renewed, Option<Record>) {
    let revived = record.map(|record| Record { state: State::Processing, ..record.clone() });
    machine::renew(revived.as_ref(), renew, now)
}

fn lost_but_written(record: Option<&Record>, renew: &Renew, now: StoreTime) -> (Renewed, Option<Record>) {
    match (machine::renew(record, renew, now), record) {
        ((Renewed::Lost, None), Some(record)) if record.state == State::Processing => {
            (Renewed::Lost, Some(Record { lease_until: now.plus(renew.length()), ..record.clone() }))
        }
        (answer, _) => answer,
    }
}

fn shortening(record: Option<&Record>, renew: &Renew, now: StoreTime) -> (Renewed, Option<Record>) {
    let (answer, changed) = machine::renew(record, renew, now);
    (answer, changed.map(|changed| Record { lease_until: now.plus(renew.length()), ..changed }))
}

/// The lease that the record is held by, whoever asks.
fn forged(record: Option<&Record>, lease: &Lease) -> Lease {
    record.map_or(lease.clone(), |record| Lease { token: record.token, fence: record.fence, ..lease.clone() })
}

fn of_any_token(
    record: Option<&Record>,
    complete: &Complete,
    now: StoreTime,
    rules: &Rules,
) -> (Completed, Option<Record>) {
    let forged = Complete::new(forged(record, complete.lease()), complete.end().clone());
    machine::complete(record, &forged, now, rules)
}

fn without_floor(
    record: Option<&Record>,
    complete: &Complete,
    now: StoreTime,
    rules: &Rules,
) -> (Completed, Option<Record>) {
    let (answer, changed) = machine::complete(record, complete, now, rules);
    let unmoved = |changed: Record| Record { expires_at: record.map_or(now, |before| before.expires_at), ..changed };
    (answer, changed.map(unmoved))
}

fn echoing(record: Option<&Record>, complete: &Complete, now: StoreTime, rules: &Rules) -> (Completed, Option<Record>) {
    match machine::complete(record, complete, now, rules) {
        (Completed::Lost, None) => (Completed::AlreadyStored, None),
        answer => answer,
    }
}

fn freeing(record: Option<&Record>, release: &Release, now: StoreTime) -> (Released, Option<Record>) {
    machine::release(record, &Release::of_every_attempt(release.lease().clone()), now)
}

fn of_any_lease(record: Option<&Record>, release: &Release, now: StoreTime) -> (Released, Option<Record>) {
    machine::release(record, &Release::new(forged(record, release.lease())), now)
}

fn without_quarantine(record: &Record, now: StoreTime, rules: &Rules) -> Purge {
    match record.state {
        State::Released if record.expires_at <= now => Purge::Delete,
        _ => machine::purge(record, now, rules),
    }
}

fn without_evidence(record: &Record, now: StoreTime, rules: &Rules) -> Purge {
    match record.state {
        State::Processing | State::Unknown if record.lease_until.plus(rules.quarantine) <= now => Purge::Delete,
        _ => machine::purge(record, now, rules),
    }
}
