//! What is to happen to which bytes.

use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::{oneshot, watch};

use super::Held;

/// How the line is, for every connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Line {
    /// Bytes pass.
    Pass,
    /// Connections are cut, and new ones are cut at once.
    Refuse,
    /// A black hole: connections stay, and no byte comes out, in either direction.
    Silent,
}

/// What happens to one request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// It is held, and nothing of it is with the server yet. Cut then, it is lost.
    HoldRequest,
    /// It is delivered, and its reply is held. Cut then, the reply is lost.
    HoldReply,
}

/// A fault that waits for its request.
pub(super) struct Armed {
    pub(super) fault: Fault,
    /// How many requests still pass before.
    before: u64,
    /// How the line is from then on.
    then: Line,
    opens: oneshot::Sender<Held>,
}

impl Armed {
    pub(super) fn new(fault: Fault, nth: u64, then: Line, opens: oneshot::Sender<Held>) -> Armed {
        Armed { fault, before: nth.saturating_sub(1), then, opens }
    }
}

struct Now {
    server: SocketAddr,
    requests: u64,
    armed: Option<Armed>,
}

/// The line's state, and in which life of the line a connection began: a change cuts those of the life before.
pub(super) type Life = (Line, u64);

/// What a proxy's connections share.
pub(super) struct Plan {
    now: Mutex<Now>,
    life: watch::Sender<Life>,
}

impl Plan {
    pub(super) fn new(server: SocketAddr) -> Plan {
        let now = Now { server, requests: 0, armed: None };
        Plan { now: Mutex::new(now), life: watch::Sender::new((Line::Pass, 0)) }
    }

    pub(super) fn life(&self) -> watch::Receiver<Life> {
        self.life.subscribe()
    }

    pub(super) fn server(&self) -> SocketAddr {
        self.lock().server
    }

    pub(super) fn lead_to(&self, server: SocketAddr) {
        self.lock().server = server;
    }

    pub(super) fn requests(&self) -> u64 {
        self.lock().requests
    }

    /// Connections from before are cut, whatever the line is now: one that lost bytes in a black hole is of no use.
    pub(super) fn set(&self, line: Line) {
        self.life.send_modify(|(now, life)| (*now, *life) = (line, *life + 1));
    }

    pub(super) fn arm(&self, armed: Armed) {
        self.lock().armed = Some(armed);
    }

    pub(super) fn disarm(&self) {
        self.lock().armed = None;
    }

    /// Counts a request, and gives the fault that is meant for it.
    pub(super) fn request(&self) -> Option<Armed> {
        let mut now = self.lock();
        now.requests += 1;
        match now.armed.as_mut() {
            Some(armed) if armed.before > 0 => {
                armed.before -= 1;
                None
            }
            _ => now.armed.take(),
        }
    }

    /// The window is open: first the line becomes what it is to be, so that no other connection slips through.
    pub(super) fn open(&self, armed: Armed, held: Held) {
        if armed.then != Line::Pass {
            self.set(armed.then);
        }
        // A rule that does not look any more drops what is held, and with it the connection.
        let _ = armed.opens.send(held);
    }

    fn lock(&self) -> MutexGuard<'_, Now> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
