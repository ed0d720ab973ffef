//! Opcodes and flags of the recorded PDUs (RFC 7143 §11.2.1.2).

/// Length of a Basic Header Segment, in bytes (RFC 7143 §11.2).
pub const BHS_BYTES: u64 = wansan_iscsi::wire::BHS_BYTES as u64;

/// SCSI Command.
pub const SCSI_COMMAND: u8 = 0x01;
/// SCSI Data-Out.
pub const DATA_OUT: u8 = 0x05;
/// SCSI Response.
pub const SCSI_RESPONSE: u8 = 0x21;
/// SCSI Data-In.
pub const DATA_IN: u8 = 0x25;
/// Ready To Transfer.
pub const R2T: u8 = 0x31;
/// The S bit of a Data-In: it carries the status, in place of a SCSI Response (§11.7.3).
pub const STATUS_BIT: u8 = 0x01;
/// The F bit of a Data-Out or Data-In: the last of its sequence (§11.7.1).
pub const FINAL_BIT: u8 = 0x80;

/// Whether the initiator sends this PDU: target opcodes have bit 0x20 set.
#[must_use]
pub fn is_request(opcode: u8) -> bool {
    opcode & 0x20 == 0
}

/// The name of an opcode; `unknown PDU` if RFC 7143 does not define it.
#[must_use]
pub fn name(opcode: u8) -> &'static str {
    match opcode {
        0x00 => "NOP-Out",
        SCSI_COMMAND => "SCSI Command",
        0x02 => "Task Management Function Request",
        0x03 => "Login Request",
        0x04 => "Text Request",
        DATA_OUT => "SCSI Data-Out",
        0x06 => "Logout Request",
        0x10 => "SNACK Request",
        0x20 => "NOP-In",
        SCSI_RESPONSE => "SCSI Response",
        0x22 => "Task Management Function Response",
        0x23 => "Login Response",
        0x24 => "Text Response",
        DATA_IN => "SCSI Data-In",
        0x26 => "Logout Response",
        R2T => "R2T",
        0x32 => "Asynchronous Message",
        0x3f => "Reject",
        _ => "unknown PDU",
    }
}
