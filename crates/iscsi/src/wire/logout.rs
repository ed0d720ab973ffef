//! Logout Request and Logout Response (RFC 7143 §11.14, §11.15).

use super::bhs::{self, FINAL, at};
use super::{Bhs, Opcode, ParseError};
use crate::sequence::Sn;
use wansan_trace::TaskTag;

closed_code! {
    /// Reason Code of a Logout Request (RFC 7143 §11.14.1): seven bits.
    LogoutReason: u8 {
        /// Close the session with all its connections.
        CloseSession = 0,
        /// Close the connection.
        CloseConnection = 1,
        /// Remove the connection for recovery (error recovery level 2).
        RemoveForRecovery = 2,
    }
}

open_code! {
    /// Response of a Logout Response (RFC 7143 §11.15.1).
    LogoutResult: u8 {
        /// Connection or session closed successfully.
        Closed = 0,
        /// CID not found.
        CidNotFound = 1,
        /// Connection recovery is not supported.
        RecoveryNotSupported = 2,
        /// Cleanup failed.
        CleanupFailed = 3,
    }
}

/// Logout Request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LogoutRequest {
    /// I: immediate delivery, which does not advance CmdSN.
    pub immediate: bool,
    /// Reason Code.
    pub reason: LogoutReason,
    /// Initiator Task Tag.
    pub task_tag: TaskTag,
    /// CID of the connection; 0 to close the session.
    pub cid: u16,
    /// CmdSN.
    pub cmd_sn: Sn,
    /// ExpStatSN.
    pub exp_stat_sn: Sn,
}

impl LogoutRequest {
    /// Parses a header.
    ///
    /// # Errors
    /// [`ParseError::WrongOpcode`]; [`ParseError::InvalidField`] for a reserved Reason Code.
    pub fn parse(bhs: &Bhs) -> Result<Self, ParseError> {
        bhs::expect(bhs, Opcode::LogoutRequest)?;
        let reason = bhs[1] & !FINAL;
        Ok(LogoutRequest {
            immediate: bhs::immediate(bhs),
            reason: LogoutReason::from_wire(reason).ok_or(ParseError::InvalidField {
                pdu: Opcode::LogoutRequest,
                field: "Reason Code",
                value: reason.into(),
                section: "11.14.1",
            })?,
            task_tag: bhs::task_tag(bhs),
            cid: bhs::u16_at(bhs, 20),
            cmd_sn: bhs::sn_at(bhs, at::CMD_SN),
            exp_stat_sn: bhs::sn_at(bhs, at::EXP_STAT_SN),
        })
    }

    /// Encodes the whole header, with lengths of zero.
    pub fn emit(&self, bhs: &mut Bhs) {
        let flags = FINAL | self.reason.to_wire();
        bhs::begin(bhs, Opcode::LogoutRequest, self.immediate, flags);
        bhs::put_u32(bhs, at::TASK_TAG, self.task_tag.0);
        bhs::put_u16(bhs, 20, self.cid);
        bhs::put_u32(bhs, at::CMD_SN, self.cmd_sn.0);
        bhs::put_u32(bhs, at::EXP_STAT_SN, self.exp_stat_sn.0);
    }
}

/// Logout Response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LogoutResponse {
    /// Response.
    pub response: LogoutResult,
    /// Initiator Task Tag of the request.
    pub task_tag: TaskTag,
    /// StatSN.
    pub stat_sn: Sn,
    /// ExpCmdSN.
    pub exp_cmd_sn: Sn,
    /// MaxCmdSN.
    pub max_cmd_sn: Sn,
    /// Time2Wait: minimum time before a reconnect, in seconds.
    pub time2wait_s: u16,
    /// Time2Retain: maximum time after Time2Wait during which tasks can be reassigned, in seconds.
    pub time2retain_s: u16,
}

impl LogoutResponse {
    /// Parses a header.
    ///
    /// # Errors
    /// [`ParseError::WrongOpcode`].
    pub fn parse(bhs: &Bhs) -> Result<Self, ParseError> {
        bhs::expect(bhs, Opcode::LogoutResponse)?;
        Ok(LogoutResponse {
            response: LogoutResult::from_wire(bhs[2]),
            task_tag: bhs::task_tag(bhs),
            stat_sn: bhs::sn_at(bhs, at::STAT_SN),
            exp_cmd_sn: bhs::sn_at(bhs, at::EXP_CMD_SN),
            max_cmd_sn: bhs::sn_at(bhs, at::MAX_CMD_SN),
            time2wait_s: bhs::u16_at(bhs, 40),
            time2retain_s: bhs::u16_at(bhs, 42),
        })
    }

    /// Encodes the whole header, with lengths of zero.
    pub fn emit(&self, bhs: &mut Bhs) {
        bhs::begin(bhs, Opcode::LogoutResponse, false, FINAL);
        bhs[2] = self.response.to_wire();
        bhs::put_u32(bhs, at::TASK_TAG, self.task_tag.0);
        bhs::put_target_numbers(bhs, self.stat_sn, self.exp_cmd_sn, self.max_cmd_sn);
        bhs::put_u16(bhs, 40, self.time2wait_s);
        bhs::put_u16(bhs, 42, self.time2retain_s);
    }
}
