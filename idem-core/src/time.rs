//! Durations that a store accepts, and instants that a store's clock gives.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::Error;

/// A duration that a store can promise: at least one microsecond, at most a hundred years.
///
/// Callers pass durations, never instants (clause T1), and a zero or overflowing one is refused here, before any
/// store sees it (clause T4). Fractions of a microsecond are cut off, so a promise is never longer than was asked.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u64", into = "u64")]
pub struct Span(u64);

impl Span {
    /// The shortest span: one microsecond.
    pub const MIN: Span = Span(1);
    /// The longest span: a hundred years of 365 days.
    pub const MAX: Span = Span(100 * 365 * 86_400 * 1_000_000);

    /// A span of so many microseconds.
    ///
    /// # Errors
    /// `InvalidInput` for zero and for more than [`Span::MAX`].
    pub fn micros(micros: u64) -> Result<Span, Error> {
        if (Self::MIN.0..=Self::MAX.0).contains(&micros) {
            Ok(Span(micros))
        } else {
            Err(Error::invalid_input("a duration must be at least one microsecond and at most a hundred years"))
        }
    }

    /// A span from a constant number of seconds; zero becomes [`Span::MIN`] and too many [`Span::MAX`].
    #[must_use]
    pub const fn saturating_secs(secs: u64) -> Span {
        let micros = secs.saturating_mul(1_000_000);
        if micros < Self::MIN.0 {
            Self::MIN
        } else if micros > Self::MAX.0 {
            Self::MAX
        } else {
            Span(micros)
        }
    }

    /// Whole microseconds.
    #[must_use]
    pub const fn as_micros(self) -> u64 {
        self.0
    }

    /// The same length as a standard duration.
    #[must_use]
    pub const fn as_duration(self) -> Duration {
        Duration::from_micros(self.0)
    }
}

impl TryFrom<Duration> for Span {
    type Error = Error;

    fn try_from(duration: Duration) -> Result<Span, Error> {
        Span::micros(u64::try_from(duration.as_micros()).unwrap_or(u64::MAX))
    }
}

impl TryFrom<u64> for Span {
    type Error = Error;

    fn try_from(micros: u64) -> Result<Span, Error> {
        Span::micros(micros)
    }
}

impl From<Span> for u64 {
    fn from(span: Span) -> u64 {
        span.0
    }
}

impl fmt::Debug for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_duration().fmt(f)
    }
}

/// An instant of the store's own clock, in microseconds since the Unix epoch.
///
/// It is read out for people and for arithmetic between two instants of the *same* store. Comparing it with this
/// host's clock would put two clocks into one decision, which clause T1 forbids.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct StoreTime(u64);

impl StoreTime {
    /// An instant from microseconds since the Unix epoch.
    #[must_use]
    pub const fn from_micros(micros: u64) -> StoreTime {
        StoreTime(micros)
    }

    /// This host's clock. For stores whose clock *is* the host's (memory, SQLite); an instant before 1970 is 0.
    #[must_use]
    pub fn of_this_host() -> StoreTime {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        StoreTime(u64::try_from(since.as_micros()).unwrap_or(u64::MAX))
    }

    /// Microseconds since the Unix epoch.
    #[must_use]
    pub const fn as_micros(self) -> u64 {
        self.0
    }

    /// This instant, a span later.
    #[must_use]
    pub const fn plus(self, span: Span) -> StoreTime {
        StoreTime(self.0.saturating_add(span.0))
    }

    /// How long after `earlier` this instant is; zero when it is not after it.
    #[must_use]
    pub const fn since(self, earlier: StoreTime) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0))
    }
}

impl fmt::Debug for StoreTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:06}s", self.0 / 1_000_000, self.0 % 1_000_000)
    }
}

impl From<StoreTime> for SystemTime {
    fn from(time: StoreTime) -> SystemTime {
        UNIX_EPOCH + Duration::from_micros(time.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    #[test]
    fn zero_and_overflow_are_refused() {
        for duration in [Duration::ZERO, Duration::from_nanos(999), Duration::MAX] {
            let error = Span::try_from(duration).expect_err("refused");
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
        }
        assert_eq!(Span::try_from(Duration::from_nanos(1_999)).map(Span::as_micros).ok(), Some(1));
        assert_eq!(Span::try_from(Span::MAX.as_duration()).ok(), Some(Span::MAX));
    }

    #[test]
    fn no_lease_reaches_past_what_a_signed_column_holds() {
        let end = StoreTime::of_this_host().plus(Span::MAX).plus(Span::MAX);
        assert!(i64::try_from(end.as_micros()).is_ok());
    }
}
