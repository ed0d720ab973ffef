//! SCSI Data-Out (RFC 7143 §11.7).

use super::bhs::{self, FINAL, at, flag};
use super::{Bhs, Lun, Opcode, ParseError};
use crate::sequence::Sn;
use wansan_trace::TaskTag;

/// SCSI Data-Out: data of a write, unsolicited or solicited by an R2T.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DataOut {
    /// F: the last PDU of a sequence.
    pub final_: bool,
    /// Logical unit; for solicited data that of its R2T.
    pub lun: Lun,
    /// Initiator Task Tag.
    pub task_tag: TaskTag,
    /// Target Transfer Tag of the R2T; [`RESERVED_TAG`](super::RESERVED_TAG) for unsolicited data.
    pub transfer_tag: u32,
    /// ExpStatSN.
    pub exp_stat_sn: Sn,
    /// DataSN: number of the PDU in its sequence, from 0.
    pub data_sn: u32,
    /// Buffer Offset of the data in the command's transfer, in bytes.
    pub buffer_offset: u32,
}

impl DataOut {
    /// Parses a header.
    ///
    /// # Errors
    /// [`ParseError::WrongOpcode`].
    #[inline]
    pub fn parse(bhs: &Bhs) -> Result<Self, ParseError> {
        bhs::expect(bhs, Opcode::DataOut)?;
        Ok(DataOut {
            final_: bhs[1] & FINAL != 0,
            lun: Lun(bhs::array(bhs, at::LUN)),
            task_tag: bhs::task_tag(bhs),
            transfer_tag: bhs::u32_at(bhs, at::TRANSFER_TAG),
            exp_stat_sn: bhs::sn_at(bhs, at::EXP_STAT_SN),
            data_sn: bhs::u32_at(bhs, at::DATA_SN),
            buffer_offset: bhs::u32_at(bhs, at::BUFFER_OFFSET),
        })
    }

    /// Encodes the whole header, with lengths of zero.
    #[inline]
    pub fn emit(&self, bhs: &mut Bhs) {
        bhs::begin(bhs, Opcode::DataOut, false, flag(self.final_, FINAL));
        bhs::put(bhs, at::LUN, &self.lun.0);
        bhs::put_u32(bhs, at::TASK_TAG, self.task_tag.0);
        bhs::put_u32(bhs, at::TRANSFER_TAG, self.transfer_tag);
        bhs::put_u32(bhs, at::EXP_STAT_SN, self.exp_stat_sn.0);
        bhs::put_u32(bhs, at::DATA_SN, self.data_sn);
        bhs::put_u32(bhs, at::BUFFER_OFFSET, self.buffer_offset);
    }
}
