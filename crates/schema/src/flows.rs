//! Results of streams, relays and VPN routers in a cell.

use std::collections::BTreeMap;

use crate::FlowReport;
use crate::table::tables;

tables! {
    /// Results of one `[[stream]]`, over all its connections.
    StreamResult {
        /// The host that sent.
        host: String,
        /// Its relay, if any.
        through: Option<String>,
        /// Bytes per second of all its connections together; null if one had fewer than two marks.
        bytes_per_s: Option<f64> => BytesPerS,
        /// The mean per connection.
        flow_bytes_per_s: Option<f64> => BytesPerS,
        /// Jain's index of fairness of its connections.
        fairness: Option<f64> => Ratio,
        /// Round-trip latency of a mark, from before it was passed to the socket until its echo was read: minimum.
        latency_min_ns: Option<u64> => Ns,
        /// Round-trip latency of a mark: mean.
        latency_mean_ns: Option<f64> => Ns,
        /// Round-trip latency of a mark: median.
        latency_p50_ns: Option<u64> => Ns,
        /// Round-trip latency of a mark: 99th percentile.
        latency_p99_ns: Option<u64> => Ns,
        /// Round-trip latency of a mark: maximum.
        latency_max_ns: Option<u64> => Ns,
        /// One-way latency of a mark, from before it was passed to the socket until the receiver had read it: mean.
        one_way_mean_ns: Option<f64> => Ns,
        /// One-way latency of a mark: median.
        one_way_p50_ns: Option<u64> => Ns,
        /// One-way latency of a mark: 99th percentile.
        one_way_p99_ns: Option<u64> => Ns,
        /// One-way latency of a mark: maximum.
        one_way_max_ns: Option<u64> => Ns,
        /// Retransmitted segments.
        retransmits: u64 => Packets,
        /// Number of returns of a sender to slow start, as sampled.
        slow_start_returns: u64 => Count,
        /// Start of the measured interval, CLOCK_MONOTONIC.
        measured_from_ns: u64,
        /// End of the measured interval.
        measured_to_ns: u64,
        /// Each connection.
        flows: Vec<FlowReport>,
    }

    /// Results of one `[[relay]]`. Its backlog is the sum over all flows in their busier direction, from samples
    /// during the measured interval: receive queue, own memory, and unsent data in the send queue.
    RelayResult {
        /// Its host.
        host: String,
        /// Flows that ended with a FIN from both sides.
        finished: u64 => Count,
        /// Flows that were reset, or aborted at the end.
        lost: u64 => Count,
        /// Flows whose other end could not be reached.
        not_connected: u64 => Count,
        /// Bytes forwarded to its target.
        onward_bytes: u64 => Bytes,
        /// Bytes forwarded to clients.
        back_bytes: u64 => Bytes,
        /// The control law for flows' backlogs, as in `wansan relay --law`; null in runs of versions that
        /// did not record it.
        law: Option<String> => Text of Laws,
        /// Number of times that it began to signal ECE during the measured interval.
        ece_signals: Option<u64> => Count [Tcp],
        /// Number of times, from its start to its end, that ECE had no effect on a flow and the window alone
        /// limited its backlog, by reason.
        fallbacks: BTreeMap<String, u64> => Count of Fallbacks,
        /// Backlog in bytes: mean of the samples.
        backlog_mean_bytes: Option<f64> => Bytes [Tcp],
        /// Backlog in bytes: 99th percentile of the samples.
        backlog_p99_bytes: Option<u64> => Bytes [Tcp],
        /// Backlog in bytes: maximum.
        backlog_max_bytes: Option<u64> => Bytes [Tcp],
        /// Queueing delay of a byte that arrived at a sample, until it was sent: mean of all flows'
        /// samples.
        backlog_mean_ns: Option<f64> => Ns [Tcp],
        /// Queueing delay: 99th percentile of all flows' samples.
        backlog_p99_ns: Option<f64> => Ns [Tcp],
        /// Queueing delay: maximum.
        backlog_max_ns: Option<f64> => Ns [Tcp],
    }

    /// Traffic and cost of one router's tunnels during the measured interval.
    RouterUsage by router {
        /// The router.
        router: String,
        /// `wireguard` or `ipsec`.
        vpn: String,
        /// The ciphers of its tunnels.
        ciphers: Vec<String>,
        /// Bytes of inner IP packets that entered the tunnels here.
        sent_bytes: u64 => Bytes,
        /// Bytes of inner IP packets that came out of the tunnels here.
        received_bytes: u64 => Bytes,
        /// Inner packets dropped before encryption because a tunnel device's queue was full.
        dropped_packets: u64 => Packets,
        /// Outer packets dropped before decryption because a UDP socket's buffer was full.
        dropped_sealed_packets: u64 => Packets,
        /// CPU time of the router's VPN program, user and system.
        cpu_ns: u64 => Ns,
        /// `cpu_ns` in seconds per 2^30 bytes sent or received; null if there were none.
        cpu_s_per_gib: Option<f64> => SPerGib,
    }
}
