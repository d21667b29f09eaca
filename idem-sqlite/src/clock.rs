//! The host's clock, made not to step back.

use std::sync::atomic::{AtomicU64, Ordering};

use idem_core::StoreTime;

/// The host's clock, at least as late as it has been seen: SQLite has no clock of its own (clause T1), and a step back
/// would make two instants of one store contradict each other. Other processes have their own; the fence in the row
/// grows all the same.
#[derive(Debug, Default)]
pub(crate) struct Clock {
    latest: AtomicU64,
}

impl Clock {
    pub(crate) fn now(&self) -> StoreTime {
        self.not_before(StoreTime::of_this_host())
    }

    fn not_before(&self, time: StoreTime) -> StoreTime {
        let before = self.latest.fetch_max(time.as_micros(), Ordering::Relaxed);
        StoreTime::from_micros(before.max(time.as_micros()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_back_is_not_followed() {
        let clock = Clock::default();
        let later = StoreTime::from_micros(2_000);
        assert_eq!(clock.not_before(later), later);
        assert_eq!(clock.not_before(StoreTime::from_micros(1_000)), later);
        assert_eq!(clock.not_before(StoreTime::from_micros(3_000)), StoreTime::from_micros(3_000));
    }
}
