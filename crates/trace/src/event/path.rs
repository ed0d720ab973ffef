//! Emulated paths.

use crate::record::record;
use crate::{Instant, NameId};

record! {
    /// `path`: one direction of one emulated path, or one element of a direction, sampled; counters start
    /// with the path. An element has no record before its first activity.
    Path in "path" named by path grouped by |path| path.path.0.into() => {
        /// When.
        time: Instant => Grows,
        /// The path and direction, such as `upper:forward`, by its name in the recorder; an element's
        /// name is appended, such as `upper:forward:link` (see [`Path::element`]).
        path: NameId => Repeats,
        /// Packets waiting for the link at this time; for an element other than a link, packets in it.
        queue_packets: u32 => Repeats,
        /// Their bytes.
        queue_bytes: u64 => Varies,
        /// Packets that came in.
        in_packets: u64 => Varies,
        /// Bytes that came in (layer 2; the manifest has the overhead).
        in_bytes: u64 => Varies,
        /// Packets that came out.
        out_packets: u64 => Varies,
        /// Bytes that came out.
        out_bytes: u64 => Varies,
        /// Packets dropped by the queue.
        queue_drops: u64 => Repeats,
        /// Packets dropped by the loss element.
        loss_drops: u64 => Repeats,
        /// Packets marked with ECN CE.
        marks: u64 => Repeats,
        /// Time during which the link was sending; its share of the elapsed time is the utilisation.
        busy_ns: u64 => Varies,
        /// The configured delay at this time, without jitter; 0 for an element that is not a delay.
        delay_ns: u64 => Repeats; added,
        /// Mean lateness, against that delay, of the packets that left since the last sample; 0 for
        /// an element.
        lateness_ns: u64 => Varies; added,
        /// The configured rate at this time; 0 if unlimited, and for an element that is not a
        /// link. The actual rate follows from the bytes that came out.
        bits_per_s: u64 => Repeats; added,
        /// The limit of the link's queue in packets; 0 if not recorded, and for an element that
        /// is not a link.
        queue_limit_packets: u64 => Repeats; added,
        /// The limit of the queue in bytes.
        queue_limit_bytes: u64 => Repeats; added,
    }
}

impl Path {
    /// Splits a record's path name into its direction and its element; the element is `None` for a whole direction.
    #[must_use]
    pub fn element(name: &str) -> (&str, Option<&str>) {
        let second = name.match_indices(':').nth(1);
        match second {
            Some((place, _)) => (&name[..place], Some(&name[place + 1..])),
            None => (name, None),
        }
    }
}
