//! What must hold in every state, and what must be reached in some.

use idem_core::machine::{Purge, Step};
use idem_core::{
    Claim, Claimed, Complete, Completed, End, OnUncertain, Recorded, Release, Released, Renew, Renewed, Response, State,
};
use stateright::Property;

use crate::ledger::{Breach, Ending, Why, Written};
use crate::setting::{Role, Script, Setting, TAKE_OVER};
use crate::values::{Row, at};
use crate::world::World;

pub(crate) const ONE_OWNER: &str = "at most one token is current, and it is the last granted";
pub(crate) const FENCES_GROW: &str = "fences grow";
pub(crate) const FINISHED_STAYS: &str = "a finished record never changes inside retention";
pub(crate) const LOST_CHANGES_NOTHING: &str = "Lost changes nothing";
pub(crate) const SECOND_EFFECT_ALLOWED: &str = "every second effect passed through an allowed takeover";
pub(crate) const CLEAN_IS_CLEAN: &str = "nobody starts as if nothing ran when something did";
pub(crate) const NOTHING_STUCK: &str = "nothing is stuck for ever";
pub(crate) const LEASES_GROW: &str = "no lease is cut short";
pub(crate) const NO_PREEMPTION: &str = "a running lease is never taken over";
pub(crate) const GRANTED_ONCE: &str = "one statement grants once, however often it arrives";
pub(crate) const CHECKPOINTS_STAY: &str = "a checkpoint is never lost";
pub(crate) const ECHO_IS_TRUE: &str = "AlreadyStored is said only of what was stored";
pub(crate) const RETRY_AFTER: &str = "retry_after is above zero and at most what is left";

pub(crate) const A_SUCCESS: &str = "an operation succeeds";
pub(crate) const A_TAKEOVER: &str = "a takeover happens";
pub(crate) const A_SECOND_EFFECT: &str = "a second effect happens after a takeover";
pub(crate) const THREE_ATTEMPTS: &str = "a third attempt happens";
pub(crate) const AN_IDLE_TAKEOVER: &str = "a lapsed attempt that never began is taken over under Hold";
pub(crate) const A_HELD_RECORD: &str = "a record is held";
pub(crate) const A_CLEARED_RECORD: &str = "a resolver clears a record";
pub(crate) const A_RELEASE: &str = "a released record lives again";
pub(crate) const ANOTHER_REQUEST: &str = "a released key is given to another request";
pub(crate) const A_PURGE: &str = "a record is created where one was purged";
pub(crate) const AN_OLD_RESULT: &str = "a finished record over age is run again";
pub(crate) const A_SPENT_RECORD: &str = "a record is spent";
pub(crate) const A_STEP_BACK: &str = "the clock steps back while a lease runs";

/// What holds in every state of every setting.
pub(crate) const PROMISES: [&str; 13] = [
    ONE_OWNER,
    FENCES_GROW,
    FINISHED_STAYS,
    LOST_CHANGES_NOTHING,
    SECOND_EFFECT_ALLOWED,
    CLEAN_IS_CLEAN,
    NOTHING_STUCK,
    LEASES_GROW,
    NO_PREEMPTION,
    GRANTED_ONCE,
    CHECKPOINTS_STAY,
    ECHO_IS_TRUE,
    RETRY_AFTER,
];

/// The properties of this setting.
pub(crate) fn all(setting: &Setting) -> Vec<Property<Setting>> {
    let reached = [
        sometimes(A_SUCCESS, |_, world| matches!(ending(world), Some(Ending::Finished(_)))),
        sometimes(A_TAKEOVER, |_, world| was_written(world, Written::TakeOver, Why::Allowed)),
        sometimes(A_SECOND_EFFECT, |_, world| world.ledger.effects() > 1),
        sometimes(THREE_ATTEMPTS, |_, world| world.record.as_ref().is_some_and(|row| row.0.attempt > 2)),
        sometimes(AN_IDLE_TAKEOVER, |_, world| was_written(world, Written::TakeOver, Why::Clean)),
        sometimes(A_HELD_RECORD, is_held),
        sometimes(A_CLEARED_RECORD, |_, world| ending(world) == Some(Ending::Cleared)),
        sometimes(A_RELEASE, |_, world| was_written(world, Written::NewLife, Why::Clean)),
        sometimes(ANOTHER_REQUEST, |_, world| {
            world.ledger.chain().windows(2).any(|pair| pair[0].request != pair[1].request)
        }),
        sometimes(A_PURGE, |_, world| world.ledger.grants.iter().skip(1).any(|grant| grant.written == Written::Insert)),
        sometimes(AN_OLD_RESULT, |_, world| was_written(world, Written::NewLife, Why::Fresh)),
        sometimes(A_SPENT_RECORD, |setting, world| {
            world.ledger.remembers(world.now, &setting.rules) && !world.ledger.replays(world.now, &setting.rules)
        }),
        sometimes(A_STEP_BACK, |_, world| {
            world.stepped && world.record.as_ref().is_some_and(|row| row.0.lease_left(at(world.now.into())).is_some())
        }),
    ];
    let promised = [
        always(ONE_OWNER, one_owner),
        always(FENCES_GROW, |_, world| {
            world.ledger.grants.windows(2).all(|pair| pair[0].held.fence < pair[1].held.fence)
        }),
        always(FINISHED_STAYS, |_, world| !world.ledger.has(Breach::FinishedChanged)),
        always(LOST_CHANGES_NOTHING, |_, world| !world.ledger.has(Breach::LostChanged)),
        always(SECOND_EFFECT_ALLOWED, second_effect_allowed),
        always(CLEAN_IS_CLEAN, clean_is_clean),
        always(NOTHING_STUCK, nothing_stuck),
        always(LEASES_GROW, |_, world| !world.ledger.has(Breach::LeaseShortened)),
        always(NO_PREEMPTION, |_, world| !world.ledger.has(Breach::RunningPreempted)),
        always(GRANTED_ONCE, |_, world| !world.ledger.has(Breach::GrantedTwice)),
        always(CHECKPOINTS_STAY, |_, world| !world.ledger.has(Breach::CheckpointLost)),
        always(ECHO_IS_TRUE, |_, world| !world.ledger.has(Breach::FalseEcho)),
        always(RETRY_AFTER, |_, world| !world.ledger.has(Breach::WrongRetryAfter)),
    ];
    let reached = reached.into_iter().filter(|property| setting.reaches.contains(&property.name));
    promised.into_iter().chain(reached).collect()
}

fn always(name: &'static str, condition: fn(&Setting, &World) -> bool) -> Property<Setting> {
    Property::always(name, condition)
}

fn sometimes(name: &'static str, condition: fn(&Setting, &World) -> bool) -> Property<Setting> {
    Property::sometimes(name, condition)
}

fn ending(world: &World) -> Option<Ending> {
    world.ledger.life.as_ref().map(|life| life.ending)
}

fn was_written(world: &World, written: Written, why: Why) -> bool {
    world.ledger.grants.iter().any(|grant| grant.written == written && grant.why == why)
}

fn is_held(setting: &Setting, world: &World) -> bool {
    let claim = setting.workers[0].claim(u8::MAX);
    let found = world.record.as_ref().map(|row| &row.0);
    let step = (setting.decisions.claim)(found, &claim, at(world.now.into()), &setting.rules);
    matches!(step, Step::Answer(Claimed::Uncertain(_)))
}

/// Asks the record what it would do for every lease that was ever granted.
fn one_owner(setting: &Setting, world: &World) -> bool {
    let found = world.record.as_ref().map(|row| &row.0);
    let now = at(world.now.into());
    let is_current = |place: usize| {
        let grant = &world.ledger.grants[place];
        let lease = grant.held.lease(setting.workers[grant.by.worker].lease);
        let end = End::Succeeded(Recorded::Response(Response::new(200)));
        let complete = Complete::new(lease.clone(), end);
        let release = Release::new(lease.clone());
        (setting.decisions.renew)(found, &Renew::new(lease), now).0 == Renewed::Held
            || (setting.decisions.complete)(found, &complete, now, &setting.rules).0 == Completed::Stored
            || matches!((setting.decisions.release)(found, &release, now), (Released::Released, Some(_)))
    };
    (1..world.ledger.grants.len()).all(|next| !is_current(next - 1))
}

/// Between any two effects there is a grant that accepted that there may be a second, or a fresh start.
fn second_effect_allowed(_: &Setting, world: &World) -> bool {
    let grants = &world.ledger.grants;
    let with_effect: Vec<usize> = (0..grants.len()).filter(|place| grants[*place].effect).collect();
    with_effect.windows(2).all(|pair| grants[pair[0] + 1..=pair[1]].iter().any(|grant| grant.why != Why::Clean))
}

/// A grant that nothing but "nothing happened" permits follows no effect, and no effect of an earlier grant follows it.
fn clean_is_clean(_: &Setting, world: &World) -> bool {
    let grants = &world.ledger.grants;
    (0..grants.len()).filter(|place| grants[*place].why == Why::Clean).all(|place| {
        let start = world.ledger.chain_start(place);
        grants[start..place].iter().all(|grant| !grant.effect)
    })
}

/// From here, when all are silent and time passes, somebody gets in or gets the result: anybody under TakeOver, and as
/// soon as the lease is over when that is inside `within`; under Hold a resolver, and anybody as long as nobody began.
fn nothing_stuck(setting: &Setting, world: &World) -> bool {
    let holds = setting.workers.iter().any(|script| script.on_uncertain == OnUncertain::Hold);
    let request = world.ledger.grants.last().map_or(1, |grant| grant.request);
    let script = |on_uncertain| Script::new(on_uncertain).asking(request);
    if !holds {
        let claim = script(TAKE_OVER).claim(u8::MAX);
        return gets_in(setting, world, &claim) && (!lapses_within(world) || gets_in_at_lapse(setting, world, &claim));
    }
    let resolver = Script { role: Role::Resolves, ..script(OnUncertain::Hold) };
    let life = world.ledger.grants.iter().rposition(|grant| grant.written != Written::TakeOver).unwrap_or(0);
    let began = world.ledger.grants[life..].iter().any(|grant| grant.began);
    gets_in(setting, world, &resolver.claim(u8::MAX))
        && (began || gets_in(setting, world, &script(OnUncertain::Hold).claim(u8::MAX)))
}

/// Is an attempt going to lapse, or lapsed, while its life is younger than `within`?
fn lapses_within(world: &World) -> bool {
    let (Some(Row(record)), Some(life)) = (&world.record, &world.ledger.life) else { return false };
    let OnUncertain::TakeOver { within } = life.on_uncertain else { return false };
    let over = at(life.born.into()).plus(within);
    record.state == State::Processing && record.lease_until.max(at(world.now.into())) < over
}

fn gets_in_at_lapse(setting: &Setting, world: &World, claim: &Claim) -> bool {
    world.record.as_ref().is_some_and(|Row(record)| {
        let now = record.lease_until.max(at(world.now.into()));
        matches!((setting.decisions.claim)(Some(record), claim, now, &setting.rules), Step::Rewrite(..))
    })
}

/// Claims again and again, with time and purges in between, past the horizon of the exploration if need be. Every step
/// of it is one that the model allows, so this shows a way out of this very state.
fn gets_in(setting: &Setting, world: &World, claim: &Claim) -> bool {
    const PATIENCE: u64 = 20;
    let mut row = world.record.clone();
    (u64::from(world.now)..).take(PATIENCE as usize).any(|tick| {
        let now = at(tick);
        if let Some(Row(record)) = &row
            && (setting.decisions.purge)(record, now, &setting.rules) == Purge::Delete
        {
            row = None;
        }
        let found = row.as_ref().map(|row| &row.0);
        match (setting.decisions.claim)(found, claim, now, &setting.rules) {
            Step::Insert => true,
            Step::Rewrite(how, seen) => {
                found.is_some_and(|found| (setting.decisions.stands)(how, &seen, found, claim, now, &setting.rules))
            }
            Step::Answer(answer) => matches!(answer, Claimed::Replay(_)),
        }
    })
}
