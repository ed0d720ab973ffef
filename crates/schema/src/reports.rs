//! What programs that load a world say at their ends, as JSON on one line.

use std::collections::BTreeMap;

use crate::table::tables;

tables! {
    /// What `wansan bench` measured between warm-up and end.
    BenchReport {
        /// The host that it ran on, in a world of the lab; empty of one started by hand.
        host: String,
        /// I/Os completed.
        ios: u64,
        /// I/Os per second.
        iops: f64,
        /// Payload bytes per second.
        bytes_per_s: f64,
        /// I/Os that failed, over the whole load.
        errors: u64,
        /// What the first failed one said.
        first_error: Option<String>,
        /// Pieces read whose content was compared.
        verified: u64,
        /// Pieces whose content was wrong.
        corrupt: u64,
        /// Seconds measured.
        elapsed_s: f64,
        /// Latencies, from submission to completion; null when no I/O was completed.
        latency_ns: Option<IoLatency>,
        /// Start of what was measured, CLOCK_MONOTONIC.
        measured_from_ns: u64,
        /// End of what was measured, CLOCK_MONOTONIC.
        measured_to_ns: u64,
        /// Bytes per I/O.
        block_bytes: u32,
        /// I/Os kept in flight.
        parallel: u64,
        /// Sessions and connections that took the place of lost ones, over the whole load.
        recoveries: u64,
        /// Seconds without any connection, over the whole load.
        lost_s: f64,
        /// What each connection of the session did, from warm-up to end.
        connections: Vec<ConnectionReport>,
        /// Record losses, when the load was recorded.
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

    /// What one connection of the session did while the load was measured.
    ConnectionReport {
        /// Its CID.
        cid: u32,
        /// The portal at its other end.
        portal: String,
        /// Commands completed.
        commands: u64,
        /// Their payload, in bytes.
        bytes: u64,
        /// Commands under way on it, on average.
        in_flight_mean: f64,
        /// Of them, those that waited for its socket to take them, on average.
        waiting_mean: f64,
    }

    /// What `wansan stream send` measured, of all its streams.
    StreamReport {
        /// Bytes per second of all streams together; null when that of one is not known.
        bytes_per_s: Option<f64>,
        /// Jain's index of fairness of the streams' throughput: 1 when they are alike, 1 ÷ their number
        /// when one has all; null when that of one is not known.
        fairness: Option<f64>,
        /// That of the marks of all streams; null when none came back.
        latency_ns: Option<MarkLatency>,
        /// Of all streams; null when sender and receiver have not one clock.
        one_way_ns: Option<MarkLatency>,
        /// Seconds measured.
        elapsed_s: f64,
        /// Distance of marks in bytes.
        mark_every_bytes: u32,
        /// Start of what was measured, CLOCK_MONOTONIC.
        measured_from_ns: u64,
        /// End of what was measured, CLOCK_MONOTONIC.
        measured_to_ns: u64,
        /// Records lost, when TCP was recorded.
        records_dropped: u64,
        /// Each stream.
        flows: Vec<FlowReport>,
    }

    /// What one stream measured.
    FlowReport {
        /// Its number, from 0.
        flow: u64,
        /// The sender's end.
        local: String,
        /// The other end of its connection: the receiver, or a relay.
        peer: String,
        /// What the sender's kernel uses.
        congestion_control: String,
        /// Bytes that the receiver read between the first and the last mark that came back while it was
        /// measured; between the last one and that before it when only one did.
        bytes: u64,
        /// These by the time between, of the receiver's clock; null when there were no two marks.
        bytes_per_s: Option<f64>,
        /// From the moment before a mark was offered to the sender's socket until its echo was read; null
        /// when none came back.
        latency_ns: Option<MarkLatency>,
        /// From that moment until the receiver had read the mark; null when they have not one clock.
        one_way_ns: Option<MarkLatency>,
        /// Segments that the sender retransmitted.
        retransmits: u64,
        /// Times that the sender was seen in slow start again, while it was measured, after it had left it
        /// (RFC 5681 §3.1).
        slow_start_returns: u64,
    }

    /// Latencies in ns.
    MarkLatency {
        /// How many were measured.
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

    /// What `wansan relay` has done from its start to its end.
    RelayEnd {
        /// Connections that were accepted.
        accepted: u64,
        /// Those of them that no network of the listener's list holds; they were reset.
        turned_away: u64,
        /// Those of them that the relay itself had made, as its target led to it; they were reset.
        looped: u64,
        /// Flows that ended with a FIN from both sides.
        finished: u64,
        /// Flows that ended as a side was lost: reset by its peer, or given up.
        lost: u64,
        /// Flows whose target refused the connection.
        refused: u64,
        /// Flows to whose target there was no way.
        unreachable: u64,
        /// Flows whose target did not answer in time.
        timed_out: u64,
        /// Flows that could not connect for another reason, such as a lack of descriptors.
        failed: u64,
        /// Flows that were under way at its end.
        cut_off: u64,
        /// Bytes that the targets' sockets took.
        onward_bytes: u64,
        /// Bytes that the clients' sockets took.
        back_bytes: u64,
        /// Times that ECE towards a side began.
        ece_signals: u64,
        /// Times that the window alone had to hold a flow's backlog, by the reason.
        fallbacks: BTreeMap<String, u64>,
    }
}

impl BenchReport {
    /// What failed of the load, if anything: its I/Os, or all of them to complete in the time.
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
