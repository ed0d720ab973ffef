//! PDUs as records of the trace vocabulary.

use wansan_trace::event::{Pdu as PduRecord, PduDirection};
use wansan_trace::{ConnectionId, Instant, SessionId, TaskTag};

use crate::wire::Bhs;

/// The record of a PDU with this header (RFC 7143 §11): sequence numbers are at the same offsets in
/// all requests and in all responses, so no PDU needs to be parsed. `stream_offset` is where its
/// first byte stands in its direction's TCP stream, from 0.
#[must_use]
pub fn pdu_record(
    time: Instant,
    session: SessionId,
    connection: ConnectionId,
    direction: PduDirection,
    bhs: &Bhs,
    stream_offset: u64,
) -> PduRecord {
    let word = |at: usize| u32::from_be_bytes([bhs[at], bhs[at + 1], bhs[at + 2], bhs[at + 3]]);
    let opcode = bhs[0] & 0x3f;
    let from_target = opcode & 0x20 != 0;
    // Data-Out, Data-In and R2T alone have a DataSN (or R2TSN) and a Buffer Offset.
    let moves_data = matches!(opcode, 0x05 | 0x25 | 0x31);
    let has_transfer_tag = moves_data || matches!(opcode, 0x00 | 0x04 | 0x20 | 0x24);
    let has_cmd_sn = !from_target && opcode != 0x05;
    PduRecord {
        time,
        session,
        connection,
        direction,
        opcode,
        flags: bhs[1],
        task: TaskTag(word(16)),
        transfer_tag: if has_transfer_tag { word(20) } else { 0 },
        cmd_sn: if has_cmd_sn { word(24) } else { 0 },
        stat_sn: if from_target { word(24) } else { word(28) },
        exp_cmd_sn: if from_target { word(28) } else { 0 },
        max_cmd_sn: if from_target { word(32) } else { 0 },
        data_sn: if moves_data { word(36) } else { 0 },
        buffer_offset: if moves_data { word(40) } else { 0 },
        data_bytes: u32::from_be_bytes([0, bhs[5], bhs[6], bhs[7]]),
        stream_offset,
    }
}
