//! SNACK Request (RFC 7143 §11.16).

use super::bhs::{self, FINAL, at};
use super::{Bhs, Lun, Opcode, ParseError};
use crate::sequence::Sn;
use wansan_trace::TaskTag;

closed_code! {
    /// Type of a SNACK (RFC 7143 §11.16.1): four bits.
    SnackKind: u8 {
        /// Resend Data-In or R2T PDUs.
        DataOrR2t = 0,
        /// Resend status PDUs.
        Status = 1,
        /// DataACK: acknowledges Data-In PDUs.
        DataAck = 2,
        /// Resend unacknowledged data, possibly resegmented.
        ResegmentedData = 3,
    }
}

/// SNACK Request: the initiator requests retransmission of PDUs, or acknowledges data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Snack {
    /// Type.
    pub kind: SnackKind,
    /// Logical unit.
    pub lun: Lun,
    /// Initiator Task Tag; [`RESERVED_TASK_TAG`](super::RESERVED_TASK_TAG) for status and DataACK.
    pub task_tag: TaskTag,
    /// Target Transfer Tag of a DataACK, SNACK Tag of resegmented data, else
    /// [`RESERVED_TAG`](super::RESERVED_TAG).
    pub transfer_tag: u32,
    /// ExpStatSN.
    pub exp_stat_sn: Sn,
    /// BegRun: the first DataSN, R2TSN or StatSN requested.
    pub beg_run: u32,
    /// RunLength: number of PDUs; 0 means all from BegRun on.
    pub run_length: u32,
}

impl Snack {
    /// Parses a header.
    ///
    /// # Errors
    /// [`ParseError::WrongOpcode`]; [`ParseError::InvalidField`] for a reserved Type.
    pub fn parse(bhs: &Bhs) -> Result<Self, ParseError> {
        bhs::expect(bhs, Opcode::Snack)?;
        let kind = bhs[1] & 0x0f;
        Ok(Snack {
            kind: SnackKind::from_wire(kind).ok_or(ParseError::InvalidField {
                pdu: Opcode::Snack,
                field: "Type",
                value: kind.into(),
                section: "11.16.1",
            })?,
            lun: Lun(bhs::array(bhs, at::LUN)),
            task_tag: bhs::task_tag(bhs),
            transfer_tag: bhs::u32_at(bhs, at::TRANSFER_TAG),
            exp_stat_sn: bhs::sn_at(bhs, at::EXP_STAT_SN),
            beg_run: bhs::u32_at(bhs, 40),
            run_length: bhs::u32_at(bhs, 44),
        })
    }

    /// Encodes the whole header, with lengths of zero.
    pub fn emit(&self, bhs: &mut Bhs) {
        bhs::begin(bhs, Opcode::Snack, false, FINAL | self.kind.to_wire());
        bhs::put(bhs, at::LUN, &self.lun.0);
        bhs::put_u32(bhs, at::TASK_TAG, self.task_tag.0);
        bhs::put_u32(bhs, at::TRANSFER_TAG, self.transfer_tag);
        bhs::put_u32(bhs, at::EXP_STAT_SN, self.exp_stat_sn.0);
        bhs::put_u32(bhs, 40, self.beg_run);
        bhs::put_u32(bhs, 44, self.run_length);
    }
}
