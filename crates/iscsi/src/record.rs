//! PDUs and negotiated keys as records of the trace vocabulary.

use wansan_trace::event::{Connection as ConnectionRecord, Pdu as PduRecord, PduDirection};
use wansan_trace::{ConnectionId, Instant, Recorder, SessionId, TaskTag};

use crate::keys::{ConnectionParameters, SessionParameters};
use crate::wire::Bhs;

/// A record of a connection with its keys in force, and nothing else known yet.
#[must_use]
pub fn keys_record(
    session: &SessionParameters,
    connection: &ConnectionParameters,
) -> ConnectionRecord {
    ConnectionRecord {
        header_digest: connection.header_digest,
        data_digest: connection.data_digest,
        max_send_data_bytes: connection.max_send_data_bytes,
        max_receive_data_bytes: connection.max_recv_data_bytes,
        initial_r2t: session.initial_r2t,
        immediate_data: session.immediate_data,
        first_burst_bytes: session.first_burst_bytes,
        max_burst_bytes: session.max_burst_bytes,
        max_outstanding_r2t: session.max_outstanding_r2t,
        data_sequence_in_order: session.data_sequence_in_order,
        error_recovery_level: session.error_recovery_level,
        ..ConnectionRecord::BLANK
    }
}

/// The keys in force in a connection's record; `None` where they were not recorded.
#[must_use]
pub fn keys_of(record: &ConnectionRecord) -> Option<(SessionParameters, ConnectionParameters)> {
    let session = SessionParameters {
        max_connections: u16::MAX,
        initial_r2t: record.initial_r2t,
        immediate_data: record.immediate_data,
        max_burst_bytes: record.max_burst_bytes,
        first_burst_bytes: record.first_burst_bytes,
        time2wait_s: 0,
        time2retain_s: 0,
        max_outstanding_r2t: record.max_outstanding_r2t,
        data_pdu_in_order: true,
        data_sequence_in_order: record.data_sequence_in_order,
        error_recovery_level: record.error_recovery_level,
    };
    let connection = ConnectionParameters {
        header_digest: record.header_digest,
        data_digest: record.data_digest,
        max_send_data_bytes: record.max_send_data_bytes,
        max_recv_data_bytes: record.max_receive_data_bytes,
    };
    (record.max_burst_bytes > 0).then_some((session, connection))
}

/// Whether `trace` keeps the record of a PDU with this header.
#[must_use]
#[inline(always)]
pub fn keeps_pdu(trace: &Recorder, bhs: &Bhs) -> bool {
    trace.keeps_pdu(TaskTag(word(bhs, 16)), bhs[0])
}

#[inline(always)]
fn word(bhs: &Bhs, at: usize) -> u32 {
    u32::from_be_bytes([bhs[at], bhs[at + 1], bhs[at + 2], bhs[at + 3]])
}

/// The record of a PDU with this header (RFC 7143 §11): sequence numbers are at the same offsets in all requests and in
/// all responses, so no PDU needs to be parsed. `stream_offset` is the offset of its first byte in its direction's TCP
/// stream, from 0.
#[must_use]
#[inline]
pub fn pdu_record(
    time: Instant,
    session: SessionId,
    connection: ConnectionId,
    direction: PduDirection,
    bhs: &Bhs,
    stream_offset: u64,
) -> PduRecord {
    let word = |at| word(bhs, at);
    let opcode = bhs[0] & 0x3f;
    let from_target = opcode & 0x20 != 0;
    // Only Data-Out, Data-In and R2T have a DataSN (or R2TSN) and a Buffer Offset.
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
