//! A worker: the executor's protocol, step by step, with a crash possible between any two.

use crate::network::{EndAs, Message, Statement, Whose};
use crate::server::Reply;
use crate::setting::{Role, Script, Setting};
use crate::values::Held;
use crate::world::World;

/// Where one worker is.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Worker {
    /// How many tokens it has drawn.
    pub(crate) drawn: u8,
    /// May the current call still be repeated with its token?
    pub(crate) patient: bool,
    pub(crate) phase: Phase,
}

/// What a worker is doing. It may stay in any phase for as long as it likes: a pause.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Phase {
    Idle,
    /// A claim waits for the answer to its first statement.
    Looking,
    /// A claim waits for the answer to its second.
    Rewriting(Statement),
    /// Granted under Hold: the work must not start before the store knows of it.
    Announcing(Held),
    /// May change the outside world now.
    Running(Held),
    /// Has changed it, and nobody knows yet.
    Ran(Held),
    /// Waits to hear that its end is stored.
    Ending(Statement),
}

/// What a worker may do by itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Act {
    /// Claims with a new token.
    Start,
    /// The claim's reply does not come: claims again with the same token.
    Retry,
    /// Forgets everything; the next claim has a new token.
    Crash,
    /// Changes the outside world.
    Effect,
    /// Renews, and leaves this checkpoint.
    Beat(Option<u8>),
    /// Reports how it ended.
    Report(EndAs),
    /// Says that nothing happened.
    Release(Whose),
}

impl Worker {
    pub(crate) fn new() -> Worker {
        Worker { drawn: 0, patient: false, phase: Phase::Idle }
    }

    /// The token of the current call.
    fn token(&self, index: usize) -> u8 {
        u8::try_from(index).unwrap_or(u8::MAX) * 16 + self.drawn
    }
}

/// What this worker may do next.
pub(crate) fn acts(script: &Script, world: &World, index: usize) -> Vec<Act> {
    let worker = &world.workers[index];
    let (habits, more) = (script.habits, worker.drawn < script.calls);
    let mut acts = Vec::new();
    match &worker.phase {
        Phase::Idle if more => acts.push(Act::Start),
        Phase::Looking | Phase::Rewriting(_) if worker.patient => acts.push(Act::Retry),
        Phase::Running(_) => {
            acts.push(Act::Effect);
            if script.role == Role::Resolves {
                acts.push(match world.ledger.effects() {
                    0 => Act::Release(Whose::EveryAttempt),
                    _ => Act::Report(EndAs::Succeeded),
                });
            }
            if habits.releases {
                acts.push(Act::Release(Whose::ThisAttempt));
            }
            if habits.panics {
                acts.push(Act::Report(EndAs::Unknown));
            }
            if habits.beats {
                acts.push(Act::Beat(None));
            }
            acts.extend((1..=habits.checkpoints).map(|number| Act::Beat(Some(number))));
        }
        Phase::Ran(_) => {
            acts.push(Act::Report(EndAs::Succeeded));
            if habits.panics {
                acts.push(Act::Report(EndAs::Unknown));
            }
            if habits.beats {
                acts.push(Act::Beat(None));
            }
        }
        Phase::Idle | Phase::Looking | Phase::Rewriting(_) | Phase::Announcing(_) | Phase::Ending(_) => {}
    }
    // A crash with no token left is a worker that never moves again, which every worker may do anyway.
    if more && worker.phase != Phase::Idle {
        acts.push(Act::Crash);
    }
    acts
}

/// Does it.
pub(crate) fn act(setting: &Setting, world: &mut World, index: usize, act: Act) {
    let phase = world.workers[index].phase.clone();
    let next = match (act, phase) {
        (Act::Start, _) => {
            world.workers[index].drawn += 1;
            world.workers[index].patient = setting.workers[index].habits.repeats;
            send(setting, world, index, Statement::Insert);
            Phase::Looking
        }
        (Act::Retry, _) => {
            world.workers[index].patient = false;
            send(setting, world, index, Statement::Insert);
            Phase::Looking
        }
        (Act::Effect, Phase::Running(held)) => {
            if let Some(grant) = world.ledger.grant_of(held) {
                grant.effect = true;
            }
            Phase::Ran(held)
        }
        (Act::Beat(checkpoint), phase @ (Phase::Running(held) | Phase::Ran(held))) => {
            send(setting, world, index, Statement::Renew { held, checkpoint });
            phase
        }
        (Act::Report(end), Phase::Running(held) | Phase::Ran(held)) => {
            let statement = Statement::Complete { held, end };
            send(setting, world, index, statement.clone());
            Phase::Ending(statement)
        }
        (Act::Release(all), Phase::Running(held)) => {
            let statement = Statement::Release { held, all };
            send(setting, world, index, statement.clone());
            Phase::Ending(statement)
        }
        (Act::Crash | Act::Effect | Act::Beat(_) | Act::Report(_) | Act::Release(_), _) => Phase::Idle,
    };
    world.workers[index].phase = next;
}

/// Does the worker wait for the answer to this statement? Nobody listens for the answers of an ended call.
pub(crate) fn listens(world: &World, message: &Message) -> bool {
    let worker = &world.workers[message.worker];
    message.token == worker.token(message.worker)
        && match (&worker.phase, &message.statement) {
            (Phase::Looking, Statement::Insert) => true,
            (Phase::Rewriting(awaited) | Phase::Ending(awaited), statement) => awaited == statement,
            (Phase::Announcing(held) | Phase::Running(held), Statement::Renew { held: renewed, .. }) => held == renewed,
            _ => false,
        }
}

/// Hears an answer.
pub(crate) fn hear(setting: &Setting, world: &mut World, message: &Message, reply: Reply) {
    let index = message.worker;
    let phase = world.workers[index].phase.clone();
    let next = match (reply, phase) {
        (Reply::Granted(held), _) => {
            let claim = setting.workers[index].claim(message.token);
            if (setting.decisions.announces)(&claim) {
                send(setting, world, index, Statement::Renew { held, checkpoint: None });
                Phase::Announcing(held)
            } else {
                Phase::Running(held)
            }
        }
        (Reply::Rewrite(statement), _) => {
            send(setting, world, index, statement.clone());
            Phase::Rewriting(statement)
        }
        (Reply::LookAgain, _) => {
            send(setting, world, index, Statement::Insert);
            Phase::Looking
        }
        (Reply::Held, Phase::Announcing(held)) => Phase::Running(held),
        (Reply::Held, phase) => phase,
        (Reply::Refused | Reply::Lost | Reply::Ended, _) => Phase::Idle,
    };
    world.workers[index].phase = next;
}

fn send(setting: &Setting, world: &mut World, index: usize, statement: Statement) {
    let sent = if setting.delay.is_some() { world.elapsed(setting) } else { 0 };
    let token = world.workers[index].token(index);
    world.network.send(Message { worker: index, token, sent, statement });
}
