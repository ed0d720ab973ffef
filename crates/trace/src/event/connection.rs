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
        /// Whether Nagle's algorithm may hold back what this end sends (RFC 1122 §4.2.3.4).
        nagle: bool => Repeats; added,
        /// Whether the program asks for an acknowledgement at each read (TCP_QUICKACK of tcp(7)).
        quick_ack: bool => Repeats; added,
        /// What its send buffer may grow to, as the kernel counts memory (third number of
        /// `net.ipv4.tcp_wmem`); 0 where it was not recorded.
        send_buffer_max_bytes: u64 => Repeats; added,
        /// The same of its receive buffer (`net.ipv4.tcp_rmem`).
        receive_buffer_max_bytes: u64 => Repeats; added,
        /// Whether PDUs have a header digest (RFC 7143 §13.1). This and what follows is as login has
        /// negotiated it.
        header_digest: bool => Repeats; added,
        /// Whether PDUs have a data digest (§13.1).
        data_digest: bool => Repeats; added,
        /// The longest data segment that the peer accepts (MaxRecvDataSegmentLength, §13.12), in bytes; 0
        /// where it was not recorded.
        max_send_data_bytes: u32 => Repeats; added,
        /// The longest data segment that this end accepts.
        max_receive_data_bytes: u32 => Repeats; added,
        /// InitialR2T (§13.10).
        initial_r2t: bool => Repeats; added,
        /// ImmediateData (§13.11).
        immediate_data: bool => Repeats; added,
        /// FirstBurstLength (§13.14), in bytes.
        first_burst_bytes: u32 => Repeats; added,
        /// MaxBurstLength (§13.13), in bytes; 0 where the session's keys were not recorded.
        max_burst_bytes: u32 => Repeats; added,
        /// MaxOutstandingR2T (§13.17).
        max_outstanding_r2t: u16 => Repeats; added,
        /// DataSequenceInOrder (§13.19).
        data_sequence_in_order: bool => Repeats; added,
        /// ErrorRecoveryLevel (§13.20).
        error_recovery_level: u8 => Repeats; added,
        /// Whether this is known from packets that passed one point of the path, as are the times of `packet` and `pdu`
        /// records beside it. Window scales that no packet told are then 255.
        is_captured: bool => Repeats; added,
        /// Sequence number of the first byte that it sends, from which the offsets of its PDUs count; 0 where that
        /// was not captured, as its SYN is recorded.
        first_sent_seq: u32 => Repeats; added,
        /// The same of what it receives.
        first_received_seq: u32 => Repeats; added,
    }
}
