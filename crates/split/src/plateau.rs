//! Detects when a rate stops growing.

use std::time::Duration;

use wansan_trace::Instant;

/// A plateau is this many round trips without growth.
const FLAT_ROUNDS: u32 = 3;

/// Detects the plateau of a rate. A sender in slow start doubles its rate each round trip, so its current rate does
/// not predict its final one. The plateau is reached when the rate has not grown by a quarter in three round trips,
/// the test that BBR uses for a full pipe (draft-ietf-ccwg-bbr, BBRCheckFullBWReached).
#[derive(Debug, Default)]
pub(super) struct Plateau {
    /// Baseline for growth, in bytes per second.
    best_bytes_per_s: u64,
    flat_rounds: u32,
    round_ends: Instant,
}

impl Plateau {
    /// Records the current rate, which may grow once per `round_trip`; returns whether it has reached its plateau.
    pub(super) fn note(&mut self, bytes_per_s: u64, round_trip: Duration, now: Instant) -> bool {
        if now >= self.round_ends {
            self.round_ends = now + round_trip;
            // A rate of 0 against a baseline of 0 means not measured yet, so it is no plateau.
            if 4 * u128::from(bytes_per_s) >= 5 * u128::from(self.best_bytes_per_s) {
                self.best_bytes_per_s = bytes_per_s;
                self.flat_rounds = 0;
            } else {
                self.flat_rounds += 1;
            }
        }
        self.flat_rounds >= FLAT_ROUNDS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number of 100 ms round trips after which the rate, sampled every 20 ms, is at its plateau.
    fn rounds(rate: impl Fn(u32) -> u64) -> Option<u64> {
        let mut plateau = Plateau::default();
        (0..100)
            .find(|look| {
                let now = Instant::from_ns(1 + look * 20_000_000);
                let round = (look / 5) as u32;
                plateau.note(rate(round), Duration::from_millis(100), now)
            })
            .map(|look| look / 5)
    }

    #[test]
    fn slow_start_ends_at_a_plateau() {
        assert_eq!(rounds(|round| 1000 << round.min(6)), Some(9));
        assert_eq!(rounds(|_| 1000), Some(3));
        // Growth in congestion avoidance is too slow to count.
        assert_eq!(rounds(|round| 1000 + 10 * u64::from(round)), Some(3));
        // Before the first measurement.
        assert_eq!(rounds(|_| 0), None);
    }
}
