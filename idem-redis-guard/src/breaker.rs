//! The circuit breaker: a cache that is in trouble is left alone for a while.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Where the breaker stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Breaker {
    /// Redis is asked.
    Closed,
    /// Redis is not asked.
    Open,
    /// One call at a time asks whether Redis is back.
    HalfOpen,
}

#[derive(Debug)]
pub(crate) struct Circuit {
    failures: u32,
    pause: Duration,
    state: Mutex<State>,
}

#[derive(Debug)]
enum State {
    Closed { failed: u32 },
    Open { until: Instant },
    Probing { since: Instant },
}

impl Circuit {
    /// Opens after so many failures in a row, and tries again after the pause.
    pub(crate) fn new(failures: u32, pause: Duration) -> Circuit {
        Circuit { failures, pause, state: Mutex::new(State::Closed { failed: 0 }) }
    }

    /// May this call ask? Every call that may reports how it went.
    pub(crate) fn admits(&self, now: Instant) -> bool {
        let mut state = self.lock();
        match *state {
            State::Closed { .. } => true,
            State::Open { until } if now < until => false,
            // A probe that was dropped before it reported does not keep the breaker open for ever.
            State::Probing { since } if now < since + self.pause => false,
            State::Open { .. } | State::Probing { .. } => {
                *state = State::Probing { since: now };
                true
            }
        }
    }

    pub(crate) fn succeeded(&self) {
        let mut state = self.lock();
        if !matches!(*state, State::Closed { .. }) {
            tracing::info!("the cache answers again");
        }
        *state = State::Closed { failed: 0 };
    }

    pub(crate) fn failed(&self, now: Instant) {
        let mut state = self.lock();
        let opens = match &mut *state {
            State::Closed { failed } => {
                *failed += 1;
                *failed >= self.failures
            }
            State::Probing { .. } => true,
            // Calls that had begun before it opened do not lengthen the pause.
            State::Open { .. } => false,
        };
        if opens {
            if matches!(*state, State::Closed { .. }) {
                tracing::warn!(failures = self.failures, "the cache is in trouble and left alone for a while");
            }
            *state = State::Open { until: now + self.pause };
        }
    }

    pub(crate) fn stands(&self) -> Breaker {
        match *self.lock() {
            State::Closed { .. } => Breaker::Closed,
            State::Open { .. } => Breaker::Open,
            State::Probing { .. } => Breaker::HalfOpen,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAUSE: Duration = Duration::from_secs(1);

    fn open(now: Instant) -> Circuit {
        let circuit = Circuit::new(2, PAUSE);
        circuit.failed(now);
        circuit.failed(now);
        circuit
    }

    #[test]
    fn failures_in_a_row_open_it() {
        let now = Instant::now();
        let circuit = Circuit::new(2, PAUSE);
        circuit.failed(now);
        circuit.succeeded();
        circuit.failed(now);
        assert!(circuit.admits(now));
        circuit.failed(now);
        assert!(!circuit.admits(now));
    }

    #[test]
    fn one_probe_at_a_time_closes_it_or_not() {
        let now = Instant::now();
        let circuit = open(now);
        let later = now + PAUSE;
        assert!(circuit.admits(later) && !circuit.admits(later), "one probe");
        circuit.failed(later);
        assert!(!circuit.admits(later + PAUSE / 2));
        assert!(circuit.admits(later + PAUSE));
        circuit.succeeded();
        assert!(circuit.admits(later) && circuit.admits(later));
        assert_eq!(circuit.stands(), Breaker::Closed);
    }

    #[test]
    fn a_probe_that_never_reports_is_followed_by_another() {
        let now = Instant::now();
        let circuit = open(now);
        assert!(circuit.admits(now + PAUSE));
        assert!(circuit.admits(now + PAUSE + PAUSE));
    }
}
