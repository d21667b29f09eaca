//! The whole world of one exploration, and every step that it can take.

use stateright::{Model, Property};

use crate::ledger::Ledger;
use crate::network::Network;
use crate::properties;
use crate::server;
use crate::setting::{Purges, Setting};
use crate::values::{Row, Tick};
use crate::worker::{self, Act, Worker};

/// One state.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct World {
    pub(crate) now: Tick,
    pub(crate) record: Option<Row>,
    pub(crate) network: Network,
    pub(crate) workers: Vec<Worker>,
    /// Has the clock stepped back?
    pub(crate) stepped: bool,
    pub(crate) ledger: Ledger,
}

/// One step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Move {
    /// Time passes: leases lapse, records age.
    Tick,
    /// The store's clock steps back, once.
    ClockBack,
    Purge,
    /// A worker does something by itself.
    Act(usize, Act),
    /// The message at this place reaches the store, and its reply is heard by a worker that waits for it.
    Deliver(usize),
    /// The same, but the reply is lost.
    DeliverUnheard(usize),
}

impl World {
    /// Ticks that really passed. A clock that steps back does not make a statement younger.
    pub(crate) fn elapsed(&self, setting: &Setting) -> Tick {
        if self.stepped { self.now + setting.step_back } else { self.now }
    }
}

impl Model for Setting {
    type State = World;
    type Action = Move;

    fn init_states(&self) -> Vec<World> {
        vec![World {
            now: 0,
            record: None,
            network: Network::default(),
            workers: vec![Worker::new(); self.workers.len()],
            stepped: false,
            ledger: Ledger::default(),
        }]
    }

    fn actions(&self, world: &World, steps: &mut Vec<Move>) {
        if world.now < self.horizon {
            steps.push(Move::Tick);
        }
        if self.step_back > 0 && !world.stepped && world.now >= self.step_back {
            steps.push(Move::ClockBack);
        }
        if self.purges == Purges::AtAnyTime && world.record.is_some() {
            steps.push(Move::Purge);
        }
        for (index, script) in self.workers.iter().enumerate() {
            steps.extend(worker::acts(script, world, index).into_iter().map(|act| Move::Act(index, act)));
        }
        for (place, message) in world.network.messages().iter().enumerate() {
            steps.push(Move::DeliverUnheard(place));
            if worker::listens(world, message) {
                steps.push(Move::Deliver(place));
            }
        }
    }

    fn next_state(&self, last: &World, step: Move) -> Option<World> {
        let mut world = last.clone();
        match step {
            Move::Tick => {
                world.now += 1;
                if let Some(delay) = self.delay {
                    world.network.expire(world.elapsed(self), delay);
                }
            }
            Move::ClockBack => {
                world.now -= self.step_back;
                world.stepped = true;
            }
            Move::Purge => server::purge(self, &mut world),
            Move::Act(index, act) => worker::act(self, &mut world, index, act),
            Move::Deliver(place) => {
                let message = last.network.messages().get(place)?;
                let reply = server::execute(self, &mut world, message);
                worker::hear(self, &mut world, message, reply);
            }
            Move::DeliverUnheard(place) => {
                server::execute(self, &mut world, last.network.messages().get(place)?);
            }
        }
        // A step that changes nothing leads nowhere new.
        (world != *last).then_some(world)
    }

    fn properties(&self) -> Vec<Property<Setting>> {
        properties::all(self)
    }
}
