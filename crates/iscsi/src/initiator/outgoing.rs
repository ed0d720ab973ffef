//! Sending of PDUs.

use wansan_trace::{Direction, Instant, Layer, Recorder, TaskTag};

use super::connection::{Leaving, Link, Pong};
use super::requests::Request;
use super::session::Core;
use super::task::{Burst, Stage, Transfer};
use crate::wire::{
    BHS_BYTES, DataOut, LogoutReason, LogoutRequest, NopOut, RESERVED_TAG, RESERVED_TASK_TAG,
    ScsiCommand, TaskManagementFunction, TaskManagementRequest,
};

impl Core {
    /// Queues the PDUs due on `link`, as far as there is room.
    pub(super) fn send_owed(&mut self, link: &mut Link, now: Instant, trace: &mut Recorder) {
        while link.owes() && link.has_room() {
            if let Some(pong) = link.pongs.pop_front() {
                self.send_pong(link, &pong, now, trace);
            } else if let Some(snack) = link.snacks.pop_front() {
                link.send_snack(snack, now, trace);
            } else if let Some(task) = link.retries.pop_front() {
                self.put_command(link, task, now, trace);
            } else if let Some(task) = link.turns.pop_front() {
                self.send_data(link, task, now, trace);
            }
        }
    }

    /// Whether there is a command inside the window.
    pub(super) fn may_send_command(&self) -> bool {
        self.window.is_open() && !self.queue.is_empty()
    }

    /// Sends the oldest queued command, if [`Core::may_send_command`].
    pub(super) fn send_command(&mut self, link: &mut Link, now: Instant, trace: &mut Recorder) {
        let Some(tag) = self.queue.pop() else {
            return;
        };
        let Some(task) = self.tasks.get_mut(tag) else {
            return; // Aborted while it was queued.
        };
        task.stage = Stage::Sent(link.id);
        task.cmd_sn = self.window.take();
        trace.crossing(now, self.id, link.id, tag, Layer::Window, Direction::Enter);

        self.carriage.began(link.id, task, now);
        self.put_command(link, tag, now, trace);
        link.command_queued(tag, now);
    }

    /// Queues the PDU of a command that has its CmdSN, with its immediate data.
    fn put_command(&mut self, link: &mut Link, tag: TaskTag, now: Instant, trace: &mut Recorder) {
        let Some(task) = self.tasks.get_mut(tag) else {
            return;
        };
        let expected_bytes = task.transfer.len_bytes();
        let mut command = ScsiCommand {
            immediate: false,
            final_: true,
            read: matches!(task.transfer, Transfer::Read(_)),
            write: matches!(task.transfer, Transfer::Write(_)),
            attribute: task.attribute,
            lun: task.lun,
            task_tag: tag,
            expected_data_transfer_length: expected_bytes,
            cmd_sn: task.cmd_sn,
            exp_stat_sn: link.exp_stat_sn,
            cdb: task.cdb,
        };
        let mut bhs = [0; BHS_BYTES];
        if let Transfer::Write(data) = &task.transfer {
            let parameters = &self.parameters;
            let unsolicited = expected_bytes.min(parameters.first_burst_bytes);
            let immediate = if parameters.immediate_data {
                unsolicited.min(link.parameters.max_send_data_bytes)
            } else {
                0
            };
            if !parameters.initial_r2t && immediate < unsolicited {
                command.final_ = false;
                task.bursts.push_back(Burst {
                    transfer_tag: None,
                    offset_bytes: immediate,
                    end_bytes: unsolicited,
                    data_sn: 0,
                });
                link.turns.push_back(tag);
            }
            command.emit(&mut bhs);
            link.push(&bhs, &data[..immediate as usize], now, trace);
            if immediate == expected_bytes {
                let end = link.transmitter.queued_end();
                self.carriage.queued(link.id, task, end);
            }
        } else {
            command.emit(&mut bhs);
            link.push(&bhs, &[], now, trace);
        }
    }

    /// Sends one PDU of the data that `tag` owes, then gives other tasks their turn.
    fn send_data(&mut self, link: &mut Link, tag: TaskTag, now: Instant, trace: &mut Recorder) {
        let Some(task) = self.tasks.get_mut(tag) else {
            return;
        };
        if task.stage != Stage::Sent(link.id) {
            return; // Retried elsewhere.
        }
        let (Some(burst), Transfer::Write(data)) = (task.bursts.front_mut(), &task.transfer) else {
            return;
        };
        let end = burst.end_bytes.min(
            burst
                .offset_bytes
                .saturating_add(link.parameters.max_send_data_bytes),
        );
        let piece = &data[burst.offset_bytes as usize..end as usize];
        let data_out = DataOut {
            final_: end == burst.end_bytes,
            lun: task.lun,
            task_tag: tag,
            transfer_tag: burst.transfer_tag.unwrap_or(RESERVED_TAG),
            exp_stat_sn: link.exp_stat_sn,
            data_sn: burst.data_sn,
            buffer_offset: burst.offset_bytes,
        };
        let mut bhs = [0; BHS_BYTES];
        data_out.emit(&mut bhs);
        link.push(&bhs, piece, now, trace);
        burst.offset_bytes = end;
        burst.data_sn += 1;
        if data_out.final_ {
            task.bursts.pop_front();
        }
        if end == task.transfer.len_bytes() {
            let end = link.transmitter.queued_end();
            self.carriage.queued(link.id, task, end);
        }
        if !task.bursts.is_empty() {
            link.turns.push_back(tag);
        }
    }

    fn send_pong(&mut self, link: &mut Link, pong: &Pong, now: Instant, trace: &mut Recorder) {
        let answer = NopOut {
            immediate: true,
            lun: pong.lun,
            task_tag: RESERVED_TASK_TAG,
            transfer_tag: pong.transfer_tag,
            cmd_sn: self.window.cmd_sn(),
            exp_stat_sn: link.exp_stat_sn,
        };
        let mut bhs = [0; BHS_BYTES];
        answer.emit(&mut bhs);
        link.push(&bhs, &pong.data, now, trace);
    }

    /// Logs out a connection at the target's request, once, when no command is outstanding on it (RFC 7143 §11.9.1).
    pub(super) fn leave(&mut self, link: &mut Link, now: Instant, trace: &mut Recorder) {
        let is_busy = self.carriage.of(link.id).in_flight.count() > 0;
        if link.leaving == Leaving::Wanted && !is_busy {
            let tag = self.tasks.spare_tag();
            link.leaving = Leaving::Asked;
            self.requests.push(tag, Request::Leave);
            self.send_request(link, tag, Request::Leave, now, trace);
        }
    }

    /// Sends a request other than a SCSI command. All are immediate: they must not wait for the window that they may
    /// serve to free.
    pub(super) fn send_request(
        &mut self,
        link: &mut Link,
        tag: TaskTag,
        request: Request,
        now: Instant,
        trace: &mut Recorder,
    ) {
        let (cmd_sn, exp_stat_sn) = (self.window.cmd_sn(), link.exp_stat_sn);
        let mut bhs = [0; BHS_BYTES];
        match request {
            Request::Manage {
                function,
                lun,
                referenced,
                ..
            } => {
                let ref_cmd_sn = match self.tasks.get_mut(referenced) {
                    Some(task) if function == TaskManagementFunction::AbortTask => task.cmd_sn,
                    _ => crate::sequence::Sn(0),
                };
                TaskManagementRequest {
                    immediate: true,
                    function,
                    lun,
                    task_tag: tag,
                    referenced_task_tag: referenced,
                    cmd_sn,
                    exp_stat_sn,
                    ref_cmd_sn,
                    exp_data_sn: 0,
                }
                .emit(&mut bhs);
            }
            Request::Ping => NopOut {
                immediate: true,
                lun: crate::wire::Lun::default(),
                task_tag: tag,
                transfer_tag: RESERVED_TAG,
                cmd_sn,
                exp_stat_sn,
            }
            .emit(&mut bhs),
            Request::Leave => LogoutRequest {
                immediate: true,
                reason: LogoutReason::CloseConnection,
                task_tag: tag,
                cid: link.id.0,
                cmd_sn,
                exp_stat_sn,
            }
            .emit(&mut bhs),
            Request::Remove { cid, .. } => LogoutRequest {
                immediate: true,
                reason: LogoutReason::RemoveForRecovery,
                task_tag: tag,
                cid: cid.0,
                cmd_sn,
                exp_stat_sn,
            }
            .emit(&mut bhs),
            Request::Reassign { referenced, .. } => {
                let (lun, exp_data_sn) = match self.tasks.get_mut(referenced) {
                    Some(task) => (task.lun, task.data_sns.expected),
                    None => return,
                };
                TaskManagementRequest {
                    immediate: true,
                    function: TaskManagementFunction::TaskReassign,
                    lun,
                    task_tag: tag,
                    referenced_task_tag: referenced,
                    cmd_sn,
                    exp_stat_sn,
                    ref_cmd_sn: crate::sequence::Sn(0),
                    exp_data_sn,
                }
                .emit(&mut bhs);
            }
            Request::Logout => LogoutRequest {
                immediate: true,
                reason: LogoutReason::CloseSession,
                task_tag: tag,
                cid: link.id.0,
                cmd_sn,
                exp_stat_sn,
            }
            .emit(&mut bhs),
        }
        link.push(&bhs, &[], now, trace);
    }
}
