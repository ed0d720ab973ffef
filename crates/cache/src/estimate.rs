//! How much must be on its way for the path to be full.

use std::collections::VecDeque;
use std::time::Duration;

use wansan_trace::Instant;

/// Samples of the rate that are kept: the best of them is what the path can do.
const SAMPLES: usize = 10;

/// The bandwidth-delay product as reads show it: the best rate of late by the shortest latency.
#[derive(Debug, Default)]
pub struct Estimate {
    least: Option<Duration>,
    /// The sample that is being taken: since when, and how much has come.
    since: Instant,
    bytes: u64,
    rates: VecDeque<f64>,
}

impl Estimate {
    /// So much has come, and took so long.
    pub fn came(&mut self, bytes: u64, took: Duration, now: Instant) {
        let least = self.least.map_or(took, |least| least.min(took));
        self.least = Some(least);
        self.bytes += bytes;
        let time = now - self.since;
        if time < least {
            return;
        }
        // After a pause the sample says nothing of the path.
        if time < 4 * least {
            self.rates.push_back(self.bytes as f64 / time.as_secs_f64());
            self.rates.drain(..self.rates.len().saturating_sub(SAMPLES));
        }
        self.since = now;
        self.bytes = 0;
    }

    /// In bytes; 0 while nothing is known.
    #[must_use]
    pub fn product_bytes(&self) -> u64 {
        let rate = self.rates.iter().copied().fold(0.0, f64::max);
        let least = self.least.unwrap_or_default();
        (rate * least.as_secs_f64()) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_steady_stream_shows_the_product() {
        let mut estimate = Estimate::default();
        let mut now = Instant::from_ns(1_000_000_000);
        for _ in 0..1000 {
            now += Duration::from_millis(1);
            estimate.came(100_000, Duration::from_millis(50), now);
        }
        let product = estimate.product_bytes() as f64;
        assert!((product / 5e6 - 1.0).abs() < 0.05, "{product}");
    }

    #[test]
    fn a_pause_is_no_rate() {
        let mut estimate = Estimate::default();
        for second in 1..20 {
            let now = Instant::from_ns(second * 1_000_000_000);
            estimate.came(4096, Duration::from_millis(50), now);
        }
        assert_eq!(estimate.product_bytes(), 0);
    }
}
