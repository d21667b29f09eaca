//! Statements on their way to the store.
//!
//! A sent statement is delivered never, once or any number of times, at any later moment: it simply stays here, and
//! delivering it does not take it away. Clause P7's assumption is explicit: where rows are deleted, a statement is
//! gone [`delay`](crate::setting::Setting::delay) ticks after it was sent. Where nothing is deleted there is no such
//! assumption, and statements live for ever.

use idem_core::machine::{Rewrite, Seen};

use crate::values::{Held, Row, Tick};

/// A statement, and who sent it when.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Message {
    pub(crate) worker: usize,
    /// Names the call: two calls of one worker have two tokens.
    pub(crate) token: u8,
    /// When; zero where nothing expires, so that states do not differ by it.
    pub(crate) sent: Tick,
    pub(crate) statement: Statement,
}

/// What a worker asks the store to do, as one atomic step each.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Statement {
    /// The first of a claim: INSERT, or read what is there.
    Insert,
    /// The second of a claim: rewrite the row, if it still is as seen.
    Rewrite {
        how: Rewrite,
        seen: Seen,
        /// The whole row as it was read; only a store that writes it back needs it.
        copy: Option<Box<Row>>,
    },
    Renew {
        held: Held,
        checkpoint: Option<u8>,
    },
    Complete {
        held: Held,
        end: EndAs,
    },
    Release {
        held: Held,
        all: Whose,
    },
}

/// How a worker reports.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum EndAs {
    Succeeded,
    Unknown,
}

/// Which attempts a release speaks of.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum Whose {
    ThisAttempt,
    EveryAttempt,
}

/// The statements in flight, in an order that does not depend on who sent first.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct Network(Vec<Message>);

impl Network {
    pub(crate) fn messages(&self) -> &[Message] {
        &self.0
    }

    /// Sends; a statement that is in flight already is in flight.
    pub(crate) fn send(&mut self, message: Message) {
        if !self.0.contains(&message) {
            let place = self.0.partition_point(|other| order(other) <= order(&message));
            self.0.insert(place, message);
        }
    }

    /// Forgets what was sent longer ago than a statement can be delayed (clause P7).
    pub(crate) fn expire(&mut self, now: Tick, delay: Tick) {
        self.0.retain(|message| now.saturating_sub(message.sent) < delay);
    }
}

fn order(message: &Message) -> impl Ord {
    let (kind, fence, lease_until, detail) = match &message.statement {
        Statement::Insert => (0, None, None, 0),
        Statement::Rewrite { how, seen, .. } => (1, Some(seen.fence), Some(seen.lease_until), *how as u8),
        Statement::Renew { held, checkpoint } => (2, Some(held.fence), None, checkpoint.map_or(0, |number| 1 + number)),
        Statement::Complete { held, end } => (3, Some(held.fence), None, *end as u8),
        Statement::Release { held, all } => (4, Some(held.fence), None, *all as u8),
    };
    (message.token, kind, fence, lease_until, detail, message.sent)
}
