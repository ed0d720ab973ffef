//! Reject (RFC 7143 §11.17).

use super::bhs::{self, FINAL, at};
use super::{Bhs, Opcode, ParseError, RESERVED_TAG};
use crate::sequence::Sn;

open_code! {
    /// Why a PDU was rejected (RFC 7143 §11.17.1).
    RejectReason: u8 {
        /// Data (payload) digest error.
        DataDigestError = 0x02,
        /// SNACK reject.
        SnackReject = 0x03,
        /// Protocol error.
        ProtocolError = 0x04,
        /// Command not supported.
        CommandNotSupported = 0x05,
        /// Immediate command reject: too many immediate commands.
        TooManyImmediateCommands = 0x06,
        /// Task in progress.
        TaskInProgress = 0x07,
        /// Invalid data acknowledgement.
        InvalidDataAck = 0x08,
        /// Invalid PDU field.
        InvalidPduField = 0x09,
        /// Long operation reject: no Target Transfer Tag available.
        LongOperationReject = 0x0a,
        /// Waiting for logout.
        WaitingForLogout = 0x0c,
    }
}

/// Reject: its data segment is the header of the rejected PDU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Reject {
    /// Reason.
    pub reason: RejectReason,
    /// StatSN.
    pub stat_sn: Sn,
    /// ExpCmdSN.
    pub exp_cmd_sn: Sn,
    /// MaxCmdSN.
    pub max_cmd_sn: Sn,
    /// DataSN or R2TSN of the next data or R2T PDU; valid only for a rejected DataACK.
    pub data_sn: u32,
}

impl Reject {
    /// Parses a header.
    ///
    /// # Errors
    /// [`ParseError::WrongOpcode`].
    pub fn parse(bhs: &Bhs) -> Result<Self, ParseError> {
        bhs::expect(bhs, Opcode::Reject)?;
        Ok(Reject {
            reason: RejectReason::from_wire(bhs[2]),
            stat_sn: bhs::sn_at(bhs, at::STAT_SN),
            exp_cmd_sn: bhs::sn_at(bhs, at::EXP_CMD_SN),
            max_cmd_sn: bhs::sn_at(bhs, at::MAX_CMD_SN),
            data_sn: bhs::u32_at(bhs, at::DATA_SN),
        })
    }

    /// Encodes the whole header, with lengths of zero.
    pub fn emit(&self, bhs: &mut Bhs) {
        bhs::begin(bhs, Opcode::Reject, false, FINAL);
        bhs[2] = self.reason.to_wire();
        bhs::put_u32(bhs, at::TASK_TAG, RESERVED_TAG);
        bhs::put_target_numbers(bhs, self.stat_sn, self.exp_cmd_sn, self.max_cmd_sn);
        bhs::put_u32(bhs, at::DATA_SN, self.data_sn);
    }
}
