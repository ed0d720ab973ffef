//! The numbers of one cell.

use std::collections::BTreeMap;

use crate::table::tables;
use crate::{
    BelowSocket, BenchReport, CellFinding, CwndUse, NetemResult, Parameters, PathChange,
    PathResult, RelayResult, RouterUsage, StallUse, StreamResult, WaitUse,
};

tables! {
    /// One cell of the sweep. A failed one has no numbers except those of its paths.
    CellResult {
        /// Its number, from 0.
        cell: u64,
        /// `planned`, or `advised` when the finding's advice was applied.
        phase: String = "planned",
        /// Which repetition of the sweep, from 0.
        repeat: u64,
        /// The value of each axis of the sweep; the run's `advised` has the value that the advice set.
        parameters: Parameters,
        /// Why it failed, if it did.
        failure: Option<String>,
        /// Start of the measured interval, common to all load, CLOCK_MONOTONIC; null if the cell failed.
        measured_from_ns: Option<u64>,
        /// End of the measured interval.
        measured_to_ns: Option<u64>,
        /// Results of each initiator.
        initiators: Vec<BenchReport>,
        /// Results of each stream.
        streams: BTreeMap<String, StreamResult> => Group of Streams,
        /// Results of each relay.
        relays: BTreeMap<String, RelayResult> => Group of Relays,
        /// Jain's index of fairness of the connections of all streams.
        fairness: Option<f64> => Ratio [Streams],
        /// I/Os per second of all initiators together.
        iops: Option<f64> => PerS [Ios],
        /// Bytes of data per second of all initiators together; without any, of all streams.
        bytes_per_s: Option<f64> => BytesPerS,
        /// Median latency of all I/Os; without initiators, of the marks of the stream with the slowest
        /// marks.
        latency_p50_ns: Option<u64> => Ns,
        /// 99th percentile of the latency of all I/Os; without initiators, of these marks.
        latency_p99_ns: Option<u64> => Ns,
        /// The mean gap between data packets of a burst from the target.
        packet_gap_mean_ns: Option<f64> => Ns [Ios, Packet],
        /// Median of these gaps; 0 if segmentation offload delivers packets together.
        packet_gap_p50_ns: Option<u64> => Ns [Ios, Packet],
        /// 90th percentile of these gaps.
        packet_gap_p90_ns: Option<u64> => Ns [Ios, Packet],
        /// CPU time of the busiest router's VPN per 2^30 bytes through its tunnels.
        vpn_cpu_s_per_gib: Option<f64> => SPerGib [Ios, Vpn],
        /// Traffic and cost of each router's tunnels.
        routers: Vec<RouterUsage> => Group of Routers [Vpn],
        /// The emulator of its paths: `user` or `netem`; null in runs of versions without the
        /// choice.
        emulator: Option<String>,
        /// netem's counters for each direction of each path, if it emulated them; `paths` is empty then.
        netem: Vec<NetemResult>,
        /// Programs on hosts and routers that lacked CPU time because of other work on the computer: the
        /// cell is slower than on an idle one.
        starved_programs: Vec<String>,
        /// Packets that the paths dropped, in all directions together.
        path_dropped: Option<u64> => Packets,
        /// Packets that they marked with CE.
        path_marked: Option<u64> => Packets [Emulator],
        /// The maximum backlog of any of their queues.
        path_queue_high_water_bytes: Option<u64> => Bytes [Emulator],
        /// Counters of each direction of each emulated path.
        paths: Vec<PathResult>,
        /// Changes to the paths during the cell, in the order of the requests.
        timeline: Vec<PathChange>,
        /// Mean number of I/Os in flight at each recorded layer, of all initiators together.
        in_flight: BTreeMap<String, f64> => Count of Layers [Ios],
        /// The congestion windows of the end that sends the data.
        cwnd: Option<CwndUse> => Group [Tcp],
        /// The waits of its I/Os: each moment of their latency, with its cause.
        waits: Option<WaitUse> => Group [Ios],
        /// The stalls of its I/Os and their causes.
        stalls: Option<StallUse> => Group [Ios, Packet, Pdu],
        /// The breakdown of the latency below the socket.
        below_socket: Option<BelowSocket> => Group [Ios, Stamp, Pdu],
        /// The limit of this cell, judged by itself.
        finding: Option<CellFinding> => Group [Ios],
    }
}

impl CellResult {
    /// The measured interval common to all load, in nanoseconds of CLOCK_MONOTONIC, if there was one.
    #[must_use]
    pub fn measured_ns(&self) -> Option<[u64; 2]> {
        Some([self.measured_from_ns?, self.measured_to_ns?])
    }

    /// The excess delay of its paths over the requested one, in nanoseconds at the 99th percentile: the maximum of
    /// all directions; none if no path delayed packets.
    #[must_use]
    pub fn late_p99_ns(&self) -> Option<u64> {
        self.paths.iter().filter_map(PathResult::late_p99_ns).max()
    }
}
