//! The kernel's times of what goes through sockets.

use super::PduDirection;
use crate::record::record;
use crate::{ConnectionId, Instant, SessionId};

record! {
    /// `stamp`: one call that gave bytes to a TCP socket or took bytes from it, with the times at which
    /// the kernel passed the last of them on (SO_TIMESTAMPING of Linux). A time that is not known is
    /// [`Instant::ZERO`].
    ///
    /// A call that gives bytes has no times of its own where the kernel put its bytes and those of the
    /// next call into one segment: then the next call's are its own too.
    Stamp in "stamp" {
        /// When the call had returned.
        time: Instant => Grows,
        /// The session.
        session: SessionId => Repeats,
        /// The connection.
        connection: ConnectionId => Repeats,
        /// Whether the call gave bytes or took them.
        direction: PduDirection => Repeats,
        /// Whether Nagle's algorithm may hold them back (RFC 1122 §4.2.3.4).
        nagle: bool => Repeats,
        /// Where the call's bytes end in their direction's TCP stream, which begins at 0.
        stream_end: u64 => Grows,
        /// How many they are.
        bytes: u32 => Repeats,
        /// When TCP gave the last byte to the queueing discipline for the first time.
        scheduled: Instant => Grows,
        /// When the device got it for the first time.
        departed: Instant => Grows,
        /// When the peer's kernel had acknowledged all of them.
        acknowledged: Instant => Grows,
        /// Of bytes that were taken: when the kernel received the last segment of those in which they
        /// came. The last byte came no later.
        arrived: Instant => Grows,
    }
}
