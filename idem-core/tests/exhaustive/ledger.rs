//! What really happened: grants, effects in the outside world, and breaches seen on the way.
//!
//! No decision reads this. It is written from what the statements did and from the policies, never from what the
//! machine says about itself, so that it can contradict the machine.

use idem_core::machine::{Rewrite, Rules};
use idem_core::{Claim, OnUncertain, Record, Span};

use crate::network::{EndAs, Message, Whose};
use crate::setting::Setting;
use crate::values::{Held, Tick, at};

/// What really happened so far.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct Ledger {
    /// Every grant that was ever written, oldest first.
    pub(crate) grants: Vec<Grant>,
    pub(crate) life: Option<Life>,
    pub(crate) breaches: Vec<Breach>,
}

/// One grant.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Grant {
    pub(crate) held: Held,
    /// The statement that wrote it.
    pub(crate) by: Message,
    pub(crate) written: Written,
    pub(crate) why: Why,
    pub(crate) request: u8,
    /// The store was told that its work begins, or its claim never promised to tell.
    pub(crate) began: bool,
    /// It has changed the outside world.
    pub(crate) effect: bool,
    /// The store has stored its end.
    pub(crate) completed: bool,
}

/// How a grant came into the record.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Written {
    Insert,
    NewLife,
    TakeOver,
}

impl From<Rewrite> for Written {
    /// A repeat writes no grant of its own; it is never asked for one.
    fn from(how: Rewrite) -> Written {
        match how {
            Rewrite::NewLife | Rewrite::Repeat => Written::NewLife,
            Rewrite::TakeOver => Written::TakeOver,
        }
    }
}

/// What a grant says about the effects of the grants before it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Why {
    /// They do not count any more: there were none, they are past what the store promised to keep, or a resolver
    /// has looked.
    Fresh,
    /// There may be some, and the policy or a resolver accepts that.
    Allowed,
    /// Nothing permits a second effect: the grant is right only if there was none, and never will be.
    Clean,
}

/// From the creation of a record, or the re-use of a free one, to the next.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Life {
    pub(crate) on_uncertain: OnUncertain,
    pub(crate) born: Tick,
    pub(crate) retention: Span,
    pub(crate) ending: Ending,
}

/// How a life stands.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Ending {
    /// An attempt runs or has lapsed, or its end is not known.
    Open,
    Finished(Tick),
    Released,
    /// A resolver said that nothing happened in any attempt.
    Cleared,
    /// Its evidence was kept for as long as the store promised.
    EvidenceOver,
}

/// A promise about one step that was broken in it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum Breach {
    FinishedChanged,
    LostChanged,
    LeaseShortened,
    RunningPreempted,
    GrantedTwice,
    CheckpointLost,
    FalseEcho,
    WrongRetryAfter,
}

impl Ledger {
    pub(crate) fn note(&mut self, breach: Breach) {
        if let Err(place) = self.breaches.binary_search(&breach) {
            self.breaches.insert(place, breach);
        }
    }

    pub(crate) fn has(&self, breach: Breach) -> bool {
        self.breaches.contains(&breach)
    }

    /// The grants that belong to what the outside world may see twice: back to the last fresh one.
    pub(crate) fn chain(&self) -> &[Grant] {
        &self.grants[self.chain_start(self.grants.len())..]
    }

    /// Where the chain of the grant before `end` begins.
    pub(crate) fn chain_start(&self, end: usize) -> usize {
        self.grants[..end].iter().rposition(|grant| grant.why == Why::Fresh).unwrap_or(0)
    }

    /// Did the chain change the outside world? What a resolver sees when it looks.
    pub(crate) fn effects(&self) -> usize {
        self.chain().iter().filter(|grant| grant.effect).count()
    }

    pub(crate) fn grant_of(&mut self, held: Held) -> Option<&mut Grant> {
        self.grants.iter_mut().find(|grant| grant.held == held)
    }

    /// A grant was written.
    pub(crate) fn granted(&mut self, held: Held, by: &Message, written: Written, now: Tick, setting: &Setting) {
        let script = &setting.workers[by.worker];
        let claim = &script.claim(by.token);
        if self.grants.iter().any(|grant| grant.by == *by) {
            self.note(Breach::GrantedTwice);
        }
        let why = self.why(written, claim, now, &setting.rules);
        match (&mut self.life, written) {
            (Some(life), Written::TakeOver) => life.ending = Ending::Open,
            (life, _) => {
                let (on_uncertain, retention) = (claim.on_uncertain(), claim.retention());
                *life = Some(Life { on_uncertain, born: now, retention, ending: Ending::Open });
            }
        }
        let began = !claim.announces();
        let (by, request) = (by.clone(), script.request);
        self.grants.push(Grant { held, by, written, why, request, began, effect: false, completed: false });
    }

    fn why(&self, written: Written, claim: &Claim, now: Tick, rules: &Rules) -> Why {
        let Some(life) = &self.life else { return Why::Fresh };
        match (written, life.ending) {
            (Written::TakeOver, _) if claim.is_resolving() => Why::Allowed,
            (Written::TakeOver, _) => match (life.on_uncertain, claim.on_uncertain()) {
                (OnUncertain::TakeOver { within: theirs }, OnUncertain::TakeOver { within: ours })
                    if at(now.into()) < at(life.born.into()).plus(theirs.min(ours)) =>
                {
                    Why::Allowed
                }
                _ => Why::Clean,
            },
            (_, Ending::Finished(_)) if !self.remembers(now, rules) => Why::Fresh,
            (_, Ending::Cleared | Ending::EvidenceOver) => Why::Fresh,
            (_, Ending::Open | Ending::Released | Ending::Finished(_)) => Why::Clean,
        }
    }

    /// Is this life finished, and to be replayed?
    pub(crate) fn replays(&self, now: Tick, rules: &Rules) -> bool {
        self.life.as_ref().is_some_and(|life| match life.ending {
            Ending::Finished(when) => {
                at(now.into()) < at(life.born.into()).plus(life.retention).max(at(when.into()).plus(rules.floor))
            }
            _ => false,
        })
    }

    /// Is this life finished, and not to be run again?
    pub(crate) fn remembers(&self, now: Tick, rules: &Rules) -> bool {
        let longer = rules.remember.map_or(0, ticks_in);
        self.replays(now.saturating_sub(longer), rules)
    }

    /// An end was stored.
    pub(crate) fn completed(&mut self, held: Held, end: EndAs, now: Tick) {
        if let Some(grant) = self.grant_of(held) {
            grant.completed = true;
            grant.began = true;
        }
        if let Some(life) = &mut self.life {
            life.ending = match end {
                EndAs::Succeeded => Ending::Finished(now),
                EndAs::Unknown => Ending::Open,
            };
        }
    }

    /// A release was carried out.
    pub(crate) fn released(&mut self, all: Whose) {
        if let Some(life) = &mut self.life {
            life.ending = match all {
                Whose::ThisAttempt => Ending::Released,
                Whose::EveryAttempt => Ending::Cleared,
            };
        }
    }

    /// A row was deleted.
    pub(crate) fn deleted(&mut self, row: &Record, now: Tick, rules: &Rules) {
        let Some(life) = &mut self.life else { return };
        let (OnUncertain::TakeOver { .. }, Some(evidence)) = (life.on_uncertain, rules.evidence) else { return };
        let since = row.ended_at.unwrap_or(row.lease_until).max(row.expires_at);
        if life.ending == Ending::Open && since.plus(evidence) <= at(now.into()) {
            life.ending = Ending::EvidenceOver;
        }
    }
}

fn ticks_in(span: Span) -> Tick {
    u8::try_from(span.as_duration().as_secs()).unwrap_or(Tick::MAX)
}
