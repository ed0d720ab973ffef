//! The numbers of one cell.

use std::collections::BTreeMap;

use crate::table::tables;
use crate::{
    BelowSocket, BenchReport, CellFinding, CwndUse, NetemResult, Parameters, PathChange,
    PathResult, RelayResult, RouterUsage, StallUse, StreamResult, WaitUse,
};

tables! {
    /// One cell of the sweep. One that failed has no numbers, but for what is known of its paths.
    CellResult {
        /// Its number, from 0.
        cell: u64,
        /// `planned`, or `advised` when the finding's advice was applied.
        phase: String = "planned",
        /// Which repetition of the sweep, from 0.
        repeat: u64,
        /// The value that each axis of the sweep had; the run's `advised` has what the advice has set.
        parameters: Parameters,
        /// Why it failed, if it did.
        failure: Option<String>,
        /// From when on all that loads it was measured, CLOCK_MONOTONIC; null when it failed.
        measured_from_ns: Option<u64>,
        /// Until when all of it was.
        measured_to_ns: Option<u64>,
        /// What each initiator measured.
        initiators: Vec<BenchReport>,
        /// What each stream measured.
        streams: BTreeMap<String, StreamResult> => Group of Streams,
        /// What each relay did.
        relays: BTreeMap<String, RelayResult> => Group of Relays,
        /// Jain's index of fairness of the connections of all streams.
        fairness: Option<f64> => Ratio [Streams],
        /// I/Os per second of all initiators together.
        iops: Option<f64> => PerS [Ios],
        /// Bytes of data per second of all initiators together; without any, of all streams.
        bytes_per_s: Option<f64> => BytesPerS,
        /// Half of all I/Os took at most this long; without initiators, half of the marks of the stream
        /// whose marks took longest.
        latency_p50_ns: Option<u64> => Ns,
        /// All I/Os but one in a hundred took at most this long; without initiators, such marks.
        latency_p99_ns: Option<u64> => Ns,
        /// The mean gap between data packets of a burst from the target.
        packet_gap_mean_ns: Option<f64> => Ns [Ios, Packet],
        /// Half of these gaps are at most this long; 0 where segmentation offload hands packets over
        /// together.
        packet_gap_p50_ns: Option<u64> => Ns [Ios, Packet],
        /// Nine in ten of these gaps are.
        packet_gap_p90_ns: Option<u64> => Ns [Ios, Packet],
        /// Processor time that the busiest router's VPN took for each 2^30 bytes through its tunnels.
        vpn_cpu_s_per_gib: Option<f64> => SPerGib [Ios, Vpn],
        /// What the tunnels of each router carried and cost meanwhile.
        routers: Vec<RouterUsage> => Group of Routers [Vpn],
        /// What carried the packets over its paths: `user` or `netem`; null in runs from before there was
        /// a choice.
        emulator: Option<String>,
        /// What netem says of each direction of each path, when it carried them; `paths` is empty then.
        netem: Vec<NetemResult>,
        /// Programs on hosts and routers that other work on the computer kept from the processors: the
        /// cell is slower than it would be on a quiet one.
        starved_programs: Vec<String>,
        /// Packets that the paths dropped, in all directions together.
        path_dropped: Option<u64> => Packets,
        /// Packets that they marked with CE.
        path_marked: Option<u64> => Packets [Emulator],
        /// The most bytes that ever waited in one queue of theirs.
        path_queue_high_water_bytes: Option<u64> => Bytes [Emulator],
        /// What each direction of each emulated path did.
        paths: Vec<PathResult>,
        /// What was changed of them meanwhile, in the order in which it was requested.
        timeline: Vec<PathChange>,
        /// Mean number of I/Os in flight at each recorded layer, of all initiators together.
        in_flight: BTreeMap<String, f64> => Count of Layers [Ios],
        /// What the congestion windows of the end that sends the data did.
        cwnd: Option<CwndUse> => Group [Tcp],
        /// What its I/Os waited for: each moment of their latency, with its cause.
        waits: Option<WaitUse> => Group [Ios],
        /// Where its I/Os stood still and why.
        stalls: Option<StallUse> => Group [Ios, Packet, Pdu],
        /// Where the latency goes below the socket.
        below_socket: Option<BelowSocket> => Group [Ios, Stamp, Pdu],
        /// What holds this cell back, judged by itself.
        finding: Option<CellFinding> => Group [Ios],
    }
}

impl CellResult {
    /// The time in which all that loads it was measured, in nanoseconds of CLOCK_MONOTONIC, if it was.
    #[must_use]
    pub fn measured_ns(&self) -> Option<[u64; 2]> {
        Some([self.measured_from_ns?, self.measured_to_ns?])
    }

    /// By how much its paths delayed packets more than was asked, in nanoseconds at the 99th percentile: the most
    /// of all directions; none if none delayed any.
    #[must_use]
    pub fn late_p99_ns(&self) -> Option<u64> {
        self.paths.iter().filter_map(PathResult::late_p99_ns).max()
    }
}
