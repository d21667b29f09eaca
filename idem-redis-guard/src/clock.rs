//! The database's time, as far as this process can know it without asking.

use std::time::{Duration, Instant, SystemTime};

use idem_core::{Span, StoreTime};

/// A reading is not used when it is older than this: two clocks drift apart.
const USABLE: Duration = Duration::from_secs(3600);
/// A new reading is taken when the last is older than this.
pub(crate) const FRESH: Duration = Duration::from_secs(600);
/// How fast the database's clock may run against this host's: one in a thousand is ten times what a bad oscillator does,
/// and twice what a clock is slewed by.
const DRIFT: u32 = 1000;

/// One reading of the database's clock: at some instant between `asked` and `told`, it was `was`.
///
/// It bounds the database's time from both sides from then on, so that a copy is never believed a moment too long, and
/// no clock but the database's decides (clause T1).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading {
    was: StoreTime,
    asked: Instant,
    told: Instant,
    /// This host's wall clock when it was asked: unlike the monotonic one it goes on while a machine is suspended.
    wall: SystemTime,
}

/// An instant of this host, by both of its clocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Here {
    at: Instant,
    wall: SystemTime,
}

impl Here {
    pub(crate) fn now() -> Here {
        Here { at: Instant::now(), wall: SystemTime::now() }
    }
}

impl Reading {
    pub(crate) fn new(was: StoreTime, asked: Here, told: Here) -> Reading {
        Reading { was, asked: asked.at, told: told.at, wall: asked.wall }
    }

    /// The latest that the database's clock can show at this instant; None when the reading is too old to say.
    pub(crate) fn latest(&self, here: Here) -> Option<StoreTime> {
        let monotonic = here.at.saturating_duration_since(self.asked);
        let since = monotonic.max(here.wall.duration_since(self.wall).unwrap_or_default());
        (since < USABLE).then(|| later(self.was, since + since / DRIFT))
    }

    /// The earliest that it can show.
    pub(crate) fn earliest(&self, here: Here) -> StoreTime {
        let since = here.at.saturating_duration_since(self.told);
        later(self.was, since - since / DRIFT)
    }

    pub(crate) fn is_fresh(&self, here: Here) -> bool {
        here.at.saturating_duration_since(self.asked) < FRESH
    }
}

/// Whole microseconds; no time at all is no span.
fn later(time: StoreTime, by: Duration) -> StoreTime {
    Span::try_from(by).map_or(time, |by| time.plus(by))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(here: Here, monotonic: u64, wall: u64) -> Here {
        Here { at: here.at + Duration::from_secs(monotonic), wall: here.wall + Duration::from_secs(wall) }
    }

    #[test]
    fn the_true_time_is_between_the_bounds() {
        let asked = Here::now();
        let told = after(asked, 2, 2);
        let reading = Reading::new(StoreTime::from_micros(5_000_000), asked, told);
        let later = after(asked, 1002, 1002);
        // Had the clock been read as the question left, it would be 1007 s now; as the answer left, 1005 s.
        let latest = reading.latest(later).expect("usable");
        assert!(latest >= StoreTime::from_micros(1_007_000_000), "{latest:?}");
        let earliest = reading.earliest(later);
        assert!(earliest <= StoreTime::from_micros(1_005_000_000), "{earliest:?}");
        assert!(latest.since(earliest) < Duration::from_secs(5));
    }

    #[test]
    fn time_that_the_monotonic_clock_slept_through_counts() {
        let asked = Here::now();
        let reading = Reading::new(StoreTime::from_micros(0), asked, asked);
        let woken = after(asked, 1, 500);
        assert!(reading.latest(woken).expect("usable") >= StoreTime::from_micros(500_000_000));
        assert!(reading.latest(after(asked, 1, 7200)).is_none(), "too long ago to say");
        assert!(reading.latest(after(asked, 7200, 0)).is_none());
    }
}
