//! Pauses between tries: they double up to a cap, and jitter keeps callers from marching in step.

use std::time::Duration;

/// A deadlock's victim may try again as soon as the other is through.
const FIRST: Duration = Duration::from_millis(4);
const CAP: Duration = Duration::from_millis(250);

pub(crate) struct Backoff(Duration);

impl Backoff {
    pub(crate) fn new() -> Backoff {
        Backoff(FIRST)
    }

    /// Between half of the next pause and the whole of it.
    pub(crate) fn next(&mut self) -> Duration {
        let pause = self.0.mul_f64(rand::random_range(0.5..=1.0));
        self.0 = (self.0 * 2).min(CAP);
        pause
    }
}
