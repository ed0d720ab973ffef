//! TCP connections of sessions.

use core::net::SocketAddr;

use super::Role;
use crate::record::record;
use crate::{ConnectionId, Instant, NameId, SessionId};

record! {
    /// `connection`: one TCP connection, as known to the program that owns the socket: a record for each login, or
    /// for each connection that a relay accepted or made.
    Connection in "connection" named by congestion_control grouped by |_| 0 => {
        /// When the login had ended.
        time: Instant => Grows,
        /// The session; for a relay, the number of the flow.
        session: SessionId => Repeats,
        /// The connection; for a relay 0 towards the client and 1 towards the target.
        connection: ConnectionId => Repeats,
        /// Which end recorded it.
        role: Role => Repeats,
        /// The local address and port.
        local: SocketAddr => Repeats,
        /// The peer's address and port.
        remote: SocketAddr => Repeats,
        /// The maximum payload of a segment that it sends, in bytes.
        mss_bytes: u32 => Repeats,
        /// The scale of the windows that it advertises (RFC 7323 §2.2).
        local_window_scale: u8 => Repeats,
        /// The scale of the windows that the peer advertises.
        remote_window_scale: u8 => Repeats,
        /// The congestion control, by its name in the recorder.
        congestion_control: NameId => Repeats,
        /// Whether Nagle's algorithm is enabled at this end (RFC 1122 §4.2.3.4).
        nagle: bool => Repeats; added,
        /// Whether the program requests an immediate ACK at each read (TCP_QUICKACK of tcp(7)).
        quick_ack: bool => Repeats; added,
        /// The maximum size of its send buffer, as the kernel counts memory (third number of
        /// `net.ipv4.tcp_wmem`); 0 if not recorded.
        send_buffer_max_bytes: u64 => Repeats; added,
        /// The same for its receive buffer (`net.ipv4.tcp_rmem`).
        receive_buffer_max_bytes: u64 => Repeats; added,
        /// Whether PDUs have a header digest (RFC 7143 §13.1). This and the following columns are the negotiated
        /// values.
        header_digest: bool => Repeats; added,
        /// Whether PDUs have a data digest (§13.1).
        data_digest: bool => Repeats; added,
        /// The longest data segment that the peer accepts (MaxRecvDataSegmentLength, §13.12), in bytes; 0
        /// if not recorded.
        max_send_data_bytes: u32 => Repeats; added,
        /// The longest data segment that this end accepts.
        max_receive_data_bytes: u32 => Repeats; added,
        /// InitialR2T (§13.10).
        initial_r2t: bool => Repeats; added,
        /// ImmediateData (§13.11).
        immediate_data: bool => Repeats; added,
        /// FirstBurstLength (§13.14), in bytes.
        first_burst_bytes: u32 => Repeats; added,
        /// MaxBurstLength (§13.13), in bytes; 0 if the session's keys were not recorded.
        max_burst_bytes: u32 => Repeats; added,
        /// MaxOutstandingR2T (§13.17).
        max_outstanding_r2t: u16 => Repeats; added,
        /// DataSequenceInOrder (§13.19).
        data_sequence_in_order: bool => Repeats; added,
        /// ErrorRecoveryLevel (§13.20).
        error_recovery_level: u8 => Repeats; added,
        /// Whether this record, and the times of the `packet` and `pdu` records beside it, come from packets captured at
        /// one point of the path. Window scales that no packet shows are then 255.
        is_captured: bool => Repeats; added,
        /// Sequence number of the first byte that it sends, the origin of its PDUs' offsets; 0 if this was not captured,
        /// as the SYN is recorded.
        first_sent_seq: u32 => Repeats; added,
        /// The same for the bytes that it receives.
        first_received_seq: u32 => Repeats; added,
        /// One of this many I/Os of the session has `io` records, and `pdu` records of its PDUs; 0 or 1 if all have.
        sampled_one_in: u32 => Repeats; added,
    }
}
