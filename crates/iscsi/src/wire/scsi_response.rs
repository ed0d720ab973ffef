//! SCSI Response (RFC 7143 §11.4).

use super::bhs::{self, FINAL, at};
use super::{Bhs, Opcode, ParseError, Residual, ScsiStatus};
use crate::sequence::Sn;
use wansan_trace::TaskTag;

const BIDIRECTIONAL_OVERFLOW: u8 = 0x10;
const BIDIRECTIONAL_UNDERFLOW: u8 = 0x08;
const OVERFLOW: u8 = 0x04;
const UNDERFLOW: u8 = 0x02;

open_code! {
    /// iSCSI response codes (RFC 7143 §11.4.3).
    ResponseCode: u8 {
        /// Command completed at target: the status is valid.
        CommandCompleted = 0x00,
        /// Target failure: the status is not valid.
        TargetFailure = 0x01,
    }
}

/// SCSI Response: a command's status; sense and response data are its data segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ScsiResponse {
    /// Response.
    pub response: ResponseCode,
    /// Status; valid only with [`ResponseCode::CommandCompleted`].
    pub status: ScsiStatus,
    /// Initiator Task Tag.
    pub task_tag: TaskTag,
    /// SNACK Tag; 0 unless an R-Data SNACK was answered.
    pub snack_tag: u32,
    /// StatSN.
    pub stat_sn: Sn,
    /// ExpCmdSN.
    pub exp_cmd_sn: Sn,
    /// MaxCmdSN.
    pub max_cmd_sn: Sn,
    /// ExpDataSN: number of R2T and Data-In PDUs that the target sent for the command; 0 when the command did not
    /// complete.
    pub exp_data_sn: u32,
    /// Residual of the command, or of the write if bidirectional.
    pub residual: Residual,
    /// Residual of the read of a bidirectional command.
    pub bidirectional_read_residual: Residual,
}

impl ScsiResponse {
    /// Parses a header.
    ///
    /// # Errors
    /// [`ParseError::WrongOpcode`]; [`ParseError::InvalidField`] for overflow and underflow at once.
    #[inline]
    pub fn parse(bhs: &Bhs) -> Result<Self, ParseError> {
        bhs::expect(bhs, Opcode::ScsiResponse)?;
        let residual = |overflow, underflow, at| {
            Residual::from_wire(
                Opcode::ScsiResponse,
                bhs[1] & overflow != 0,
                bhs[1] & underflow != 0,
                bhs::u32_at(bhs, at),
            )
        };
        Ok(ScsiResponse {
            response: ResponseCode::from_wire(bhs[2]),
            status: ScsiStatus::from_wire(bhs[3]),
            task_tag: bhs::task_tag(bhs),
            snack_tag: bhs::u32_at(bhs, 20),
            stat_sn: bhs::sn_at(bhs, at::STAT_SN),
            exp_cmd_sn: bhs::sn_at(bhs, at::EXP_CMD_SN),
            max_cmd_sn: bhs::sn_at(bhs, at::MAX_CMD_SN),
            exp_data_sn: bhs::u32_at(bhs, at::DATA_SN),
            residual: residual(OVERFLOW, UNDERFLOW, at::LAST_WORD)?,
            bidirectional_read_residual: residual(
                BIDIRECTIONAL_OVERFLOW,
                BIDIRECTIONAL_UNDERFLOW,
                40,
            )?,
        })
    }

    /// Encodes the whole header, with lengths of zero.
    #[inline]
    pub fn emit(&self, bhs: &mut Bhs) {
        let (flags, count) = self.residual.to_wire(OVERFLOW, UNDERFLOW);
        let (read_flags, read_count) = self
            .bidirectional_read_residual
            .to_wire(BIDIRECTIONAL_OVERFLOW, BIDIRECTIONAL_UNDERFLOW);
        bhs::begin(bhs, Opcode::ScsiResponse, false, FINAL | flags | read_flags);
        bhs[2] = self.response.to_wire();
        bhs[3] = self.status.to_wire();
        bhs::put_u32(bhs, at::TASK_TAG, self.task_tag.0);
        bhs::put_u32(bhs, 20, self.snack_tag);
        bhs::put_target_numbers(bhs, self.stat_sn, self.exp_cmd_sn, self.max_cmd_sn);
        bhs::put_u32(bhs, at::DATA_SN, self.exp_data_sn);
        bhs::put_u32(bhs, 40, read_count);
        bhs::put_u32(bhs, at::LAST_WORD, count);
    }
}
