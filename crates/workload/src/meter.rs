//! Measurements of a load.

use hdrhistogram::Histogram;
use wansan_iscsi::initiator::Tally;
use wansan_schema::{BenchReport, ConnectionReport, IoLatency};
use wansan_trace::Instant;

/// Reports what each connection carried between two sets of tallies, `earlier` and `later`, each with its portal.
#[must_use]
pub fn connections_between(
    earlier: &[(String, Tally)],
    later: &[(String, Tally)],
) -> Vec<ConnectionReport> {
    let each = earlier.iter().zip(later).zip(0..);
    each.map(|(((_, earlier), (portal, later)), cid)| ConnectionReport {
        cid,
        portal: portal.clone(),
        commands: later.commands - earlier.commands,
        bytes: later.bytes - earlier.bytes,
        in_flight_mean: later.mean_in_flight_since(earlier),
        waiting_mean: later.mean_waiting_since(earlier),
    })
    .collect()
}

/// Collects a [`BenchReport`].
#[derive(Debug)]
pub(crate) struct Meter {
    histogram: Histogram<u64>,
    bytes: u64,
    pub(crate) errors: u64,
    pub(crate) first_error: Option<String>,
    pub(crate) verified: u64,
    pub(crate) corrupt: u64,
}

/// Latencies above this are counted as this value (about 18 minutes).
const LONGEST_NS: u64 = 1 << 40;

impl Meter {
    pub(crate) fn new() -> Self {
        Meter {
            histogram: Histogram::new_with_bounds(1, LONGEST_NS, 3)
                .expect("the bounds and three digits are within what a histogram allows"),
            bytes: 0,
            errors: 0,
            first_error: None,
            verified: 0,
            corrupt: 0,
        }
    }

    pub(crate) fn completed(&mut self, bytes: u32, latency_ns: u64) {
        self.bytes += u64::from(bytes);
        self.histogram.saturating_record(latency_ns.max(1));
    }

    pub(crate) fn failed(&mut self, what: String) {
        self.errors += 1;
        self.first_error.get_or_insert(what);
    }

    pub(crate) fn report(
        &self,
        from: Instant,
        to: Instant,
        block_bytes: u32,
        parallel: usize,
    ) -> BenchReport {
        let elapsed_s = to.since(from).as_secs_f64();
        let ios = self.histogram.len();
        let per_second = |amount: f64| {
            if elapsed_s > 0.0 {
                amount / elapsed_s
            } else {
                0.0
            }
        };
        let at = |quantile| self.histogram.value_at_quantile(quantile);
        BenchReport {
            ios,
            iops: per_second(ios as f64),
            bytes_per_s: per_second(self.bytes as f64),
            errors: self.errors,
            first_error: self.first_error.clone(),
            verified: self.verified,
            corrupt: self.corrupt,
            elapsed_s,
            latency_ns: (ios > 0).then(|| IoLatency {
                mean: self.histogram.mean(),
                min: self.histogram.min(),
                p50: at(0.5),
                p90: at(0.9),
                p99: at(0.99),
                p99_9: at(0.999),
                max: self.histogram.max(),
            }),
            measured_from_ns: from.ns(),
            measured_to_ns: to.ns(),
            block_bytes,
            parallel: parallel as u64,
            ..BenchReport::default()
        }
    }
}
