//! Pauses between tries: they double up to a cap, and jitter keeps callers from marching in step.

use std::time::Duration;

pub(crate) struct Backoff {
    next: Duration,
    cap: Duration,
}

impl Backoff {
    pub(crate) fn new(first: Duration, cap: Duration) -> Backoff {
        Backoff { next: first, cap }
    }

    /// Between half of the next pause and the whole of it.
    pub(crate) fn next(&mut self) -> Duration {
        let pause = self.next.mul_f64(rand::random_range(0.5..=1.0));
        self.next = (self.next * 2).min(self.cap);
        pause
    }
}
