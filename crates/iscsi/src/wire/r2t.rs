//! Ready To Transfer (RFC 7143 §11.8).

use super::bhs::{self, FINAL, at};
use super::{Bhs, Lun, Opcode, ParseError};
use crate::sequence::Sn;
use wansan_trace::TaskTag;

/// Ready To Transfer: the target solicits one sequence of Data-Out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct R2t {
    /// Logical unit.
    pub lun: Lun,
    /// Initiator Task Tag.
    pub task_tag: TaskTag,
    /// Target Transfer Tag for the Data-Out PDUs.
    pub transfer_tag: u32,
    /// The target's next StatSN; an R2T does not advance it.
    pub stat_sn: Sn,
    /// ExpCmdSN.
    pub exp_cmd_sn: Sn,
    /// MaxCmdSN.
    pub max_cmd_sn: Sn,
    /// R2TSN: number of the R2T among those of its command, from 0.
    pub r2t_sn: u32,
    /// Buffer Offset of the solicited data, in bytes.
    pub buffer_offset: u32,
    /// Desired Data Transfer Length, in bytes: 1 to MaxBurstLength, by §11.8.4. Some targets send
    /// 0.
    pub desired_data_transfer_length: u32,
}

impl R2t {
    /// Parses a header.
    ///
    /// # Errors
    /// [`ParseError::WrongOpcode`]; [`ParseError::InvalidField`] when the Target Transfer Tag is
    /// reserved.
    #[inline]
    pub fn parse(bhs: &Bhs) -> Result<Self, ParseError> {
        bhs::expect(bhs, Opcode::R2t)?;
        let transfer_tag = bhs::u32_at(bhs, at::TRANSFER_TAG);
        if transfer_tag == super::RESERVED_TAG {
            return Err(ParseError::InvalidField {
                pdu: Opcode::R2t,
                field: "Target Transfer Tag",
                value: transfer_tag,
                section: "11.8.5",
            });
        }
        Ok(R2t {
            lun: Lun(bhs::array(bhs, at::LUN)),
            task_tag: bhs::task_tag(bhs),
            transfer_tag,
            stat_sn: bhs::sn_at(bhs, at::STAT_SN),
            exp_cmd_sn: bhs::sn_at(bhs, at::EXP_CMD_SN),
            max_cmd_sn: bhs::sn_at(bhs, at::MAX_CMD_SN),
            r2t_sn: bhs::u32_at(bhs, at::DATA_SN),
            buffer_offset: bhs::u32_at(bhs, at::BUFFER_OFFSET),
            desired_data_transfer_length: bhs::u32_at(bhs, at::LAST_WORD),
        })
    }

    /// Encodes the whole header, with lengths of zero.
    #[inline]
    pub fn emit(&self, bhs: &mut Bhs) {
        bhs::begin(bhs, Opcode::R2t, false, FINAL);
        bhs::put(bhs, at::LUN, &self.lun.0);
        bhs::put_u32(bhs, at::TASK_TAG, self.task_tag.0);
        bhs::put_u32(bhs, at::TRANSFER_TAG, self.transfer_tag);
        bhs::put_target_numbers(bhs, self.stat_sn, self.exp_cmd_sn, self.max_cmd_sn);
        bhs::put_u32(bhs, at::DATA_SN, self.r2t_sn);
        bhs::put_u32(bhs, at::BUFFER_OFFSET, self.buffer_offset);
        bhs::put_u32(bhs, at::LAST_WORD, self.desired_data_transfer_length);
    }
}
