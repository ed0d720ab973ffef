//! The only place where wansan reads a clock for its records.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use crate::Instant;

/// CLOCK_MONOTONIC, now. Only drivers call it; pure crates receive the result.
#[must_use]
pub fn now() -> Instant {
    let t = clock_gettime(ClockId::Monotonic);
    // CLOCK_MONOTONIC counts from boot: never negative.
    Instant::from_ns(t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64)
}

/// Both clocks at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Both {
    /// CLOCK_MONOTONIC.
    pub monotonic: Instant,
    /// CLOCK_REALTIME, in ns since 1970.
    pub realtime_ns: u64,
    /// Duration of reading both, in ns: each is off by at most half of it.
    pub width_ns: u64,
}

impl Both {
    /// Reads CLOCK_REALTIME between two readings of CLOCK_MONOTONIC; retries if the thread seems to have been
    /// preempted, as the readings then belong to different times.
    #[must_use]
    pub fn now() -> Both {
        Both::narrowest(|| {
            let before = now();
            let realtime_ns = realtime_ns();
            let width_ns = now().since(before).as_nanos() as u64;
            Both {
                monotonic: before + Duration::from_nanos(width_ns / 2),
                realtime_ns,
                width_ns,
            }
        })
    }

    /// CLOCK_REALTIME minus CLOCK_MONOTONIC, in ns. CLOCK_REALTIME may be set to anything.
    #[must_use]
    pub fn ahead_ns(&self) -> i64 {
        let ahead_ns = self.realtime_ns.wrapping_sub(self.monotonic.ns());
        ahead_ns.cast_signed()
    }

    /// The first undisturbed reading, or else the best of several.
    fn narrowest(mut read: impl FnMut() -> Both) -> Both {
        /// Maximum number of readings.
        const READINGS: usize = 4;
        /// Longest duration of an undisturbed reading.
        const UNDISTURBED_NS: u64 = 2_000;
        let mut best = read();
        for _ in 1..READINGS {
            if best.width_ns <= UNDISTURBED_NS {
                break;
            }
            let next = read();
            if next.width_ns < best.width_ns {
                best = next;
            }
        }
        best
    }
}

/// Another computer's CLOCK_MONOTONIC relative to this one's: a line fitted to their differences.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OtherClock {
    /// The other clock's time at which it is `ahead_ns` ahead.
    pub at: Instant,
    /// How far it is ahead of this computer's clock then, in ns.
    pub ahead_ns: i64,
    /// Its frequency offset: ns gained on this computer's clock per second that it shows (10⁻⁹).
    pub drift_ppb: f64,
}

impl OtherClock {
    /// This computer's time when the other clock shows `there`. Monotonic; clamped to the start of this computer's
    /// clock.
    #[must_use]
    pub fn here(&self, there: Instant) -> Instant {
        let since_ns = i128::from(there.ns()) - i128::from(self.at.ns());
        let gained_ns = (since_ns as f64 * self.drift_ppb / 1e9).round() as i128;
        let here_ns = i128::from(there.ns()) - i128::from(self.ahead_ns) - gained_ns;
        Instant::from_ns(u64::try_from(here_ns.max(0)).unwrap_or(u64::MAX))
    }
}

/// CLOCK_REALTIME, now, in nanoseconds since 1970: only for clock anchors and folder names.
#[must_use]
pub fn realtime_ns() -> u64 {
    let t = clock_gettime(ClockId::Realtime);
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_clock_is_converted_by_its_offset_and_drift() {
        let clock = OtherClock {
            at: Instant::from_ns(5_000_000_000),
            ahead_ns: 3_000_000_000,
            drift_ppb: 50_000.0,
        };
        let here = |ns| clock.here(Instant::from_ns(ns)).ns();
        assert_eq!(here(5_000_000_000), 2_000_000_000);
        // One second later it has gained 50 µs.
        assert_eq!(here(6_000_000_000), 2_999_950_000);
        assert_eq!(here(4_000_000_000), 1_000_050_000);
        assert_eq!(here(1), 0, "before the clock here began");
        let times = (0..1000).map(|place| here(5_000_000_000 + place));
        assert!(times.is_sorted());
    }

    #[test]
    fn a_reading_during_which_the_thread_lost_its_processor_is_taken_again() {
        let reading = |width_ns: u64, ahead_ns: u64| Both {
            monotonic: Instant::from_ns(1_000_000),
            realtime_ns: 1_000_000 + ahead_ns,
            width_ns,
        };
        // Half a millisecond passes between the readings, so the clocks seem that far apart.
        let mut readings = [reading(510_000, 755_000), reading(60, 500_000)].into_iter();
        let both = Both::narrowest(|| readings.next().unwrap());
        assert_eq!((both.ahead_ns(), both.width_ns), (500_000, 60));
        let mut widths = [9_000, 5_000, 4_000, 7_000].into_iter();
        let both = Both::narrowest(|| reading(widths.next().unwrap(), 0));
        assert_eq!((both.width_ns, widths.next()), (4_000, None));
    }
}
