//! What records tell of a cell: its windows, its stalls, and the time below the socket.

use std::collections::BTreeMap;

use crate::table::tables;

tables! {
    /// What the congestion windows of the sending host did in the measured time: all its connections.
    CwndUse {
        /// Connections.
        connections: u64 => Count,
        /// Greatest sum of all windows, in segments.
        sum_max_packets: u64 => Packets,
        /// Mean of that sum, in segments; null in results of versions that did not say it.
        sum_mean_packets: Option<f64> => Packets,
        /// How far the window that moved least fell below its greatest, as a share of that: 0 is flat.
        least_swing: f64 => Ratio,
        /// The same of the window that moved most.
        most_swing: f64 => Ratio,
        /// Reductions of a window without a loss.
        cwr_events: u64 => Count,
        /// Fast recoveries.
        recovery_events: u64 => Count,
        /// Retransmission time-outs.
        loss_events: u64 => Count,
    }

    /// What the I/Os of a cell waited for. Times are means over the I/Os; they add up to the latency.
    WaitUse {
        /// I/Os that were completed and of which all crossings were recorded.
        ios: u64 => Count,
        /// Their latency.
        latency_ns: f64 => Ns,
        /// How much of it may belong to the waits beside those that it is counted to.
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
    }

    /// The waits of one cause at one layer.
    WaitSum {
        /// The cause.
        cause: String,
        /// The layer that had the I/Os meanwhile.
        layer: String,
        /// Which way the bytes go that waited, `to_target` or `to_initiator`; null while a program or the
        /// store had them.
        way: Option<String>,
        /// What it is derived from: `crossings`, `stamps`, `pdus`, `packets`, `tcp_info` or `resources`.
        source: String,
        /// Their length.
        mean_ns: f64,
        /// How much of that may belong to the waits beside them.
        uncertain_ns: f64,
    }

    /// What stalls cost the I/Os of a cell.
    StallUse {
        /// The cause that cost most, if that is a twentieth of the mean latency or more; else `none`.
        cause: String => Text of Causes,
        /// I/Os that were completed.
        ios: u64 => Count,
        /// What all stalls cost, as a mean over the I/Os.
        cost_ns: f64 => Ns,
        /// Round trips that an I/O took, as a mean: one, and one for each stall that ended with an
        /// acknowledgement or an R2T.
        round_trips: f64 => Count,
        /// Each cause, the most costly first.
        causes: Vec<CauseUse>,
    }

    /// What one cause cost.
    CauseUse {
        /// The cause's name.
        cause: String,
        /// Stalls.
        stalls: u64,
        /// I/Os that had one at least.
        ios: u64,
        /// Its cost, as a mean over all I/Os.
        cost_ns: f64,
        /// The stall that cost most, to be looked at.
        example: Example,
    }

    /// One stall.
    Example {
        /// The session of the I/O.
        session: String,
        /// Its Initiator Task Tag.
        task: u32,
        /// From when on it could have gone on, CLOCK_MONOTONIC.
        from_ns: u64,
        /// When it went on.
        to_ns: u64,
        /// The packets that show it.
        packets: Vec<ShownPacket>,
    }

    /// A packet that shows a stall.
    ShownPacket {
        /// What it has to do with it.
        role: String,
        /// Its row in `packet.parquet`, from 0.
        packet: u64,
        /// When it left its sender.
        sent_ns: u64,
    }

    /// Where the latency of a cell's I/Os goes, derived from the kernel's stamps. Times are means over the I/Os
    /// that were split; they add up to `latency_ns`.
    BelowSocket {
        /// Whose records it is derived from: `both`, `initiator` or `target`.
        recorded: String = "both",
        /// I/Os that were split.
        ios: u64 => Count,
        /// Those that were not, by the reason.
        untold: BTreeMap<String, u64> => Count of Untold,
        /// The latency of those that were split.
        latency_ns: f64 => Ns,
        /// In the initiator's program.
        initiator_ns: f64 => Ns,
        /// In the target's program.
        target_ns: f64 => Ns,
        /// Beyond the only end that has recorded it.
        beyond_ns: f64 => Ns,
        /// Both ways together.
        both_ways: LegUse => Group,
        /// On the way to the target.
        to_target: LegUse => Group,
        /// On the way to the initiator.
        to_initiator: LegUse => Group,
        /// Round trips of an I/O.
        round_trips: f64 => Count,
        /// How much may belong to a part beside the one that it is counted to.
        uncertain_ns: f64 => Ns,
        /// The stamps that it is derived from.
        stamps: StampCount => Group,
    }

    /// Parts of the way from one program to the other, means over I/Os.
    LegUse {
        /// With the sending program, until the send buffer had room.
        no_room_ns: f64 => Ns,
        /// So much of that while all that the buffer has room for was in flight: it is too small for the
        /// path.
        no_room_buffer_ns: f64 => Ns,
        /// So much of that while the buffer's own bytes waited for the congestion window.
        no_room_cwnd_ns: f64 => Ns,
        /// So much of that while they waited for the receiver's window.
        no_room_rwnd_ns: f64 => Ns,
        /// In the send buffer while the congestion window, or what paces it, let nothing out.
        cwnd_ns: f64 => Ns,
        /// In the send buffer while the receiver's window let nothing out.
        rwnd_ns: f64 => Ns,
        /// In the send buffer while Nagle's algorithm held a short segment.
        nagle_ns: f64 => Ns,
        /// In the send buffer for none of these, or for what nobody can tell.
        other_ns: f64 => Ns,
        /// In the device's queue: from the queueing discipline to the device.
        device_queue_ns: f64 => Ns,
        /// On the path, until the receiving kernel had it; losses and their repair are part of it.
        path_ns: f64 => Ns,
        /// In the receive buffer, until the program read it.
        receive_buffer_ns: f64 => Ns,
    }

    /// How many calls the programs made on their sockets, and how many of them have no stamp.
    StampCount {
        /// Calls that gave bytes.
        sends: u64 => Count,
        /// Those without a time at the device: the kernel gave the stamp to a later call whose bytes are in
        /// the same segment, or lost it.
        sends_unstamped: u64 => Count,
        /// Calls that took bytes.
        receives: u64 => Count,
        /// Those without a time of arrival.
        receives_unstamped: u64 => Count,
    }
}
