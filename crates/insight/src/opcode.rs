//! Opcodes and flags of the PDUs whose records are read here (RFC 7143 §11.2.1.2).

/// SCSI Command.
pub(crate) const SCSI_COMMAND: u8 = 0x01;
/// SCSI Data-Out.
pub(crate) const DATA_OUT: u8 = 0x05;
/// SCSI Response.
pub(crate) const SCSI_RESPONSE: u8 = 0x21;
/// SCSI Data-In.
pub(crate) const DATA_IN: u8 = 0x25;
/// Ready To Transfer.
pub(crate) const R2T: u8 = 0x31;
/// The S bit of a Data-In: it carries the status, in place of a SCSI Response (§11.7.3).
pub(crate) const STATUS_BIT: u8 = 0x01;
/// The F bit of a Data-Out: the last of its sequence (§11.7.1).
pub(crate) const FINAL_BIT: u8 = 0x80;
