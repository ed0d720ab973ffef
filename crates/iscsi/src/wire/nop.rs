//! NOP-Out and NOP-In (RFC 7143 §11.18, §11.19).

use super::bhs::{self, FINAL, at};
use super::{Bhs, Lun, Opcode, ParseError};
use crate::sequence::Sn;
use wansan_trace::TaskTag;

/// NOP-Out: the initiator's ping, the answer to a NOP-In, or an update of ExpStatSN; ping data is
/// its data segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct NopOut {
    /// I: immediate delivery, which does not advance CmdSN.
    pub immediate: bool,
    /// Logical unit; in an answer that of the NOP-In.
    pub lun: Lun,
    /// Initiator Task Tag; [`RESERVED_TASK_TAG`](super::RESERVED_TASK_TAG) if no NOP-In is
    /// requested.
    pub task_tag: TaskTag,
    /// Target Transfer Tag of the NOP-In that this answers, else
    /// [`RESERVED_TAG`](super::RESERVED_TAG).
    pub transfer_tag: u32,
    /// CmdSN.
    pub cmd_sn: Sn,
    /// ExpStatSN.
    pub exp_stat_sn: Sn,
}

impl NopOut {
    /// Parses a header.
    ///
    /// # Errors
    /// [`ParseError::WrongOpcode`].
    pub fn parse(bhs: &Bhs) -> Result<Self, ParseError> {
        bhs::expect(bhs, Opcode::NopOut)?;
        Ok(NopOut {
            immediate: bhs::immediate(bhs),
            lun: Lun(bhs::array(bhs, at::LUN)),
            task_tag: bhs::task_tag(bhs),
            transfer_tag: bhs::u32_at(bhs, at::TRANSFER_TAG),
            cmd_sn: bhs::sn_at(bhs, at::CMD_SN),
            exp_stat_sn: bhs::sn_at(bhs, at::EXP_STAT_SN),
        })
    }

    /// Encodes the whole header, with lengths of zero.
    pub fn emit(&self, bhs: &mut Bhs) {
        bhs::begin(bhs, Opcode::NopOut, self.immediate, FINAL);
        bhs::put(bhs, at::LUN, &self.lun.0);
        bhs::put_u32(bhs, at::TASK_TAG, self.task_tag.0);
        bhs::put_u32(bhs, at::TRANSFER_TAG, self.transfer_tag);
        bhs::put_u32(bhs, at::CMD_SN, self.cmd_sn.0);
        bhs::put_u32(bhs, at::EXP_STAT_SN, self.exp_stat_sn.0);
    }
}

/// NOP-In: the target's ping, the answer to a NOP-Out, or an update of the command window; ping
/// data is its data segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct NopIn {
    /// Logical unit, when a Target Transfer Tag is set.
    pub lun: Lun,
    /// Initiator Task Tag of the NOP-Out that this answers, else
    /// [`RESERVED_TASK_TAG`](super::RESERVED_TASK_TAG).
    pub task_tag: TaskTag,
    /// Target Transfer Tag; [`RESERVED_TAG`](super::RESERVED_TAG) if no NOP-Out is requested.
    pub transfer_tag: u32,
    /// StatSN; advanced only by an answer.
    pub stat_sn: Sn,
    /// ExpCmdSN.
    pub exp_cmd_sn: Sn,
    /// MaxCmdSN.
    pub max_cmd_sn: Sn,
}

impl NopIn {
    /// Parses a header.
    ///
    /// # Errors
    /// [`ParseError::WrongOpcode`].
    pub fn parse(bhs: &Bhs) -> Result<Self, ParseError> {
        bhs::expect(bhs, Opcode::NopIn)?;
        Ok(NopIn {
            lun: Lun(bhs::array(bhs, at::LUN)),
            task_tag: bhs::task_tag(bhs),
            transfer_tag: bhs::u32_at(bhs, at::TRANSFER_TAG),
            stat_sn: bhs::sn_at(bhs, at::STAT_SN),
            exp_cmd_sn: bhs::sn_at(bhs, at::EXP_CMD_SN),
            max_cmd_sn: bhs::sn_at(bhs, at::MAX_CMD_SN),
        })
    }

    /// Encodes the whole header, with lengths of zero.
    pub fn emit(&self, bhs: &mut Bhs) {
        bhs::begin(bhs, Opcode::NopIn, false, FINAL);
        bhs::put(bhs, at::LUN, &self.lun.0);
        bhs::put_u32(bhs, at::TASK_TAG, self.task_tag.0);
        bhs::put_u32(bhs, at::TRANSFER_TAG, self.transfer_tag);
        bhs::put_target_numbers(bhs, self.stat_sn, self.exp_cmd_sn, self.max_cmd_sn);
    }
}
