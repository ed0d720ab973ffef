//! Whether a rate still grows.

use std::time::Duration;

use wansan_trace::Instant;

/// So many round trips without growth are a plateau.
const FLAT_ROUNDS: u32 = 3;

/// Finds the plateau of a rate. A sender in slow start doubles its rate in each round trip, so what it is
/// then says nothing of what it will be; it is known when it has not grown by a quarter in three round
/// trips, as BBR knows that a pipe is full (draft-ietf-ccwg-bbr, BBRCheckFullBWReached).
#[derive(Debug, Default)]
pub(super) struct Plateau {
    /// The rate from which growth is counted, in bytes per second.
    best_bytes_per_s: u64,
    flat_rounds: u32,
    round_ends: Instant,
}

impl Plateau {
    /// Takes in the rate now and the round trip in which it may grow; whether it has reached its plateau.
    pub(super) fn note(&mut self, bytes_per_s: u64, round_trip: Duration, now: Instant) -> bool {
        if now >= self.round_ends {
            self.round_ends = now + round_trip;
            // Of nothing that was measured nothing is known.
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

    /// The round trips of 100 ms after which that rate, asked for every 20 ms, is at its plateau.
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
        // Congestion avoidance is no growth to wait for.
        assert_eq!(rounds(|round| 1000 + 10 * u64::from(round)), Some(3));
        // Before anything was measured.
        assert_eq!(rounds(|_| 0), None);
    }
}
