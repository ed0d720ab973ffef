//! What streams, relays and the routers of VPNs did in a cell.

use std::collections::BTreeMap;

use crate::FlowReport;
use crate::table::tables;

tables! {
    /// What one `[[stream]]` measured, of all its connections.
    StreamResult {
        /// The host that sent.
        host: String,
        /// The relay that it went through.
        through: Option<String>,
        /// Bytes per second of all its connections together; null when one had fewer than two marks.
        bytes_per_s: Option<f64> => BytesPerS,
        /// The mean of one.
        flow_bytes_per_s: Option<f64> => BytesPerS,
        /// Jain's index of fairness of its connections.
        fairness: Option<f64> => Ratio,
        /// From before a mark was offered to the socket until its echo was read: least.
        latency_min_ns: Option<u64> => Ns,
        /// From before a mark was offered to the socket until its echo was read: mean.
        latency_mean_ns: Option<f64> => Ns,
        /// From before a mark was offered to the socket until its echo was read: median.
        latency_p50_ns: Option<u64> => Ns,
        /// From before a mark was offered to the socket until its echo was read: 99th percentile.
        latency_p99_ns: Option<u64> => Ns,
        /// From before a mark was offered to the socket until its echo was read: greatest.
        latency_max_ns: Option<u64> => Ns,
        /// From before a mark was offered to the socket until the receiver had read it: mean.
        one_way_mean_ns: Option<f64> => Ns,
        /// From before a mark was offered to the socket until the receiver had read it: median.
        one_way_p50_ns: Option<u64> => Ns,
        /// From before a mark was offered to the socket until the receiver had read it: 99th percentile.
        one_way_p99_ns: Option<u64> => Ns,
        /// From before a mark was offered to the socket until the receiver had read it: greatest.
        one_way_max_ns: Option<u64> => Ns,
        /// Segments retransmitted.
        retransmits: u64 => Packets,
        /// Times that a sender was seen in slow start again.
        slow_start_returns: u64 => Count,
        /// From when on it was measured, CLOCK_MONOTONIC.
        measured_from_ns: u64,
        /// Until when.
        measured_to_ns: u64,
        /// Each connection.
        flows: Vec<FlowReport>,
    }

    /// What one `[[relay]]` did. What waited in it is of all flows together in their busier direction, in the
    /// samples while it was measured: receive queue, own memory, and what the send queue had not sent.
    RelayResult {
        /// Its host.
        host: String,
        /// Flows that ended with a FIN from both sides.
        finished: u64 => Count,
        /// Flows that were reset, or cut off at the end.
        lost: u64 => Count,
        /// Flows whose other end could not be reached.
        not_connected: u64 => Count,
        /// Bytes passed on to its target.
        onward_bytes: u64 => Bytes,
        /// Bytes passed back to clients.
        back_bytes: u64 => Bytes,
        /// By what it held flows' backlogs, as `wansan relay --law` names it; null in runs from before it
        /// was recorded.
        law: Option<String> => Text of Laws,
        /// Times that it began to signal ECE while it was measured.
        ece_signals: Option<u64> => Count [Tcp],
        /// Times, from its start to its end, that signals were of no use to a flow and the window alone
        /// held its backlog, by the reason.
        fallbacks: BTreeMap<String, u64> => Count of Fallbacks,
        /// Bytes that waited in it: mean of the samples.
        backlog_mean_bytes: Option<f64> => Bytes [Tcp],
        /// Bytes that waited in it: 99th percentile of the samples.
        backlog_p99_bytes: Option<u64> => Bytes [Tcp],
        /// Bytes that waited in it: greatest.
        backlog_max_bytes: Option<u64> => Bytes [Tcp],
        /// How long a byte waited there that came when a sample was taken, until it had been sent: mean
        /// of all flows' samples.
        backlog_mean_ns: Option<f64> => Ns [Tcp],
        /// How long such a byte waited: 99th percentile of all flows' samples.
        backlog_p99_ns: Option<f64> => Ns [Tcp],
        /// How long such a byte waited: greatest.
        backlog_max_ns: Option<f64> => Ns [Tcp],
    }

    /// What the tunnels of one router carried and cost while its cell was measured.
    RouterUsage by router {
        /// The router.
        router: String,
        /// `wireguard` or `ipsec`.
        vpn: String,
        /// How its tunnels encrypt.
        ciphers: Vec<String>,
        /// Bytes of inner IP packets that went into the tunnels here.
        sent_bytes: u64 => Bytes,
        /// Bytes of inner IP packets that came out of the tunnels here.
        received_bytes: u64 => Bytes,
        /// Inner packets that found no room in the queues of its tunnels' devices, before they were
        /// encrypted.
        dropped_packets: u64 => Packets,
        /// Outer packets that found no room in the buffers of its UDP sockets, before they were decrypted.
        dropped_sealed_packets: u64 => Packets,
        /// Processor time of the router's VPN program, user and system.
        cpu_ns: u64 => Ns,
        /// `cpu_ns` in seconds for each 2^30 bytes that were sent or received; null when none were.
        cpu_s_per_gib: Option<f64> => SPerGib,
    }
}
