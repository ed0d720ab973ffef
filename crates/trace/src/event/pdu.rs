//! PDUs.

use crate::named::named;
use crate::record::record;
use crate::{ConnectionId, Instant, SessionId, TaskTag};

named! {
    /// Whether the recording end sent or received the PDU.
    PduDirection {
        /// It was queued for sending.
        Sent = "sent",
        /// It was parsed after reading.
        Received = "received",
    }
}

record! {
    /// `pdu`: one PDU's sequence numbers and lengths (RFC 7143 §11). Fields that the PDU's type does
    /// not have are 0.
    Pdu in "pdu" grouped by |pdu| usize::from(pdu.opcode ^ pdu.opcode >> 2) => {
        /// When.
        time: Instant => Grows,
        /// The session; its TSIH is 0 until the login ends.
        session: SessionId => Repeats,
        /// The connection.
        connection: ConnectionId => Repeats,
        /// Sent or received by the end that recorded it.
        direction: PduDirection => Repeats,
        /// Opcode with the immediate bit cleared.
        opcode: u8 => Repeats,
        /// The second byte of the header (F, R, W, status bits and so on).
        flags: u8 => Repeats,
        /// Initiator Task Tag.
        task: TaskTag => Varies,
        /// Target Transfer Tag.
        transfer_tag: u32 => Varies,
        /// CmdSN of a request.
        cmd_sn: u32 => Varies,
        /// ExpStatSN of a request, StatSN of a response.
        stat_sn: u32 => Varies,
        /// ExpCmdSN of a response.
        exp_cmd_sn: u32 => Varies,
        /// MaxCmdSN of a response.
        max_cmd_sn: u32 => Varies,
        /// DataSN or R2TSN.
        data_sn: u32 => Repeats,
        /// Buffer Offset.
        buffer_offset: u32 => Varies,
        /// Length of the data segment without padding.
        data_bytes: u32 => Repeats,
        /// Offset of the PDU's first byte in its direction's TCP stream.
        stream_offset: u64 => Varies,
    }
}
