//! The Basic Header Segment: fields shared by PDUs, and access to them (RFC 7143 §11.2.1).

use super::{Opcode, ParseError};
use crate::sequence::Sn;
use wansan_trace::TaskTag;

/// Length of a Basic Header Segment.
pub const BHS_BYTES: usize = 48;

/// A Basic Header Segment as on the wire.
pub type Bhs = [u8; BHS_BYTES];

/// Longest data segment that DataSegmentLength can express: 2^24 − 1 bytes (RFC 7143 §11.2.1.6).
pub const MAX_DATA_BYTES: usize = (1 << 24) - 1;

/// The reserved tag (RFC 7143 §11.2.1.8): no transfer or no task.
pub const RESERVED_TAG: u32 = 0xffff_ffff;

/// [`RESERVED_TAG`] as an Initiator Task Tag.
pub const RESERVED_TASK_TAG: TaskTag = TaskTag(RESERVED_TAG);

/// The I bit in byte 0 (RFC 7143 §11.2.1.1).
pub(super) const IMMEDIATE: u8 = 0x40;

/// The F bit in byte 1 (RFC 7143 §11.2.1.3); login calls it T.
pub(super) const FINAL: u8 = 0x80;

/// Byte positions of fields that several PDUs share.
pub(super) mod at {
    pub(in crate::wire) const TOTAL_AHS_LENGTH: usize = 4;
    pub(in crate::wire) const DATA_SEGMENT_LENGTH: usize = 5;
    pub(in crate::wire) const LUN: usize = 8;
    pub(in crate::wire) const TASK_TAG: usize = 16;
    pub(in crate::wire) const TRANSFER_TAG: usize = 20;
    pub(in crate::wire) const CMD_SN: usize = 24;
    pub(in crate::wire) const EXP_STAT_SN: usize = 28;
    pub(in crate::wire) const STAT_SN: usize = 24;
    pub(in crate::wire) const EXP_CMD_SN: usize = 28;
    pub(in crate::wire) const MAX_CMD_SN: usize = 32;
    pub(in crate::wire) const DATA_SN: usize = 36;
    pub(in crate::wire) const BUFFER_OFFSET: usize = 40;
    pub(in crate::wire) const LAST_WORD: usize = 44;
}

/// The PDU type in a header.
#[inline]
pub(super) const fn opcode(bhs: &Bhs) -> Opcode {
    Opcode::from_wire(bhs[0] & 0x3f)
}

/// Whether the I bit is set.
#[inline]
pub(super) const fn immediate(bhs: &Bhs) -> bool {
    bhs[0] & IMMEDIATE != 0
}

/// TotalAHSLength, in bytes (on the wire it counts words of four bytes): at most 1020.
#[inline]
pub(super) const fn ahs_bytes(bhs: &Bhs) -> usize {
    bhs[at::TOTAL_AHS_LENGTH] as usize * 4
}

/// DataSegmentLength: the data without padding, at most 2^24 − 1 bytes.
#[inline]
pub(super) const fn data_bytes(bhs: &Bhs) -> usize {
    (bhs[5] as usize) << 16 | (bhs[6] as usize) << 8 | bhs[7] as usize
}

/// Sets TotalAHSLength and DataSegmentLength.
#[inline]
pub(super) fn put_lengths(bhs: &mut Bhs, ahs_bytes: usize, data_bytes: usize) {
    bhs[at::TOTAL_AHS_LENGTH] = (ahs_bytes / 4) as u8;
    let [_, high, middle, low] = (data_bytes as u32).to_be_bytes();
    bhs[at::DATA_SEGMENT_LENGTH..at::DATA_SEGMENT_LENGTH + 3].copy_from_slice(&[high, middle, low]);
}

/// Fails unless the header has the opcode that the parser expects.
#[inline]
pub(super) fn expect(bhs: &Bhs, expected: Opcode) -> Result<(), ParseError> {
    let found = opcode(bhs);
    if found == expected {
        Ok(())
    } else {
        Err(ParseError::WrongOpcode { expected, found })
    }
}

/// Starts a header: all zero except the opcode, the I bit and byte 1.
#[inline]
pub(super) fn begin(bhs: &mut Bhs, opcode: Opcode, immediate: bool, flags: u8) {
    *bhs = [0; BHS_BYTES];
    bhs[0] = opcode.to_wire() | flag(immediate, IMMEDIATE);
    bhs[1] = flags;
}

/// `bit` when `set`, else 0.
#[inline]
pub(super) const fn flag(set: bool, bit: u8) -> u8 {
    if set { bit } else { 0 }
}

#[inline]
pub(super) fn array<const N: usize>(bhs: &Bhs, at: usize) -> [u8; N] {
    let mut field = [0; N];
    field.copy_from_slice(&bhs[at..at + N]);
    field
}

#[inline]
pub(super) fn u16_at(bhs: &Bhs, at: usize) -> u16 {
    u16::from_be_bytes(array(bhs, at))
}

#[inline]
pub(super) fn u32_at(bhs: &Bhs, at: usize) -> u32 {
    u32::from_be_bytes(array(bhs, at))
}

#[inline]
pub(super) fn sn_at(bhs: &Bhs, at: usize) -> Sn {
    Sn(u32_at(bhs, at))
}

#[inline]
pub(super) fn task_tag(bhs: &Bhs) -> TaskTag {
    TaskTag(u32_at(bhs, at::TASK_TAG))
}

#[inline]
pub(super) fn put(bhs: &mut Bhs, at: usize, field: &[u8]) {
    bhs[at..at + field.len()].copy_from_slice(field);
}

#[inline]
pub(super) fn put_u16(bhs: &mut Bhs, at: usize, value: u16) {
    put(bhs, at, &value.to_be_bytes());
}

#[inline]
pub(super) fn put_u32(bhs: &mut Bhs, at: usize, value: u32) {
    put(bhs, at, &value.to_be_bytes());
}

/// Sets StatSN, ExpCmdSN and MaxCmdSN of a response.
#[inline]
pub(super) fn put_target_numbers(bhs: &mut Bhs, stat_sn: Sn, exp_cmd_sn: Sn, max_cmd_sn: Sn) {
    put_u32(bhs, at::STAT_SN, stat_sn.0);
    put_u32(bhs, at::EXP_CMD_SN, exp_cmd_sn.0);
    put_u32(bhs, at::MAX_CMD_SN, max_cmd_sn.0);
}
