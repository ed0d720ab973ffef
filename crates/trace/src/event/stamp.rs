//! Kernel timestamps of socket data.

use super::PduDirection;
use crate::record::record;
use crate::{ConnectionId, Instant, SessionId};

record! {
    /// `stamp`: one read or write call on a TCP socket, with the kernel's time stamps of its last byte
    /// (SO_TIMESTAMPING of Linux). An unknown time is [`Instant::ZERO`].
    ///
    /// A write call has no times if the kernel put its bytes and those of the next call into one segment: the next
    /// call's times then apply to both.
    Stamp in "stamp" grouped by |stamp| stamp.direction as usize => {
        /// When the call returned.
        time: Instant => Grows,
        /// The session.
        session: SessionId => Repeats,
        /// The connection.
        connection: ConnectionId => Repeats,
        /// Whether the call wrote or read bytes.
        direction: PduDirection => Repeats,
        /// Whether Nagle's algorithm is enabled (RFC 1122 §4.2.3.4).
        nagle: bool => Repeats,
        /// The end of the call's bytes in their direction's TCP stream, which starts at 0.
        stream_end: u64 => Grows,
        /// The number of bytes.
        bytes: u32 => Repeats,
        /// When TCP first passed the last byte to the queueing discipline.
        scheduled: Instant => Grows,
        /// When the device first got it.
        departed: Instant => Grows,
        /// When the peer's kernel had acknowledged all bytes.
        acknowledged: Instant => Grows,
        /// For bytes that were read: when the kernel received the last of their segments. The last byte arrived no
        /// later.
        arrived: Instant => Grows,
    }
}
