//! Responses that ask for a retry, hidden from the caller.

use std::time::Duration;

use wansan_trace::{Instant, Recorder, TaskTag};

use super::session::Core;
use super::task::{Answer, Stage};
use crate::scsi::{Sense, SenseKey, opcode};
use crate::wire::ScsiStatus;

/// Most retries of a command.
const MAX_RETRIES: u8 = 20;
/// The wait before the first retry at a busy unit; doubles each time.
const FIRST_WAIT: Duration = Duration::from_millis(2);
/// The longest such wait. All waits together are about half a minute.
const LONGEST_WAIT: Duration = Duration::from_secs(3);

/// ASC of POWER ON, RESET, OR BUS DEVICE RESET OCCURRED and of I_T NEXUS LOSS OCCURRED (SPC-4 Annex D): what a unit
/// reports to a replacement session.
const ASC_RESET_OR_NEXUS_LOSS: u8 = 0x29;
/// Commands that a unit executes without reporting a pending unit attention.
const BEFORE_ATTENTIONS: [u8; 3] = [opcode::INQUIRY, opcode::REPORT_LUNS, opcode::REQUEST_SENSE];
/// PROTOCOL SERVICE CRC ERROR (SPC-4 Annex D, RFC 7143 §11.4.7.2): the target terminated a command with corrupted data.
const CRC_ERROR: (u8, u8) = (0x47, 0x05);

impl Core {
    /// The unit has executed the command: it has reported the loss of the earlier session before, if at all.
    ///
    /// A unit reports it once, to the command with the lowest CmdSN that does not bypass unit attentions (SAM-5 5.14.1).
    /// Responses may arrive in another order: over several connections, or when one is resent after a digest error. So the
    /// report may still arrive for an earlier command.
    pub(super) fn has_executed(&mut self, tag: TaskTag) {
        let (Some(announced), Some(task)) = (&mut self.announced, self.tasks.get(tag)) else {
            return;
        };
        if BEFORE_ATTENTIONS.contains(&task.cdb[0]) {
            return;
        }
        let (lun, cmd_sn, may_report) = (task.lun, task.cmd_sn, task.may_report_loss);
        let is_first = announced.insert(lun);
        if is_first || may_report {
            for other in self.tasks.iter_mut().filter(|other| other.lun == lun) {
                let is_earlier = matches!(other.stage, Stage::Sent(_)) && other.cmd_sn.lt(cmd_sn);
                other.may_report_loss = is_earlier && (is_first || other.may_report_loss);
            }
        }
    }

    /// Whether the unit's report of a reset or of a lost nexus, in response to the command, is due to the replacement of
    /// the earlier session. Targets report that with different qualifiers, so a reset by another initiator is taken for
    /// it if its report arrives first.
    fn reports_loss(&mut self, tag: TaskTag) -> bool {
        let (Some(announced), Some(task)) = (&mut self.announced, self.tasks.get(tag)) else {
            return false;
        };
        let lun = task.lun;
        let is_due = announced.insert(lun) || task.may_report_loss;
        if is_due {
            for other in self.tasks.iter_mut().filter(|other| other.lun == lun) {
                other.may_report_loss = false;
            }
        }
        is_due
    }

    /// Whether the response asks for a retry; if so, the command has been requeued.
    pub(super) fn tries_again(
        &mut self,
        tag: TaskTag,
        answer: &Answer,
        now: Instant,
        trace: &mut Recorder,
    ) -> bool {
        let what = match answer.status {
            ScsiStatus::CheckCondition => what(&answer.sense),
            _ => None,
        };
        let reports_loss = matches!(what, Some(What::Nexus)) && self.reports_loss(tag);
        // An outstanding ABORT TASK is for this try: its answer would end the retry, too, which the target may still
        // execute.
        if self.requests.abort(tag) {
            return false;
        }
        let Some(retries) = self.tasks.get(tag).map(|task| task.retries) else {
            return false;
        };
        let wait = match answer.status {
            // SAM-5 5.3.1: the unit will accept the command later.
            ScsiStatus::Busy | ScsiStatus::TaskSetFull => {
                LONGEST_WAIT.min(FIRST_WAIT * 2_u32.pow(u32::from(retries).min(16)))
            }
            ScsiStatus::CheckCondition => match what {
                Some(What::CrcError) => Duration::ZERO,
                Some(What::Nexus) if reports_loss => Duration::ZERO,
                // Later unit attentions are genuine.
                Some(What::Nexus) | None => return false,
            },
            _ => return false,
        };
        if retries >= MAX_RETRIES {
            return false;
        }
        self.take_back(tag, now, trace);
        if let Some(task) = self.tasks.get_mut(tag) {
            task.retries += 1;
        }
        if wait.is_zero() {
            self.queue.put_back(tag);
        } else {
            self.queue.delay(now + wait, tag);
        }
        true
    }
}

/// A CHECK CONDITION that is not about the command itself.
enum What {
    /// The unit was reset, or the session is another one than before.
    Nexus,
    /// The command's data was corrupted in transit.
    CrcError,
}

fn what(sense: &[u8]) -> Option<What> {
    let sense = Sense::parse(sense).ok()?;
    let additional = (sense.additional.code, sense.additional.qualifier);
    match sense.key {
        SenseKey::UnitAttention if additional.0 == ASC_RESET_OR_NEXUS_LOSS => Some(What::Nexus),
        SenseKey::AbortedCommand if additional == CRC_ERROR => Some(What::CrcError),
        _ => None,
    }
}
