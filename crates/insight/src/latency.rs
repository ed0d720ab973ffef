//! The distribution of latencies.

use serde::{Deserialize, Serialize};

/// The distribution of the latencies of completed I/Os, exact (nearest rank).
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Latency {
    /// Mean.
    pub mean_ns: f64,
    /// Minimum.
    pub min_ns: u64,
    /// Median.
    pub p50_ns: u64,
    /// 90th percentile.
    pub p90_ns: u64,
    /// 99th percentile.
    pub p99_ns: u64,
    /// 99.9th percentile.
    pub p99_9_ns: u64,
    /// Maximum.
    pub max_ns: u64,
}

impl Latency {
    /// The distribution of these latencies; all zero when there are none.
    #[must_use]
    pub fn of(mut latencies_ns: Vec<u64>) -> Self {
        latencies_ns.sort_unstable();
        let (Some(&min_ns), Some(&max_ns)) = (latencies_ns.first(), latencies_ns.last()) else {
            return Latency::default();
        };
        let count = latencies_ns.len();
        let rank = |per_mille: usize| {
            let place = (count * per_mille).div_ceil(1000).max(1) - 1;
            latencies_ns[place]
        };
        let sum: u128 = latencies_ns.iter().map(|&ns| u128::from(ns)).sum();
        Latency {
            mean_ns: sum as f64 / count as f64,
            min_ns,
            p50_ns: rank(500),
            p90_ns: rank(900),
            p99_ns: rank(990),
            p99_9_ns: rank(999),
            max_ns,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_exact() {
        let latency = Latency::of((1..=1000).rev().collect());
        assert_eq!(latency.min_ns, 1);
        assert_eq!(latency.p50_ns, 500);
        assert_eq!(latency.p90_ns, 900);
        assert_eq!(latency.p99_ns, 990);
        assert_eq!(latency.p99_9_ns, 999);
        assert_eq!(latency.max_ns, 1000);
        assert!((latency.mean_ns - 500.5).abs() < 1e-9);
        assert_eq!(Latency::of(vec![7]).p99_9_ns, 7);
        assert_eq!(Latency::of(Vec::new()), Latency::default());
    }
}
