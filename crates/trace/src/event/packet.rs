//! Packets at observation points.

use core::net::SocketAddr;

use crate::named::named;
use crate::record::record;
use crate::{Instant, NameId};

named! {
    /// What became of a packet at an observation point.
    Verdict {
        /// It went on.
        Delivered = "delivered",
        /// The queue was full (or its discipline said so).
        DroppedByQueue = "dropped_by_queue",
        /// The loss element took it.
        DroppedByLoss = "dropped_by_loss",
        /// The path was down.
        DroppedByOutage = "dropped_by_outage",
    }
}

record! {
    /// `packet`: one TCP segment at an observation point, or one packet that may be a tunnel's (UDP or
    /// ESP): of that only its ends, lengths and ECN bits are known, and the flags are 0, which those of a
    /// TCP segment never are.
    Packet in "packet" named by path {
        /// When it came to the point.
        time: Instant => Grows,
        /// When it left the path that begins there; equal to `time` when it was dropped.
        departed: Instant => Grows,
        /// The path, by its name in the recorder.
        path: NameId => Repeats,
        /// Where it came from.
        source: SocketAddr => Repeats,
        /// Where it goes.
        destination: SocketAddr => Repeats,
        /// Sequence number of the first payload byte; of ESP that of the packet.
        seq: u32 => Varies,
        /// Acknowledgement number.
        ack: u32 => Varies,
        /// TCP payload, in bytes; of a tunnel's packet what follows the headers that can be seen.
        payload_bytes: u16 => Repeats,
        /// Length of the IP packet, in bytes; 0 of one that passed unseen, as later ones have told.
        ip_bytes: u16 => Repeats,
        /// The window field as sent (not scaled).
        window: u16 => Repeats,
        /// The TCP flag byte: CWR, ECE, URG, ACK, PSH, RST, SYN, FIN from the top bit.
        flags: u8 => Repeats,
        /// The two ECN bits of the IP header.
        ecn: u8 => Repeats,
        /// What became of it.
        verdict: Verdict => Repeats,
    }
}
