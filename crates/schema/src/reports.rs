//! Summaries that load programs print when they end, as one line of JSON.

use std::collections::BTreeMap;

use crate::table::tables;

tables! {
    /// Results of `wansan bench` between warm-up and end.
    BenchReport {
        /// Its host in a world of the lab; empty if started by hand.
        host: String,
        /// I/Os completed.
        ios: u64,
        /// I/Os per second.
        iops: f64,
        /// Payload bytes per second.
        bytes_per_s: f64,
        /// Failed I/Os, over the whole load.
        errors: u64,
        /// The error of the first failed one.
        first_error: Option<String>,
        /// Pieces read and compared.
        verified: u64,
        /// Pieces with wrong content.
        corrupt: u64,
        /// Length of the measured interval, in seconds.
        elapsed_s: f64,
        /// Latencies, from submission to completion; null when no I/O was completed.
        latency_ns: Option<IoLatency>,
        /// Start of the measured interval, CLOCK_MONOTONIC.
        measured_from_ns: u64,
        /// End of the measured interval, CLOCK_MONOTONIC.
        measured_to_ns: u64,
        /// Bytes per I/O.
        block_bytes: u32,
        /// I/Os kept in flight.
        parallel: u64,
        /// Sessions and connections that replaced lost ones, over the whole load.
        recoveries: u64,
        /// Seconds without any connection, over the whole load.
        lost_s: f64,
        /// Results of each connection of the session, from warm-up to end.
        connections: Vec<ConnectionReport>,
        /// Dropped records, if the load was recorded.
        records_dropped: u64,
    }

    /// Latencies of I/Os, in ns.
    IoLatency {
        /// Arithmetic mean.
        mean: f64,
        /// Least.
        min: u64,
        /// Median.
        p50: u64,
        /// 90th percentile.
        p90: u64,
        /// 99th percentile.
        p99: u64,
        /// 99.9th percentile.
        p99_9: u64,
        /// Greatest.
        max: u64,
    }

    /// Results of one connection of the session in the measured interval.
    ConnectionReport {
        /// Its CID.
        cid: u32,
        /// The portal at its other end.
        portal: String,
        /// Commands completed.
        commands: u64,
        /// Their payload, in bytes.
        bytes: u64,
        /// Mean number of commands in flight on it.
        in_flight_mean: f64,
        /// Mean number of those that waited for its socket.
        waiting_mean: f64,
    }

    /// Results of `wansan stream send`, over all its streams.
    StreamReport {
        /// Bytes per second of all streams together; null if that of one stream is unknown.
        bytes_per_s: Option<f64>,
        /// Jain's index of fairness of the streams' throughput: 1 if all are equal, 1 ÷ their number if one has
        /// everything; null if that of one stream is unknown.
        fairness: Option<f64>,
        /// Round-trip latency of the marks of all streams; null if no echo arrived.
        latency_ns: Option<MarkLatency>,
        /// One-way latency of the marks of all streams; null if sender and receiver do not share a clock.
        one_way_ns: Option<MarkLatency>,
        /// Length of the measured interval, in seconds.
        elapsed_s: f64,
        /// Distance between marks, in bytes.
        mark_every_bytes: u32,
        /// Start of the measured interval, CLOCK_MONOTONIC.
        measured_from_ns: u64,
        /// End of the measured interval, CLOCK_MONOTONIC.
        measured_to_ns: u64,
        /// Dropped records, if TCP was recorded.
        records_dropped: u64,
        /// Each stream.
        flows: Vec<FlowReport>,
    }

    /// Results of one stream.
    FlowReport {
        /// Its number, from 0.
        flow: u64,
        /// The sender's address.
        local: String,
        /// The peer's address: the receiver, or a relay.
        peer: String,
        /// The sender's congestion control.
        congestion_control: String,
        /// Bytes that the receiver read between the first and the last mark echoed in the measured interval; if
        /// only one was, between that one and the previous one.
        bytes: u64,
        /// These divided by the time between them on the receiver's clock; null with fewer than two marks.
        bytes_per_s: Option<f64>,
        /// Round-trip latency of a mark, from before it was passed to the sender's socket until its echo was read;
        /// null if no echo arrived.
        latency_ns: Option<MarkLatency>,
        /// One-way latency, from the same moment until the receiver had read the mark; null if they do not share a
        /// clock.
        one_way_ns: Option<MarkLatency>,
        /// Segments retransmitted by the sender.
        retransmits: u64,
        /// Number of returns of the sender to slow start in the measured interval, as sampled (RFC 5681
        /// §3.1).
        slow_start_returns: u64,
    }

    /// Latencies in ns.
    MarkLatency {
        /// Number of measurements.
        count: u64,
        /// Least.
        min: u64,
        /// Arithmetic mean.
        mean: f64,
        /// Median.
        p50: u64,
        /// 99th percentile.
        p99: u64,
        /// Greatest.
        max: u64,
    }

    /// Totals of `wansan relay` from its start to its end.
    RelayEnd {
        /// Accepted connections.
        accepted: u64,
        /// Those from addresses outside the listener's networks; they were reset.
        turned_away: u64,
        /// Those that the relay itself had made, because its target address led back to it; they were reset.
        looped: u64,
        /// Flows that ended with a FIN from both sides.
        finished: u64,
        /// Flows that ended because a side was lost: reset by its peer, or timed out.
        lost: u64,
        /// Flows whose target refused the connection.
        refused: u64,
        /// Flows whose target was unreachable.
        unreachable: u64,
        /// Flows whose target did not answer in time.
        timed_out: u64,
        /// Flows that could not connect for another reason, such as a lack of file descriptors.
        failed: u64,
        /// Flows that were active at its end.
        cut_off: u64,
        /// Bytes accepted by the targets' sockets.
        onward_bytes: u64,
        /// Bytes accepted by the clients' sockets.
        back_bytes: u64,
        /// Number of times that ECE towards a side began.
        ece_signals: u64,
        /// Number of times that the window alone limited a flow's backlog, by reason.
        fallbacks: BTreeMap<String, u64>,
    }
}

impl BenchReport {
    /// What failed in the load, if anything: I/Os, or all of them to complete in the time.
    #[must_use]
    pub fn problem(&self) -> Option<String> {
        if self.corrupt > 0 || self.errors > 0 {
            let first = self.first_error.as_deref().unwrap_or_default();
            let errors = self.errors;
            return Some(format!("{errors} I/Os failed, the first with: {first}"));
        }
        let none = "no I/O completed in the time given: measure longer";
        (self.ios == 0).then(|| none.to_owned())
    }
}
