//! TCP connections of sessions.

use core::net::SocketAddr;

use super::Role;
use crate::record::record;
use crate::{ConnectionId, Instant, NameId, SessionId};

record! {
    /// `connection`: one TCP connection that has come to carry a session's connection, as the program
    /// that owns the socket knows it: once for each login, or for each connection that a relay accepted
    /// or made.
    Connection in "connection" named by congestion_control {
        /// When the login had ended.
        time: Instant => Grows,
        /// The session; of a relay, the number of its flow.
        session: SessionId => Repeats,
        /// The connection; of a relay 0 towards the client and 1 towards the target.
        connection: ConnectionId => Repeats,
        /// Which end recorded it.
        role: Role => Repeats,
        /// Its own address and port.
        local: SocketAddr => Repeats,
        /// The peer's.
        remote: SocketAddr => Repeats,
        /// The longest payload of a segment that it sends, in bytes.
        mss_bytes: u32 => Repeats,
        /// By how much the windows that it announces are shifted (RFC 7323 §2.2).
        local_window_scale: u8 => Repeats,
        /// By how much those are that the peer announces.
        remote_window_scale: u8 => Repeats,
        /// The congestion control, by its name in the recorder.
        congestion_control: NameId => Repeats,
    }
}
