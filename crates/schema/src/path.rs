//! What a cell's paths did, as whoever carried their packets says it.

use crate::table::tables;

tables! {
    /// One direction of a path over a cell. Bytes are those of layer 2: the Ethernet frame without
    /// preamble, checksum and gap, and `overhead_bytes` for each packet.
    PathResult {
        /// Its name, such as `upper:forward`.
        name: String,
        /// Bytes of layer 2 that count for each packet beyond its Ethernet frame.
        overhead_bytes: u32,
        /// Whether it is down, or was at the end.
        is_down: bool,
        /// Packets that came in.
        in_packets: u64,
        /// Their bytes.
        in_bytes: u64,
        /// Packets that came out.
        out_packets: u64,
        /// Their bytes.
        out_bytes: u64,
        /// Packets that were dropped, whatever by.
        dropped_packets: u64,
        /// Those dropped by the queue, or by a full delay line.
        queue_drops: u64,
        /// Those taken by random or listed loss.
        loss_drops: u64,
        /// Those lost because the path was down.
        outage_drops: u64,
        /// Packets marked with CE.
        marked_packets: u64,
        /// Copies made.
        duplicated_packets: u64,
        /// Packets with a spoiled bit.
        corrupted_packets: u64,
        /// Packets held back so that others overtake them.
        reordered_packets: u64,
        /// Packets that wait for the link, or did at the end.
        queue_packets: u64,
        /// Their bytes.
        queue_bytes: u64,
        /// The most packets that ever waited.
        queue_high_water_packets: u64,
        /// The most bytes that ever waited.
        queue_high_water_bytes: u64,
        /// The delay that is requested, or was at the end.
        delay_asked_ns: u64,
        /// What half of the packets were to be delayed at most, as jitter drew it for each, since the
        /// delay was last changed; null when none has left since.
        delay_asked_p50_ns: Option<u64>,
        /// The same for 99 of 100 packets.
        delay_asked_p99_ns: Option<u64>,
        /// How long half of these packets were delayed at most until they were handed to the kernel.
        delay_achieved_p50_ns: Option<u64>,
        /// The same for 99 of 100 packets.
        delay_achieved_p99_ns: Option<u64>,
        /// The rate that is requested, or was at the end; null when it is unlimited.
        rate_asked_bits_per_s: Option<u64>,
        /// The most that came out in any half second since the rate was last changed; null when it did
        /// not last as long.
        rate_achieved_bits_per_s: Option<u64>,
        /// Its elements, the first one nearest the sender.
        elements: Vec<ElementResult>,
    }

    /// One element of a direction.
    ElementResult {
        /// Its name, such as `link`.
        name: String,
        /// Packets that came in.
        in_packets: u64,
        /// Their bytes.
        in_bytes: u64,
        /// Packets that went on.
        out_packets: u64,
        /// Their bytes.
        out_bytes: u64,
        /// Packets that it dropped.
        dropped_packets: u64,
        /// Packets that it marked with CE.
        marked_packets: u64,
        /// Copies that it made.
        duplicated_packets: u64,
        /// Packets that it spoiled.
        corrupted_packets: u64,
        /// Packets that it held back so that others overtake them.
        reordered_packets: u64,
        /// Packets that it holds, or did at the end; for a link, those that wait.
        depth_packets: u64,
        /// Their bytes.
        depth_bytes: u64,
        /// The most packets that it ever held.
        high_water_packets: u64,
        /// The most bytes that it ever held.
        high_water_bytes: u64,
        /// Time for which a link was sending.
        busy_ns: u64,
    }

    /// What netem says of one direction of a path. Bytes are those of Ethernet frames without preamble,
    /// checksum and gap, and without the overhead that counts for the rate.
    NetemResult {
        /// Its name, such as `upper:forward`.
        name: String,
        /// The settings that netem was given.
        setting: String,
        /// The packets that it holds at most, those on the delay line among them.
        limit_packets: u32,
        /// Where its random numbers began, which kernels say from Linux 6.7 on.
        seed: Option<u64>,
        /// Packets that left.
        out_packets: u64,
        /// Their bytes.
        out_bytes: u64,
        /// Packets that were lost, or found netem full: it counts them together.
        dropped_packets: u64,
        /// Packets that were waiting or on the delay line at the end.
        held_packets: u64,
        /// Their bytes.
        held_bytes: u64,
    }
}

impl PathResult {
    /// By how much the 99th percentile of the delays is above the one that was asked, in nanoseconds; none if no
    /// packet was delayed.
    #[must_use]
    pub fn late_p99_ns(&self) -> Option<u64> {
        Some(
            self.delay_achieved_p99_ns?
                .saturating_sub(self.delay_asked_p99_ns?),
        )
    }
}
