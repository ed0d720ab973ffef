//! Counters of a cell's paths, as reported by their emulator.

use crate::table::tables;

tables! {
    /// One direction of a path over a cell. Bytes are those of layer 2: the Ethernet frame without
    /// preamble, checksum and gap, and `overhead_bytes` for each packet.
    PathResult {
        /// Its name, such as `upper:forward`.
        name: String,
        /// Layer 2 overhead per packet in addition to its Ethernet frame, in bytes.
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
        /// Packets dropped for any reason.
        dropped_packets: u64,
        /// Those dropped by the queue, or by a full delay line.
        queue_drops: u64,
        /// Those dropped by random or listed loss.
        loss_drops: u64,
        /// Those lost because the path was down.
        outage_drops: u64,
        /// Packets marked with CE.
        marked_packets: u64,
        /// Copies made.
        duplicated_packets: u64,
        /// Packets with a flipped bit.
        corrupted_packets: u64,
        /// Packets held back so that others overtake them.
        reordered_packets: u64,
        /// Packets that wait for the link, or did at the end.
        queue_packets: u64,
        /// Their bytes.
        queue_bytes: u64,
        /// Maximum number of packets that waited.
        queue_high_water_packets: u64,
        /// Maximum number of bytes that waited.
        queue_high_water_bytes: u64,
        /// The delay that is requested, or was at the end.
        delay_asked_ns: u64,
        /// Intended delay, with each packet's jitter, since the delay was last changed: median; null if no packet has
        /// left since.
        delay_asked_p50_ns: Option<u64>,
        /// The same: 99th percentile.
        delay_asked_p99_ns: Option<u64>,
        /// Actual delay of these packets until they were passed to the kernel: median.
        delay_achieved_p50_ns: Option<u64>,
        /// The same: 99th percentile.
        delay_achieved_p99_ns: Option<u64>,
        /// The rate that is requested, or was at the end; null when it is unlimited.
        rate_asked_bits_per_s: Option<u64>,
        /// Maximum output in any half second since the rate was last changed; null if that is less than half a
        /// second ago.
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
        /// Packets that came out.
        out_packets: u64,
        /// Their bytes.
        out_bytes: u64,
        /// Packets that it dropped.
        dropped_packets: u64,
        /// Packets that it marked with CE.
        marked_packets: u64,
        /// Copies that it made.
        duplicated_packets: u64,
        /// Packets that it corrupted.
        corrupted_packets: u64,
        /// Packets that it held back so that others overtake them.
        reordered_packets: u64,
        /// Packets that it holds, or did at the end; for a link, those that wait.
        depth_packets: u64,
        /// Their bytes.
        depth_bytes: u64,
        /// Maximum number of packets that it held.
        high_water_packets: u64,
        /// Maximum number of bytes that it held.
        high_water_bytes: u64,
        /// Time during which a link was sending.
        busy_ns: u64,
    }

    /// netem's counters for one direction of a path. Bytes are those of Ethernet frames without preamble,
    /// checksum and gap, and without the overhead that counts for the rate.
    NetemResult {
        /// Its name, such as `upper:forward`.
        name: String,
        /// netem's settings.
        setting: String,
        /// Its limit in packets, including those on the delay line.
        limit_packets: u32,
        /// Its random seed, reported by Linux 6.7 and later.
        seed: Option<u64>,
        /// Packets that left.
        out_packets: u64,
        /// Their bytes.
        out_bytes: u64,
        /// Packets that were lost, or dropped because netem was full: it counts them together.
        dropped_packets: u64,
        /// Packets that were waiting or on the delay line at the end.
        held_packets: u64,
        /// Their bytes.
        held_bytes: u64,
    }
}

impl PathResult {
    /// The excess of the 99th percentile of the delays over the intended one, in nanoseconds; none if no packet
    /// was delayed.
    #[must_use]
    pub fn late_p99_ns(&self) -> Option<u64> {
        Some(
            self.delay_achieved_p99_ns?
                .saturating_sub(self.delay_asked_p99_ns?),
        )
    }
}
