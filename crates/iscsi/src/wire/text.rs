//! Text Request and Text Response (RFC 7143 §11.10, §11.11).

use super::bhs::{self, FINAL, at, flag};
use super::{Bhs, Lun, Opcode, ParseError};
use crate::sequence::Sn;
use wansan_trace::TaskTag;

const CONTINUE: u8 = 0x40;

/// Text Request: keys and values are its data segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TextRequest {
    /// I: immediate delivery, which does not advance CmdSN.
    pub immediate: bool,
    /// F: the initiator has nothing more to send.
    pub final_: bool,
    /// C: the text continues in the next request.
    pub continue_: bool,
    /// Logical unit; that of the Target Transfer Tag's response.
    pub lun: Lun,
    /// Initiator Task Tag.
    pub task_tag: TaskTag,
    /// Target Transfer Tag of the response that this continues;
    /// [`RESERVED_TAG`](super::RESERVED_TAG) for a new negotiation.
    pub transfer_tag: u32,
    /// CmdSN.
    pub cmd_sn: Sn,
    /// ExpStatSN.
    pub exp_stat_sn: Sn,
}

impl TextRequest {
    /// Parses a header.
    ///
    /// # Errors
    /// [`ParseError::WrongOpcode`].
    pub fn parse(bhs: &Bhs) -> Result<Self, ParseError> {
        bhs::expect(bhs, Opcode::TextRequest)?;
        Ok(TextRequest {
            immediate: bhs::immediate(bhs),
            final_: bhs[1] & FINAL != 0,
            continue_: bhs[1] & CONTINUE != 0,
            lun: Lun(bhs::array(bhs, at::LUN)),
            task_tag: bhs::task_tag(bhs),
            transfer_tag: bhs::u32_at(bhs, at::TRANSFER_TAG),
            cmd_sn: bhs::sn_at(bhs, at::CMD_SN),
            exp_stat_sn: bhs::sn_at(bhs, at::EXP_STAT_SN),
        })
    }

    /// Encodes the whole header, with lengths of zero.
    pub fn emit(&self, bhs: &mut Bhs) {
        let flags = flag(self.final_, FINAL) | flag(self.continue_, CONTINUE);
        bhs::begin(bhs, Opcode::TextRequest, self.immediate, flags);
        bhs::put(bhs, at::LUN, &self.lun.0);
        bhs::put_u32(bhs, at::TASK_TAG, self.task_tag.0);
        bhs::put_u32(bhs, at::TRANSFER_TAG, self.transfer_tag);
        bhs::put_u32(bhs, at::CMD_SN, self.cmd_sn.0);
        bhs::put_u32(bhs, at::EXP_STAT_SN, self.exp_stat_sn.0);
    }
}

/// Text Response: keys and values are its data segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TextResponse {
    /// F: the target has nothing more to send.
    pub final_: bool,
    /// C: the text continues in the next response.
    pub continue_: bool,
    /// Logical unit.
    pub lun: Lun,
    /// Initiator Task Tag.
    pub task_tag: TaskTag,
    /// Target Transfer Tag for the next request; [`RESERVED_TAG`](super::RESERVED_TAG) in the last.
    pub transfer_tag: u32,
    /// StatSN.
    pub stat_sn: Sn,
    /// ExpCmdSN.
    pub exp_cmd_sn: Sn,
    /// MaxCmdSN.
    pub max_cmd_sn: Sn,
}

impl TextResponse {
    /// Parses a header.
    ///
    /// # Errors
    /// [`ParseError::WrongOpcode`].
    pub fn parse(bhs: &Bhs) -> Result<Self, ParseError> {
        bhs::expect(bhs, Opcode::TextResponse)?;
        Ok(TextResponse {
            final_: bhs[1] & FINAL != 0,
            continue_: bhs[1] & CONTINUE != 0,
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
        let flags = flag(self.final_, FINAL) | flag(self.continue_, CONTINUE);
        bhs::begin(bhs, Opcode::TextResponse, false, flags);
        bhs::put(bhs, at::LUN, &self.lun.0);
        bhs::put_u32(bhs, at::TASK_TAG, self.task_tag.0);
        bhs::put_u32(bhs, at::TRANSFER_TAG, self.transfer_tag);
        bhs::put_target_numbers(bhs, self.stat_sn, self.exp_cmd_sn, self.max_cmd_sn);
    }
}
