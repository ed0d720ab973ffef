//! Emulated paths.

use crate::record::record;
use crate::{Instant, NameId};

record! {
    /// `path`: one direction of one emulated path, or one element of a direction, sampled; the counters
    /// run from the path's start. An element has no record before it has done anything.
    Path in "path" named by path {
        /// When.
        time: Instant => Grows,
        /// The path and direction, such as `upper:forward`, by its name in the recorder; an element's
        /// name stands behind it, such as `upper:forward:link` (see [`Path::element`]).
        path: NameId => Repeats,
        /// Packets waiting for the link at this moment; of an element that is no link, packets in it.
        queue_packets: u32 => Repeats,
        /// Their bytes.
        queue_bytes: u64 => Varies,
        /// Packets that came in.
        in_packets: u64 => Varies,
        /// Bytes that came in (layer 2, see the manifest for the overhead that counts).
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
        /// Time for which the link was sending; its share of the time passed is the utilisation.
        busy_ns: u64 => Varies,
        /// The configured delay at this moment, without jitter; 0 for an element that is not a delay.
        delay_ns: u64 => Repeats; added,
        /// How much later than that the packets left that did since the last sample, their mean; 0 for
        /// an element.
        lateness_ns: u64 => Varies; added,
        /// The configured rate at this moment; 0 when unlimited, and for an element that is not a
        /// link. The achieved rate follows from the bytes that came out.
        bits_per_s: u64 => Repeats; added,
        /// The most packets that may wait for the link; 0 where it was not recorded, and for an element that
        /// is not a link.
        queue_limit_packets: u64 => Repeats; added,
        /// The most bytes that may.
        queue_limit_bytes: u64 => Repeats; added,
    }
}

impl Path {
    /// The direction and the element that a name of records means; the element is `None` when the
    /// whole direction is meant.
    #[must_use]
    pub fn element(name: &str) -> (&str, Option<&str>) {
        let second = name.match_indices(':').nth(1);
        match second {
            Some((place, _)) => (&name[..place], Some(&name[place + 1..])),
            None => (name, None),
        }
    }
}
