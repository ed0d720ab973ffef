//! Reports of streams.

use hdrhistogram::Histogram;
use wansan_schema::{FlowReport, MarkLatency, StreamReport};
use wansan_trace::Instant;

use super::Sending;

/// Latencies above this are counted as this value (about 18 minutes).
const LONGEST_NS: u64 = 1 << 40;

/// Jain's fairness index (Jain, Chiu, Hawe 1984): (Σx)² ÷ (n Σx²); 1 if there is nothing to share.
#[must_use]
pub fn jain(shares: &[f64]) -> f64 {
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|share| share * share).sum();
    if squares == 0.0 {
        return 1.0;
    }
    sum * sum / (shares.len() as f64 * squares)
}

/// The combined measurements of one sender's streams until `to`: the report of each stream, given as `flows`, and their
/// totals. The driver adds the number of dropped records. `None` if no mark came back.
#[must_use]
pub fn report<'a>(
    streams: impl IntoIterator<Item = &'a Sending>,
    flows: Vec<FlowReport>,
    to: Instant,
) -> Option<StreamReport> {
    let (mut latencies, mut one_way) = (Latencies::new(), Latencies::new());
    let (mut from, mut mark_every_bytes) = (to, 0);
    for stream in streams {
        latencies.add(&stream.tally.latencies);
        one_way.add(&stream.tally.one_way);
        from = stream.window().0;
        mark_every_bytes = stream.every_bytes();
    }
    let rates: Option<Vec<f64>> = flows.iter().map(|flow| flow.bytes_per_s).collect();
    Some(StreamReport {
        bytes_per_s: rates.as_ref().map(|rates| rates.iter().sum()),
        fairness: rates.as_deref().map(jain),
        latency_ns: Some(latencies.summary()?),
        one_way_ns: one_way.summary(),
        elapsed_s: to.since(from).as_secs_f64(),
        mark_every_bytes,
        measured_from_ns: from.ns(),
        measured_to_ns: to.ns(),
        flows,
        ..StreamReport::default()
    })
}

/// A histogram of latencies, with three significant digits in bounded memory.
#[derive(Debug, Clone)]
pub(super) struct Latencies(Histogram<u64>);

impl Latencies {
    pub(super) fn new() -> Latencies {
        let histogram = Histogram::new_with_bounds(1, LONGEST_NS, 3);
        Latencies(histogram.expect("the bounds and digits are within what a histogram allows"))
    }

    pub(super) fn count(&mut self, ns: u64) {
        self.0.saturating_record(ns.clamp(1, LONGEST_NS));
    }

    pub(super) fn add(&mut self, other: &Latencies) {
        self.0.add(&other.0).expect("both have the same bounds");
    }

    pub(super) fn summary(&self) -> Option<MarkLatency> {
        let all = &self.0;
        (!all.is_empty()).then(|| MarkLatency {
            count: all.len(),
            min: all.min(),
            mean: all.mean(),
            p50: all.value_at_quantile(0.5),
            p99: all.value_at_quantile(0.99),
            max: all.max(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fairness_is_jains() {
        assert_eq!(jain(&[]), 1.0);
        assert_eq!(jain(&[0.0, 0.0]), 1.0);
        assert_eq!(jain(&[5.0, 5.0, 5.0, 5.0]), 1.0);
        assert_eq!(jain(&[8.0, 0.0, 0.0, 0.0]), 0.25);
        // P5 §4.5: Reno against HighSpeed TCP on a path of 1 Gbit/s.
        assert!((jain(&[68.57, 931.43]) - 0.573).abs() < 0.001);
    }

    #[test]
    fn latencies_are_told_to_three_digits() {
        let mut latencies = Latencies::new();
        assert_eq!(latencies.summary(), None);
        for ms in 1..=100 {
            latencies.count(ms * 1_000_000);
        }
        let summary = latencies.summary().unwrap();
        let near = |value: u64, ms: u64| value.abs_diff(ms * 1_000_000) < ms * 1_000_000 / 500;
        assert_eq!(summary.count, 100);
        assert!(
            near(summary.min, 1)
                && near(summary.p50, 50)
                && near(summary.p99, 99)
                && near(summary.max, 100)
        );
        assert!((summary.mean / 50.5e6 - 1.0).abs() < 0.002, "{summary:?}");
    }
}
