//! What one exploration is about: who takes part, what the store keeps for how long, and what may go wrong.

use idem_core::machine::Rules;
use idem_core::{Claim, OnUncertain, Span};

use crate::decisions::Decisions;
use crate::values::{Tick, fingerprint, identity, operation, ticks, token};

/// One bounded exploration.
#[derive(Clone)]
pub(crate) struct Setting {
    pub(crate) workers: Vec<Script>,
    pub(crate) rules: Rules,
    pub(crate) decisions: Decisions,
    /// The last tick.
    pub(crate) horizon: Tick,
    /// Clause P7's assumption: no statement is delayed this long. None: however long; then nothing may be deleted.
    pub(crate) delay: Option<Tick>,
    pub(crate) purges: Purges,
    /// How far the store's clock may step back, once. Zero: never.
    pub(crate) step_back: Tick,
    /// What must be reachable, so that the exploration is known to have been there.
    pub(crate) reaches: &'static [&'static str],
}

/// Does a purge run in between?
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Purges {
    Never,
    AtAnyTime,
}

/// What one worker does.
#[derive(Clone, Copy)]
pub(crate) struct Script {
    pub(crate) on_uncertain: OnUncertain,
    pub(crate) role: Role,
    /// Which of two requests it sends.
    pub(crate) request: u8,
    pub(crate) lease: Span,
    pub(crate) retention: Span,
    /// How many tokens it may draw: after a crash, or to ask again.
    pub(crate) calls: u8,
    pub(crate) habits: Habits,
}

/// Whether it works or decides.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Role {
    Works,
    /// A person or reconciler: takes over even what is held, looks at the outside world, and says how it was.
    Resolves,
}

/// What a worker does beside claim, effect, complete.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Habits {
    /// Repeats a claim with the same token when its reply does not come.
    pub(crate) repeats: bool,
    /// Renews while it runs.
    pub(crate) beats: bool,
    /// Leaves checkpoints up to this number.
    pub(crate) checkpoints: u8,
    /// May give the attempt back instead of running it.
    pub(crate) releases: bool,
    /// May end without knowing, before or after its effect.
    pub(crate) panics: bool,
}

/// Take over within two ticks: past it, nobody does.
pub(crate) const TAKE_OVER: OnUncertain = OnUncertain::TakeOver { within: ticks(2) };

impl Script {
    pub(crate) const fn new(on_uncertain: OnUncertain) -> Script {
        Script {
            on_uncertain,
            role: Role::Works,
            request: 1,
            lease: ticks(1),
            retention: ticks(2),
            calls: 2,
            habits: Habits { repeats: false, beats: false, checkpoints: 0, releases: false, panics: false },
        }
    }

    pub(crate) const fn resolver() -> Script {
        Script { role: Role::Resolves, calls: 1, ..Script::new(OnUncertain::Hold) }
    }

    pub(crate) const fn calls(mut self, calls: u8) -> Script {
        self.calls = calls;
        self
    }

    pub(crate) const fn leasing(mut self, count: u64) -> Script {
        self.lease = ticks(count);
        self
    }

    pub(crate) const fn retaining(mut self, count: u64) -> Script {
        self.retention = ticks(count);
        self
    }

    pub(crate) const fn asking(mut self, request: u8) -> Script {
        self.request = request;
        self
    }

    pub(crate) const fn repeats(mut self) -> Script {
        self.habits.repeats = true;
        self
    }

    pub(crate) const fn beats(mut self) -> Script {
        self.habits.beats = true;
        self
    }

    pub(crate) const fn checkpoints(mut self, up_to: u8) -> Script {
        self.habits.checkpoints = up_to;
        self
    }

    pub(crate) const fn releases(mut self) -> Script {
        self.habits.releases = true;
        self
    }

    pub(crate) const fn panics(mut self) -> Script {
        self.habits.panics = true;
        self
    }

    /// The claim that this worker sends with this token.
    pub(crate) fn claim(&self, name: u8) -> Claim {
        let builder = Claim::builder(identity(), operation(), fingerprint(self.request))
            .token(token(name))
            .lease(self.lease)
            .retention(self.retention)
            .on_uncertain(self.on_uncertain);
        let builder = match self.role {
            Role::Works => builder,
            Role::Resolves => builder.resolving(),
        };
        #[allow(clippy::expect_used)] // Every script's retention is at least its lease.
        builder.build().expect("a valid claim")
    }
}

impl Setting {
    /// These workers, without purge and so without a bound on how late a statement arrives.
    pub(crate) fn of(workers: Vec<Script>, horizon: Tick) -> Setting {
        let rules = Rules { floor: ticks(1), remember: None, evidence: Some(ticks(1)), quarantine: ticks(2) };
        Setting {
            workers,
            rules,
            decisions: Decisions::REAL,
            horizon,
            delay: None,
            purges: Purges::Never,
            step_back: 0,
            reaches: &[],
        }
    }

    /// The same with purge at any time. Statements are delayed for less than the quarantine (clause P7).
    pub(crate) fn purging(mut self) -> Setting {
        self.purges = Purges::AtAnyTime;
        self.delay = Some(2);
        self
    }

    /// The same with a store that remembers finished records past their retention.
    pub(crate) fn remembering(mut self, count: u64) -> Setting {
        self.rules.remember = Some(ticks(count));
        self
    }

    /// The same with a clock that steps back once.
    pub(crate) fn stepping_back(mut self, by: Tick) -> Setting {
        self.step_back = by;
        self
    }

    /// The same with other decisions.
    pub(crate) fn deciding(mut self, decisions: Decisions) -> Setting {
        self.decisions = decisions;
        self
    }

    /// Says what must be reachable.
    pub(crate) fn reaching(mut self, reaches: &'static [&'static str]) -> Setting {
        self.reaches = reaches;
        self
    }
}
