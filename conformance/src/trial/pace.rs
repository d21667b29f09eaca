//! Whether a trial keeps ahead of the times that it moves.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use super::{MARGIN, lock};

/// A trial that moves time looks at both sides of a limit from [`MARGIN`] away: one that itself takes longer has shown
/// nothing.
pub(super) struct Pace(Mutex<Stretch>);

/// What of the trial belongs to the same times.
struct Stretch {
    began: Instant,
    aged: bool,
    /// How long an earlier one took that was too slow.
    slow: Option<Duration>,
}

impl Stretch {
    fn too_slow(&self) -> Option<Duration> {
        let took = self.began.elapsed();
        let slow = (self.aged && took >= MARGIN.as_duration()).then_some(took);
        slow.or(self.slow)
    }
}

impl Pace {
    pub(super) fn begun() -> Pace {
        Pace(Mutex::new(Stretch { began: Instant::now(), aged: false, slow: None }))
    }

    /// Time was moved.
    pub(super) fn aged(&self) {
        lock(&self.0).aged = true;
    }

    /// What comes now has nothing to do with the identities before.
    pub(super) fn begin_afresh(&self) {
        let mut now = lock(&self.0);
        *now = Stretch { began: Instant::now(), aged: false, slow: now.too_slow() };
    }

    /// How long it took, when that is too long.
    pub(super) fn too_slow(&self) -> Option<Duration> {
        lock(&self.0).too_slow()
    }
}
