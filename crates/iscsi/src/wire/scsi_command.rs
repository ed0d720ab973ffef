//! SCSI Command (RFC 7143 §11.3).

use super::bhs::{self, FINAL, at, flag};
use super::{Bhs, Lun, Opcode, ParseError};
use crate::sequence::Sn;
use wansan_trace::TaskTag;

const READ: u8 = 0x40;
const WRITE: u8 = 0x20;
const ATTRIBUTE: u8 = 0x07;

closed_code! {
    /// Task attributes: the order of a command in its task set (RFC 7143 §11.3.1, SAM-5 clause
    /// 8.6).
    TaskAttribute: u8 {
        /// Untagged; treated as simple.
        Untagged = 0,
        /// SIMPLE.
        Simple = 1,
        /// ORDERED.
        Ordered = 2,
        /// HEAD OF QUEUE.
        HeadOfQueue = 3,
        /// ACA.
        Aca = 4,
    }
}

/// SCSI Command: a CDB, optionally with immediate data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ScsiCommand {
    /// I: immediate delivery, which does not advance CmdSN.
    pub immediate: bool,
    /// F: no unsolicited Data-Out follows.
    pub final_: bool,
    /// R: the command is expected to read.
    pub read: bool,
    /// W: the command is expected to write.
    pub write: bool,
    /// ATTR.
    pub attribute: TaskAttribute,
    /// Logical unit.
    pub lun: Lun,
    /// Initiator Task Tag.
    pub task_tag: TaskTag,
    /// Expected Data Transfer Length, in bytes: of the write if bidirectional.
    pub expected_data_transfer_length: u32,
    /// CmdSN.
    pub cmd_sn: Sn,
    /// ExpStatSN.
    pub exp_stat_sn: Sn,
    /// The CDB, padded with zeros; for a longer one the first 16 bytes, with the rest in
    /// [`Ahs::ExtendedCdb`](super::Ahs::ExtendedCdb).
    pub cdb: [u8; 16],
}

impl ScsiCommand {
    /// Parses a header.
    ///
    /// # Errors
    /// [`ParseError::WrongOpcode`]; [`ParseError::InvalidField`] for a reserved ATTR.
    #[inline]
    pub fn parse(bhs: &Bhs) -> Result<Self, ParseError> {
        bhs::expect(bhs, Opcode::ScsiCommand)?;
        let attribute = bhs[1] & ATTRIBUTE;
        Ok(ScsiCommand {
            immediate: bhs::immediate(bhs),
            final_: bhs[1] & FINAL != 0,
            read: bhs[1] & READ != 0,
            write: bhs[1] & WRITE != 0,
            attribute: TaskAttribute::from_wire(attribute).ok_or(ParseError::InvalidField {
                pdu: Opcode::ScsiCommand,
                field: "ATTR",
                value: attribute.into(),
                section: "11.3.1",
            })?,
            lun: Lun(bhs::array(bhs, at::LUN)),
            task_tag: bhs::task_tag(bhs),
            expected_data_transfer_length: bhs::u32_at(bhs, 20),
            cmd_sn: bhs::sn_at(bhs, at::CMD_SN),
            exp_stat_sn: bhs::sn_at(bhs, at::EXP_STAT_SN),
            cdb: bhs::array(bhs, 32),
        })
    }

    /// Encodes the whole header, with lengths of zero.
    #[inline]
    pub fn emit(&self, bhs: &mut Bhs) {
        let flags = flag(self.final_, FINAL)
            | flag(self.read, READ)
            | flag(self.write, WRITE)
            | self.attribute.to_wire();
        bhs::begin(bhs, Opcode::ScsiCommand, self.immediate, flags);
        bhs::put(bhs, at::LUN, &self.lun.0);
        bhs::put_u32(bhs, at::TASK_TAG, self.task_tag.0);
        bhs::put_u32(bhs, 20, self.expected_data_transfer_length);
        bhs::put_u32(bhs, at::CMD_SN, self.cmd_sn.0);
        bhs::put_u32(bhs, at::EXP_STAT_SN, self.exp_stat_sn.0);
        bhs::put(bhs, 32, &self.cdb);
    }
}
