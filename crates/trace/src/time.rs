//! Time as an integer.

use core::fmt;
use core::ops::{Add, AddAssign, Sub};
use core::time::Duration;

/// A point in time: nanoseconds of CLOCK_MONOTONIC, which all processes of one host share.
///
/// Pure code never reads a clock: it receives an `Instant`. Differences are [`Duration`]s and saturate at zero, so that
/// records out of order cannot panic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Instant(u64);

impl Instant {
    /// The clock's zero.
    pub const ZERO: Instant = Instant(0);
    /// A time that never comes: "no deadline".
    pub const FAR_FUTURE: Instant = Instant(u64::MAX);

    /// The time `ns` nanoseconds after the clock's zero.
    #[must_use]
    pub const fn from_ns(ns: u64) -> Self {
        Instant(ns)
    }

    /// Nanoseconds since the clock's zero.
    #[must_use]
    pub const fn ns(self) -> u64 {
        self.0
    }

    /// The time passed since `earlier`; zero if `earlier` is later.
    #[must_use]
    pub const fn since(self, earlier: Instant) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// Whole nanoseconds of a [`Duration`], saturating (584 years).
#[must_use]
pub fn duration_ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

impl Add<Duration> for Instant {
    type Output = Instant;
    fn add(self, later: Duration) -> Instant {
        Instant(self.0.saturating_add(duration_ns(later)))
    }
}

impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, later: Duration) {
        *self = *self + later;
    }
}

impl Sub<Duration> for Instant {
    type Output = Instant;
    fn sub(self, earlier: Duration) -> Instant {
        Instant(self.0.saturating_sub(duration_ns(earlier)))
    }
}

impl Sub for Instant {
    type Output = Duration;
    fn sub(self, earlier: Instant) -> Duration {
        self.since(earlier)
    }
}

impl fmt::Display for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}.{:09}s",
            self.0 / 1_000_000_000,
            self.0 % 1_000_000_000
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_saturate_at_zero() {
        let early = Instant::from_ns(5);
        let late = early + Duration::from_nanos(7);
        assert_eq!(late - early, Duration::from_nanos(7));
        assert_eq!(early - late, Duration::ZERO);
        assert_eq!(early - Duration::from_secs(1), Instant::ZERO);
    }

    #[test]
    fn far_future_stays_there() {
        assert_eq!(
            Instant::FAR_FUTURE + Duration::from_secs(1),
            Instant::FAR_FUTURE
        );
    }
}
