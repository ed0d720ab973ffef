//! SCSI Data-In (RFC 7143 §11.7).

use super::bhs::{self, FINAL, at, flag};
use super::{Bhs, Lun, Opcode, ParseError, Residual, ScsiStatus};
use crate::sequence::Sn;
use wansan_trace::TaskTag;

const ACKNOWLEDGE: u8 = 0x40;
const OVERFLOW: u8 = 0x04;
const UNDERFLOW: u8 = 0x02;
const STATUS: u8 = 0x01;

/// SCSI Data-In: data of a read; the last one may carry the status instead of a SCSI Response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DataIn {
    /// F: the last PDU of a sequence.
    pub final_: bool,
    /// A: the target requests a DataACK SNACK (error recovery level 1 and above).
    pub acknowledge: bool,
    /// Status, when the S bit is set; then F must be set too.
    pub status: Option<ScsiStatus>,
    /// Residual of the command. Without a status it is not sent, and is [`Residual::None`].
    pub residual: Residual,
    /// Logical unit; needed only when A is set.
    pub lun: Lun,
    /// Initiator Task Tag.
    pub task_tag: TaskTag,
    /// Target Transfer Tag; [`RESERVED_TAG`](super::RESERVED_TAG) unless A is set.
    pub transfer_tag: u32,
    /// StatSN. Without a status it is not sent, and is 0.
    pub stat_sn: Sn,
    /// ExpCmdSN.
    pub exp_cmd_sn: Sn,
    /// MaxCmdSN.
    pub max_cmd_sn: Sn,
    /// DataSN: number of the PDU among the Data-In PDUs (and R2Ts) of the command, from 0.
    pub data_sn: u32,
    /// Buffer Offset of the data in the command's transfer, in bytes.
    pub buffer_offset: u32,
}

impl DataIn {
    /// Parses a header.
    ///
    /// # Errors
    /// [`ParseError::WrongOpcode`]; [`ParseError::InvalidField`] for S without F, and for overflow
    /// and underflow at once.
    #[inline]
    pub fn parse(bhs: &Bhs) -> Result<Self, ParseError> {
        bhs::expect(bhs, Opcode::DataIn)?;
        let flags = bhs[1];
        let has_status = flags & STATUS != 0;
        if has_status && flags & FINAL == 0 {
            return Err(ParseError::InvalidField {
                pdu: Opcode::DataIn,
                field: "S without F in byte 1",
                value: flags.into(),
                section: "11.7.3",
            });
        }
        let (status, residual, stat_sn) = if has_status {
            let residual = Residual::from_wire(
                Opcode::DataIn,
                flags & OVERFLOW != 0,
                flags & UNDERFLOW != 0,
                bhs::u32_at(bhs, at::LAST_WORD),
            )?;
            (
                Some(ScsiStatus::from_wire(bhs[3])),
                residual,
                bhs::sn_at(bhs, at::STAT_SN),
            )
        } else {
            (None, Residual::None, Sn(0))
        };
        Ok(DataIn {
            final_: flags & FINAL != 0,
            acknowledge: flags & ACKNOWLEDGE != 0,
            status,
            residual,
            lun: Lun(bhs::array(bhs, at::LUN)),
            task_tag: bhs::task_tag(bhs),
            transfer_tag: bhs::u32_at(bhs, at::TRANSFER_TAG),
            stat_sn,
            exp_cmd_sn: bhs::sn_at(bhs, at::EXP_CMD_SN),
            max_cmd_sn: bhs::sn_at(bhs, at::MAX_CMD_SN),
            data_sn: bhs::u32_at(bhs, at::DATA_SN),
            buffer_offset: bhs::u32_at(bhs, at::BUFFER_OFFSET),
        })
    }

    /// Encodes the whole header, with lengths of zero.
    #[inline]
    pub fn emit(&self, bhs: &mut Bhs) {
        let flags = flag(self.final_, FINAL) | flag(self.acknowledge, ACKNOWLEDGE);
        bhs::begin(bhs, Opcode::DataIn, false, flags);
        if let Some(status) = self.status {
            let (residual_flag, count) = self.residual.to_wire(OVERFLOW, UNDERFLOW);
            bhs[1] |= STATUS | residual_flag;
            bhs[3] = status.to_wire();
            bhs::put_u32(bhs, at::STAT_SN, self.stat_sn.0);
            bhs::put_u32(bhs, at::LAST_WORD, count);
        }
        bhs::put(bhs, at::LUN, &self.lun.0);
        bhs::put_u32(bhs, at::TASK_TAG, self.task_tag.0);
        bhs::put_u32(bhs, at::TRANSFER_TAG, self.transfer_tag);
        bhs::put_u32(bhs, at::EXP_CMD_SN, self.exp_cmd_sn.0);
        bhs::put_u32(bhs, at::MAX_CMD_SN, self.max_cmd_sn.0);
        bhs::put_u32(bhs, at::DATA_SN, self.data_sn);
        bhs::put_u32(bhs, at::BUFFER_OFFSET, self.buffer_offset);
    }
}
