//! What a load measured.

use hdrhistogram::Histogram;
use serde::Serialize;
use wansan_iscsi::initiator::Tally;
use wansan_trace::Instant;

/// Latencies in ns, from submission to completion.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Latency {
    /// Arithmetic mean.
    pub mean: f64,
    /// Least.
    pub min: u64,
    /// Median.
    pub p50: u64,
    /// 90th percentile.
    pub p90: u64,
    /// 99th percentile.
    pub p99: u64,
    /// 99.9th percentile.
    pub p99_9: u64,
    /// Greatest.
    pub max: u64,
}

/// Counters of one connection of the session during the measurement.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ConnectionReport {
    /// Its CID.
    pub cid: u16,
    /// The portal at its other end.
    pub portal: String,
    /// Commands completed.
    pub commands: u64,
    /// Their payload, in bytes.
    pub bytes: u64,
    /// Mean number of outstanding commands.
    pub in_flight_mean: f64,
    /// Mean number of those that waited for the socket.
    pub waiting_mean: f64,
}

impl ConnectionReport {
    /// What lies between two tallies of all connections, `earlier` and `later`.
    pub(super) fn between(
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
}

/// What a load measured between warm-up and end.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// I/Os completed.
    pub ios: u64,
    /// I/Os per second.
    pub iops: f64,
    /// Payload bytes per second.
    pub bytes_per_s: f64,
    /// I/Os that failed, over the whole load.
    pub errors: u64,
    /// The first error.
    pub first_error: Option<String>,
    /// Blocks read and verified.
    pub verified: u64,
    /// Blocks with wrong content.
    pub corrupt: u64,
    /// Seconds measured.
    pub elapsed_s: f64,
    /// Latencies; `None` when no I/O was completed.
    pub latency_ns: Option<Latency>,
    /// Start of the measurement, CLOCK_MONOTONIC.
    pub measured_from_ns: u64,
    /// End of the measurement, CLOCK_MONOTONIC.
    pub measured_to_ns: u64,
    /// Bytes per I/O.
    pub block_bytes: u32,
    /// I/Os kept in flight.
    pub parallel: usize,
    /// Recoveries of sessions and connections, over the whole load.
    pub recoveries: u64,
    /// Seconds without any connection, over the whole load.
    pub lost_s: f64,
    /// Counters of each connection of the session, warm-up excluded.
    pub connections: Vec<ConnectionReport>,
    /// Records dropped, if the load was recorded.
    pub records_dropped: u64,
}

/// Gathers a [`Report`].
#[derive(Debug)]
pub(super) struct Meter {
    histogram: Histogram<u64>,
    pub(super) errors: u64,
    pub(super) first_error: Option<String>,
    pub(super) verified: u64,
    pub(super) corrupt: u64,
}

/// Latencies above this are counted as this (17 minutes).
const LONGEST_NS: u64 = 1 << 40;

impl Meter {
    pub(super) fn new() -> Self {
        Meter {
            histogram: Histogram::new_with_bounds(1, LONGEST_NS, 3)
                .expect("the bounds and three digits are within what a histogram allows"),
            errors: 0,
            first_error: None,
            verified: 0,
            corrupt: 0,
        }
    }

    pub(super) fn completed(&mut self, latency_ns: u64) {
        self.histogram.saturating_record(latency_ns.max(1));
    }

    pub(super) fn failed(&mut self, what: impl FnOnce() -> String) {
        self.errors += 1;
        self.first_error.get_or_insert_with(what);
    }

    pub(super) fn report(
        self,
        from: Instant,
        to: Instant,
        block_bytes: u32,
        parallel: usize,
    ) -> Report {
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
        Report {
            ios,
            iops: per_second(ios as f64),
            bytes_per_s: per_second(ios as f64 * f64::from(block_bytes)),
            errors: self.errors,
            first_error: self.first_error,
            verified: self.verified,
            corrupt: self.corrupt,
            elapsed_s,
            latency_ns: (ios > 0).then(|| Latency {
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
            parallel,
            recoveries: 0,
            lost_s: 0.0,
            connections: Vec::new(),
            records_dropped: 0,
        }
    }
}
