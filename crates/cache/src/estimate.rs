//! Estimates how much data must be outstanding to fill the path.

use std::collections::VecDeque;
use std::time::Duration;

use wansan_trace::Instant;

/// Rate samples kept: the path's capacity is the highest of them.
const SAMPLES: usize = 10;

/// Estimate of the bandwidth-delay product from reads: highest recent rate times shortest latency.
#[derive(Debug, Default)]
pub struct Estimate {
    least: Option<Duration>,
    /// The current sample: its start, and the bytes received.
    since: Instant,
    bytes: u64,
    rates: VecDeque<f64>,
}

impl Estimate {
    /// Notes that `bytes` were received after the latency `took`.
    pub fn came(&mut self, bytes: u64, took: Duration, now: Instant) {
        let least = self.least.map_or(took, |least| least.min(took));
        self.least = Some(least);
        self.bytes += bytes;
        let time = now - self.since;
        if time < least {
            return;
        }
        // A sample that spans a pause says nothing about the path.
        if time < 4 * least {
            self.rates.push_back(self.bytes as f64 / time.as_secs_f64());
            self.rates.drain(..self.rates.len().saturating_sub(SAMPLES));
        }
        self.since = now;
        self.bytes = 0;
    }

    /// The product, in bytes; 0 if unknown.
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
