//! Submission of I/Os at a fixed rate.

use std::time::Duration;

use wansan_trace::Instant;

/// Evenly spaced times.
#[derive(Debug)]
pub(crate) struct Pace {
    begun: Instant,
    interval_ns: f64,
    given: u64,
    next: Instant,
}

impl Pace {
    pub(crate) fn new(begun: Instant, rate_per_s: f64) -> Self {
        Pace {
            begun,
            interval_ns: 1e9 / rate_per_s,
            given: 0,
            next: begun,
        }
    }

    /// The next due time.
    pub(crate) fn next(&self) -> Instant {
        self.next
    }

    /// Whether an I/O is due; if so, counts it as submitted. Times missed because all slots were in use are caught up.
    pub(crate) fn is_due(&mut self, now: Instant) -> bool {
        if now < self.next {
            return false;
        }
        self.given += 1;
        let offset_ns = self.interval_ns * self.given as f64;
        self.next = self.begun + Duration::from_nanos(offset_ns as u64);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pace_is_kept_without_drift() {
        let mut pace = Pace::new(Instant::ZERO, 3.0);
        let mut given = 0;
        for ms in 0..=10_000 {
            while pace.is_due(Instant::from_ns(ms * 1_000_000)) {
                given += 1;
            }
        }
        assert_eq!(given, 31);
    }
}
