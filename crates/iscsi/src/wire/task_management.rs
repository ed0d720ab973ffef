//! SCSI Task Management Function Request and Response (RFC 7143 §11.5, §11.6).

use super::bhs::{self, FINAL, at};
use super::{Bhs, Lun, Opcode, ParseError};
use crate::sequence::Sn;
use wansan_trace::TaskTag;

open_code! {
    /// Task management functions (RFC 7143 §11.5.1): seven bits.
    TaskManagementFunction: u8 {
        /// ABORT TASK: the referenced task.
        AbortTask = 1,
        /// ABORT TASK SET: all tasks of this session on the logical unit.
        AbortTaskSet = 2,
        /// CLEAR ACA.
        ClearAca = 3,
        /// CLEAR TASK SET: all tasks of all sessions on the logical unit.
        ClearTaskSet = 4,
        /// LOGICAL UNIT RESET.
        LogicalUnitReset = 5,
        /// TARGET WARM RESET.
        TargetWarmReset = 6,
        /// TARGET COLD RESET: a warm reset that also ends all sessions.
        TargetColdReset = 7,
        /// TASK REASSIGN: moves connection allegiance (error recovery level 2).
        TaskReassign = 8,
        /// QUERY TASK (RFC 7144 §4.1).
        QueryTask = 9,
        /// QUERY TASK SET (RFC 7144 §4.1).
        QueryTaskSet = 10,
        /// I_T NEXUS RESET (RFC 7144 §4.1).
        ItNexusReset = 11,
        /// QUERY ASYNCHRONOUS EVENT (RFC 7144 §4.1).
        QueryAsyncEvent = 12,
    }
}

open_code! {
    /// Response of a task management function (RFC 7143 §11.6.1).
    TaskManagementResult: u8 {
        /// Function complete.
        Complete = 0,
        /// Task does not exist.
        TaskDoesNotExist = 1,
        /// LUN does not exist.
        LunDoesNotExist = 2,
        /// Task still allegiant.
        TaskStillAllegiant = 3,
        /// Task allegiance reassignment not supported.
        ReassignNotSupported = 4,
        /// Task management function not supported.
        NotSupported = 5,
        /// Function authorization failed.
        AuthorizationFailed = 6,
        /// Function succeeded (RFC 7144 §4.2).
        Succeeded = 7,
        /// Function rejected.
        Rejected = 255,
    }
}

/// SCSI Task Management Function Request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TaskManagementRequest {
    /// I: immediate delivery, which does not advance CmdSN.
    pub immediate: bool,
    /// Function.
    pub function: TaskManagementFunction,
    /// Logical unit.
    pub lun: Lun,
    /// Initiator Task Tag of this request itself.
    pub task_tag: TaskTag,
    /// Referenced Task Tag: the task to abort or to reassign, else
    /// [`RESERVED_TASK_TAG`](super::RESERVED_TASK_TAG).
    pub referenced_task_tag: TaskTag,
    /// CmdSN.
    pub cmd_sn: Sn,
    /// ExpStatSN.
    pub exp_stat_sn: Sn,
    /// RefCmdSN: CmdSN of the task to abort.
    pub ref_cmd_sn: Sn,
    /// ExpDataSN of TASK REASSIGN.
    pub exp_data_sn: u32,
}

impl TaskManagementRequest {
    /// Parses a header.
    ///
    /// # Errors
    /// [`ParseError::WrongOpcode`].
    pub fn parse(bhs: &Bhs) -> Result<Self, ParseError> {
        bhs::expect(bhs, Opcode::TaskManagementRequest)?;
        Ok(TaskManagementRequest {
            immediate: bhs::immediate(bhs),
            function: TaskManagementFunction::from_wire(bhs[1] & !FINAL),
            lun: Lun(bhs::array(bhs, at::LUN)),
            task_tag: bhs::task_tag(bhs),
            referenced_task_tag: TaskTag(bhs::u32_at(bhs, 20)),
            cmd_sn: bhs::sn_at(bhs, at::CMD_SN),
            exp_stat_sn: bhs::sn_at(bhs, at::EXP_STAT_SN),
            ref_cmd_sn: bhs::sn_at(bhs, 32),
            exp_data_sn: bhs::u32_at(bhs, at::DATA_SN),
        })
    }

    /// Encodes the whole header, with lengths of zero.
    pub fn emit(&self, bhs: &mut Bhs) {
        let flags = FINAL | self.function.to_wire();
        bhs::begin(bhs, Opcode::TaskManagementRequest, self.immediate, flags);
        bhs::put(bhs, at::LUN, &self.lun.0);
        bhs::put_u32(bhs, at::TASK_TAG, self.task_tag.0);
        bhs::put_u32(bhs, 20, self.referenced_task_tag.0);
        bhs::put_u32(bhs, at::CMD_SN, self.cmd_sn.0);
        bhs::put_u32(bhs, at::EXP_STAT_SN, self.exp_stat_sn.0);
        bhs::put_u32(bhs, 32, self.ref_cmd_sn.0);
        bhs::put_u32(bhs, at::DATA_SN, self.exp_data_sn);
    }
}

/// SCSI Task Management Function Response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TaskManagementResponse {
    /// Response.
    pub response: TaskManagementResult,
    /// Initiator Task Tag of the request.
    pub task_tag: TaskTag,
    /// StatSN.
    pub stat_sn: Sn,
    /// ExpCmdSN.
    pub exp_cmd_sn: Sn,
    /// MaxCmdSN.
    pub max_cmd_sn: Sn,
}

impl TaskManagementResponse {
    /// Parses a header.
    ///
    /// # Errors
    /// [`ParseError::WrongOpcode`].
    pub fn parse(bhs: &Bhs) -> Result<Self, ParseError> {
        bhs::expect(bhs, Opcode::TaskManagementResponse)?;
        Ok(TaskManagementResponse {
            response: TaskManagementResult::from_wire(bhs[2]),
            task_tag: bhs::task_tag(bhs),
            stat_sn: bhs::sn_at(bhs, at::STAT_SN),
            exp_cmd_sn: bhs::sn_at(bhs, at::EXP_CMD_SN),
            max_cmd_sn: bhs::sn_at(bhs, at::MAX_CMD_SN),
        })
    }

    /// Encodes the whole header, with lengths of zero.
    pub fn emit(&self, bhs: &mut Bhs) {
        bhs::begin(bhs, Opcode::TaskManagementResponse, false, FINAL);
        bhs[2] = self.response.to_wire();
        bhs::put_u32(bhs, at::TASK_TAG, self.task_tag.0);
        bhs::put_target_numbers(bhs, self.stat_sn, self.exp_cmd_sn, self.max_cmd_sn);
    }
}
