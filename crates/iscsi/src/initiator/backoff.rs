//! When to retry a connection to a target.

use std::time::Duration;

use wansan_trace::Instant;

/// The wait after the first failed attempt.
const FIRST: Duration = Duration::from_millis(100);
/// The longest wait between two attempts.
const LONGEST: Duration = Duration::from_secs(5);

/// Exponential backoff from 100 ms to 5 s with random jitter of up to half, so that many initiators
/// of one target do not reconnect at the same moment.
#[derive(Debug, Clone)]
pub struct Backoff {
    failures: u32,
    random: u64,
}

impl Backoff {
    /// Starts with an immediate attempt; `seed` seeds the jitter.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Backoff {
            failures: 0,
            random: seed,
        }
    }

    /// An attempt failed at `now`; returns when to make the next.
    pub fn failed(&mut self, now: Instant) -> Instant {
        let whole = LONGEST.min(FIRST * 2_u32.pow(self.failures.min(16)));
        self.failures += 1;
        now + whole.mul_f64(0.5 + 0.5 * self.fraction())
    }

    /// From 0 to 1 (SplitMix64; Steele, Lea, Flood 2014).
    fn fraction(&mut self) -> f64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_longest_and_differ() {
        let mut backoffs = [Backoff::new(1), Backoff::new(2)];
        let mut waits = [Duration::ZERO; 2];
        for round in 0..20 {
            for (backoff, wait) in backoffs.iter_mut().zip(&mut waits) {
                *wait = backoff.failed(Instant::ZERO).since(Instant::ZERO);
                let whole = LONGEST.min(FIRST * 2_u32.pow(round));
                assert!(*wait >= whole / 2 && *wait <= whole, "{round}: {wait:?}");
            }
            assert_ne!(waits[0], waits[1]);
        }
    }
}
