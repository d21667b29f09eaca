//! A good store behind a connection, in this process: for mutants of what a driver does, that need no server.
//!
//! The line is real, and words can be lost, late or swallowed on it. What travels is only the number of a call: what it
//! asks for, and what it was answered, stay in this process. So nothing has to be encoded, and a proxy cannot tell.

mod client;
mod harness;
mod server;

pub use client::Driver;

use std::sync::Arc;

use super::{Kind, Landed, Mutant};
use crate::Harness;
use client::{Lost, Waiting};
use harness::Remote;
use server::Disk;

/// A good store behind a connection: networked, durable, and with a server that can be killed.
#[must_use]
pub fn good_remote() -> Arc<dyn Harness> {
    Arc::new(Remote::new("remote", Driver::GOOD, Landed::default()))
}

impl Driver {
    pub(super) fn harness(self, id: &str, landed: &Landed) -> Arc<dyn Harness> {
        Arc::new(Remote::new(id, self, landed.clone()))
    }
}

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant {
        id: "P-lost-reply-is-unavailable",
        kind: Kind::Driver(Driver { lost: Lost::CalledUnavailable, ..Driver::GOOD }),
        kills: "ERR-002",
        because: "A lost reply is reported as if nothing had been applied.",
        says: "as if nothing had been applied: expected Indeterminate",
    },
    Mutant {
        id: "P-never-connects-again",
        kind: Kind::Driver(Driver { connects_again: false, ..Driver::GOOD }),
        kills: "ERR-004",
        because: "A handle whose connection died stays dead.",
        says: "was answered with an error",
    },
    Mutant {
        id: "P-acknowledges-what-it-has-not-sent",
        kind: Kind::Driver(Driver { lost: Lost::CalledSuccess, ..Driver::GOOD }),
        kills: "NET-201",
        because: "A write is sent, and its answer is not waited for.",
        says: "the record does not show it",
    },
    Mutant {
        id: "P-renews-what-it-has-not-sent",
        kind: Kind::Driver(Driver { lost: Lost::CalledSuccess, ..Driver::GOOD }),
        kills: "NET-301",
        because: "A renewal is sent, and its answer is not waited for.",
        says: "the record does not show it",
    },
    Mutant {
        id: "P-releases-what-it-has-not-sent",
        kind: Kind::Driver(Driver { lost: Lost::CalledSuccess, ..Driver::GOOD }),
        kills: "NET-401",
        because: "A release is sent, and its answer is not waited for.",
        says: "the record does not show it",
    },
    Mutant {
        id: "P-lost-claim-is-in-flight",
        kind: Kind::Driver(Driver { lost: Lost::CalledRefusal, ..Driver::GOOD }),
        kills: "NET-101",
        because: "A claim without an answer is taken for one that was refused.",
        says: "was answered Claim(InFlight",
    },
    Mutant {
        id: "P-repeats-without-the-token",
        kind: Kind::Driver(Driver { lost: Lost::SentAgainWithoutTheToken, ..Driver::GOOD }),
        kills: "NET-102",
        because: "The driver reconnects and claims again as somebody new, who is told of his own lost claim.",
        says: "was answered Claim(InFlight",
    },
    Mutant {
        id: "P-lost-end-is-lost",
        kind: Kind::Driver(Driver { lost: Lost::CalledRefusal, ..Driver::GOOD }),
        kills: "NET-202",
        because: "A completion without an answer is taken for a lost lease.",
        says: "was answered Complete(Lost)",
    },
    Mutant {
        id: "P-lost-renewal-is-lost",
        kind: Kind::Driver(Driver { lost: Lost::CalledRefusal, ..Driver::GOOD }),
        kills: "NET-302",
        because: "A renewal without an answer is taken for a lost lease.",
        says: "was answered Renew(Lost)",
    },
    Mutant {
        id: "P-lost-release-is-lost",
        kind: Kind::Driver(Driver { lost: Lost::CalledRefusal, ..Driver::GOOD }),
        kills: "NET-402",
        because: "A release without an answer is taken for a lost lease.",
        says: "was answered Release(Lost)",
    },
    Mutant {
        id: "P-claims-in-one-request",
        kind: Kind::Driver(Driver { looks_before_it_grants: false, ..Driver::GOOD }),
        kills: "NET-103",
        because: "One statement creates, re-opens and takes over: a late one opens what somebody has released since.",
        says: "changed the record",
    },
    Mutant {
        id: "P-late-end-counts",
        kind: Kind::Driver(Driver { checks_the_token: false, ..Driver::GOOD }),
        kills: "NET-203",
        because: "The server ends whatever attempt is there, when the request arrives.",
        says: "changed the record",
    },
    Mutant {
        id: "P-late-renewal-counts",
        kind: Kind::Driver(Driver { checks_the_token: false, ..Driver::GOOD }),
        kills: "NET-303",
        because: "The server renews whatever attempt is there, when the request arrives.",
        says: "changed the record",
    },
    Mutant {
        id: "P-late-release-counts",
        kind: Kind::Driver(Driver { checks_the_token: false, ..Driver::GOOD }),
        kills: "NET-403",
        because: "The server releases whatever attempt is there, when the request arrives.",
        says: "changed the record",
    },
    Mutant {
        id: "P-no-deadline",
        kind: Kind::Driver(Driver { waiting: Waiting::ForEver, ..Driver::GOOD }),
        kills: "NET-501",
        because: "A call waits for its reply for as long as it takes.",
        says: "in a black hole with a deadline of",
    },
    Mutant {
        id: "P-unread-reply-goes-back",
        kind: Kind::Driver(Driver { waiting: Waiting::GivesTheConnectionBack, ..Driver::GOOD }),
        kills: "NET-502",
        because: "A connection whose reply was not read goes back to the pool.",
        says: "a call got the reply of another call",
    },
    Mutant {
        id: "P-dead-connection-stays",
        kind: Kind::Driver(Driver { connects_again: false, ..Driver::GOOD }),
        kills: "CRASH-003",
        because: "A connection that the server has killed stays in the pool.",
        says: "no answer but errors",
    },
    Mutant {
        id: "P-leases-of-this-handle",
        kind: Kind::Driver(Driver { knows_other_handles_leases: false, ..Driver::GOOD }),
        kills: "CRASH-004",
        because: "A handle keeps its leases in memory, and knows no others.",
        says: "an attempt that began before the handle was opened again",
    },
    Mutant {
        id: "P-unlogged",
        kind: Kind::Driver(Driver { disk: Disk::LosesTheLast, ..Driver::GOOD }),
        kills: "DUR-001",
        because: "What was written last is acknowledged, and not on disk.",
        says: "is not there after the server was killed",
    },
    Mutant {
        id: "P-ends-in-two-writes",
        kind: Kind::Driver(Driver { disk: Disk::TearsTheLast, ..Driver::GOOD }),
        kills: "DUR-002",
        because: "State and response are written one after the other.",
        says: "that nobody was told of is half there",
    },
    Mutant {
        id: "P-fences-begin-anew",
        kind: Kind::Driver(Driver { disk: Disk::ForgetsFences, ..Driver::GOOD }),
        kills: "DUR-003",
        because: "Fences are counted in memory, from the server's start.",
        says: "the fence of a",
    },
];
