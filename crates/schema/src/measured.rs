//! Results from a cell's records: its windows, its stalls, and the time below the socket.

use std::collections::BTreeMap;

use crate::table::tables;

tables! {
    /// The congestion windows of all connections of the sending host in the measured interval.
    CwndUse {
        /// Connections.
        connections: u64 => Count,
        /// Maximum sum of all windows, in segments.
        sum_max_packets: u64 => Packets,
        /// Mean of that sum, in segments; null in results of versions without it.
        sum_mean_packets: Option<f64> => Packets,
        /// The drop of the steadiest window from its maximum, as a share of the maximum: 0 is flat.
        least_swing: f64 => Ratio,
        /// The same for the window that varied most.
        most_swing: f64 => Ratio,
        /// Window reductions without a loss.
        cwr_events: u64 => Count,
        /// Fast recoveries.
        recovery_events: u64 => Count,
        /// Retransmission timeouts.
        loss_events: u64 => Count,
    }

    /// The waits of a cell's I/Os. Times are means over the I/Os; they add up to the latency.
    WaitUse {
        /// Completed I/Os with all crossings recorded.
        ios: u64 => Count,
        /// Their latency.
        latency_ns: f64 => Ns,
        /// Half of the 95 % confidence interval of its mean, if a sample of the I/Os was recorded; 0 if all were.
        latency_uncertain_ns: f64 => Ns,
        /// The part of it that may belong to a wait adjacent to the one that it is assigned to.
        uncertain_ns: f64 => Ns,
        /// The waits by their causes.
        causes: BTreeMap<String, WaitCause> => Group of Waits,
        /// The same by layer, way and source, from the top layer down.
        sums: Vec<WaitSum>,
    }

    /// The waits of one cause.
    WaitCause {
        /// Their length.
        mean_ns: f64 => Ns,
        /// Their share of the latency, 0 to 1.
        share: f64 => Ratio,
        /// Half of the 95 % confidence interval of that share, if a sample of the I/Os was recorded; 0 if all were.
        share_uncertain: f64 => Ratio,
    }

    /// The waits of one cause at one layer.
    WaitSum {
        /// The cause.
        cause: String,
        /// The layer that held the I/Os during it.
        layer: String,
        /// The direction of the waiting bytes, `to_target` or `to_initiator`; null if a program or the
        /// store held them.
        way: Option<String>,
        /// Its source: `crossings`, `stamps`, `pdus`, `packets`, `tcp_info` or `resources`.
        source: String,
        /// Their length.
        mean_ns: f64,
        /// The part of that which may belong to adjacent waits.
        uncertain_ns: f64,
    }

    /// The cost of stalls to a cell's I/Os.
    StallUse {
        /// The most costly cause, if it costs 5 % of the mean latency or more; else `none`.
        cause: String => Text of Causes,
        /// Completed I/Os.
        ios: u64 => Count,
        /// The cost of all stalls, as a mean over the I/Os.
        cost_ns: f64 => Ns,
        /// Mean number of round trips per I/O: one, plus one for each stall that ended with an
        /// acknowledgement or an R2T.
        round_trips: f64 => Count,
        /// Each cause, the most costly first.
        causes: Vec<CauseUse>,
    }

    /// The cost of one cause.
    CauseUse {
        /// The cause's name.
        cause: String,
        /// Stalls.
        stalls: u64,
        /// I/Os with at least one.
        ios: u64,
        /// Its cost, as a mean over all I/Os.
        cost_ns: f64,
        /// The most costly stall, as an example.
        example: Example,
    }

    /// One stall.
    Example {
        /// The session of the I/O.
        session: String,
        /// Its Initiator Task Tag.
        task: u32,
        /// When it could have continued, CLOCK_MONOTONIC.
        from_ns: u64,
        /// When it ended.
        to_ns: u64,
        /// The packets that show it.
        packets: Vec<ShownPacket>,
    }

    /// A packet that shows a stall.
    ShownPacket {
        /// Its role in the stall.
        role: String,
        /// Its row in `packet.parquet`, from 0.
        packet: u64,
        /// When it left its sender.
        sent_ns: u64,
    }

    /// The breakdown of the latency of a cell's I/Os, from the kernel's time stamps. Times are means over the I/Os
    /// that were split; they add up to `latency_ns`.
    BelowSocket {
        /// The end whose records it is derived from: `both`, `initiator` or `target`.
        recorded: String = "both",
        /// I/Os that were split.
        ios: u64 => Count,
        /// Those that were not, by reason.
        untold: BTreeMap<String, u64> => Count of Untold,
        /// The latency of those that were split.
        latency_ns: f64 => Ns,
        /// In the initiator's program.
        initiator_ns: f64 => Ns,
        /// In the target's program.
        target_ns: f64 => Ns,
        /// Beyond the only end that recorded it.
        beyond_ns: f64 => Ns,
        /// Both directions together.
        both_ways: LegUse => Group,
        /// In the direction to the target.
        to_target: LegUse => Group,
        /// In the direction to the initiator.
        to_initiator: LegUse => Group,
        /// Round trips of an I/O.
        round_trips: f64 => Count,
        /// The part that may belong to an adjacent one.
        uncertain_ns: f64 => Ns,
        /// The time stamps that it is derived from.
        stamps: StampCount => Group,
    }

    /// Stages of one direction, from one program to the other; means over I/Os.
    LegUse {
        /// In the sending program, until the send buffer had room.
        no_room_ns: f64 => Ns,
        /// The part of that during which the whole buffer was in flight: it is too small for the
        /// path.
        no_room_buffer_ns: f64 => Ns,
        /// The part of that during which the buffer's bytes waited for the congestion window.
        no_room_cwnd_ns: f64 => Ns,
        /// The part of that during which they waited for the receiver's window.
        no_room_rwnd_ns: f64 => Ns,
        /// In the send buffer while the congestion window, or pacing, blocked sending.
        cwnd_ns: f64 => Ns,
        /// In the send buffer while the receiver's window blocked sending.
        rwnd_ns: f64 => Ns,
        /// In the send buffer while Nagle's algorithm held a short segment.
        nagle_ns: f64 => Ns,
        /// In the send buffer for another or an unknown reason.
        other_ns: f64 => Ns,
        /// In the device's queue: from the queueing discipline to the device.
        device_queue_ns: f64 => Ns,
        /// On the path, until the receiving kernel had it; losses and their repair are part of it.
        path_ns: f64 => Ns,
        /// In the receive buffer, until the program read it.
        receive_buffer_ns: f64 => Ns,
    }

    /// The number of the programs' socket calls, and of those without a time stamp.
    StampCount {
        /// Write calls.
        sends: u64 => Count,
        /// Those without a time at the device: the kernel assigned the time stamp to a later call with bytes in
        /// the same segment, or lost it.
        sends_unstamped: u64 => Count,
        /// Read calls.
        receives: u64 => Count,
        /// Those without an arrival time.
        receives_unstamped: u64 => Count,
    }
}
