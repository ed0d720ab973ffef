//! Packets at observation points.

use core::net::SocketAddr;

use crate::named::named;
use crate::record::record;
use crate::{Instant, NameId};

named! {
    /// The fate of a packet at an observation point.
    Verdict {
        /// It was forwarded.
        Delivered = "delivered",
        /// The queue, or its discipline, dropped it.
        DroppedByQueue = "dropped_by_queue",
        /// The loss element dropped it.
        DroppedByLoss = "dropped_by_loss",
        /// The path was down.
        DroppedByOutage = "dropped_by_outage",
    }
}

record! {
    /// `packet`: one TCP segment at an observation point, or one packet that may belong to a tunnel (UDP or
    /// ESP). Of the latter only its ends, lengths and ECN bits are known, and its flags are 0, unlike those of any
    /// TCP segment.
    Packet in "packet" named by path grouped by |packet| usize::from(packet.path.0) + usize::from(packet.source.port()) => {
        /// When it arrived at the point.
        time: Instant => Grows,
        /// When it left the path that begins there; equal to `time` if it was dropped.
        departed: Instant => Grows,
        /// The path, by its name in the recorder.
        path: NameId => Repeats,
        /// Its source.
        source: SocketAddr => Repeats,
        /// Its destination.
        destination: SocketAddr => Repeats,
        /// Sequence number of the first payload byte; for ESP that of the packet.
        seq: u32 => Varies,
        /// Acknowledgement number.
        ack: u32 => Varies,
        /// TCP payload, in bytes; for a tunnel's packet the bytes after the visible headers.
        payload_bytes: u16 => Repeats,
        /// Length of the IP packet, in bytes; 0 for a packet that was not observed but inferred from later ones.
        ip_bytes: u16 => Repeats,
        /// The window field as sent (not scaled).
        window: u16 => Repeats,
        /// The TCP flag byte: CWR, ECE, URG, ACK, PSH, RST, SYN, FIN from the top bit.
        flags: u8 => Repeats,
        /// The two ECN bits of the IP header.
        ecn: u8 => Repeats,
        /// Its fate.
        verdict: Verdict => Repeats,
    }
}
