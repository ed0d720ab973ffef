//! Sending of PDUs.

use core::ops::Range;

use wansan_trace::{Direction, Instant, Layer, Recorder, TaskTag};

use super::answered::{Outcome, SentStatus};
use super::connection::Link;
use super::data_in::{DataInStream, InData};
use super::incoming::FLUSH_NOTHING;
use super::session::{Core, Session};
use super::task::{Refusal, Repeat, Stage, Task};
use crate::scsi::{Answer, Sense};
use crate::text::exchange::Message;
use crate::wire::{
    AsyncEvent, AsyncMessage, BHS_BYTES, Bhs, LogoutResponse, LogoutResult, Lun, NopIn, NopOut,
    RESERVED_TAG, RESERVED_TASK_TAG, Reject, RejectReason, Residual, ResponseCode, ScsiCommand,
    ScsiResponse, ScsiStatus, TaskManagementResponse, TaskManagementResult, TextResponse,
};

impl Core {
    /// Answers a command that needs no store operation.
    pub(super) fn answer_at_once(
        &mut self,
        place: usize,
        link: &mut Link,
        command: &ScsiCommand,
        answer: &Answer,
        now: Instant,
        trace: &mut Recorder,
    ) {
        let tag = command.task_tag;
        for direction in [Direction::Enter, Direction::Leave] {
            trace.crossing(now, self.id, link.id, tag, Layer::Device, direction);
        }
        self.order.release(!command.immediate);
        let unit = self.config.device.place(command.lun);
        self.meters.count_at_once(unit, answer.status);
        let layout = self.layout(link);
        let task = Task::new(place, link, command, (0, FLUSH_NOTHING), 0, layout, now);
        self.send_answer(link, task, answer, now, trace);
    }

    /// Completes a task with a response that may have data.
    pub(super) fn answer_task(
        &mut self,
        link: &mut Link,
        tag: TaskTag,
        answer: &Answer,
        now: Instant,
        trace: &mut Recorder,
    ) {
        if answer.status != ScsiStatus::Good {
            let refusal = Refusal {
                status: answer.status,
                sense: answer.sense,
            };
            self.refuse(link, tag, &refusal, now, trace);
            return;
        }
        let Some(task) = self.end(tag) else { return };
        self.meters.count_ended(&task, answer.status, now);
        trace.crossing(now, self.id, link.id, tag, Layer::Device, Direction::Leave);
        self.send_answer(link, task, answer, now, trace);
    }

    /// Sends the response of a completed task: its data in as many PDUs as needed, with the status in the last one if
    /// allowed, or a SCSI Response.
    fn send_answer(
        &mut self,
        link: &mut Link,
        task: Box<Task>,
        answer: &Answer,
        now: Instant,
        trace: &mut Recorder,
    ) {
        let (tag, expected_bytes) = (task.tag, task.expected_bytes);
        let wanted = if task.takes_data {
            expected_bytes as usize
        } else {
            0
        };
        let data = &answer.data[..answer.data.len().min(wanted)];
        let presented_bytes = task.presented_bytes().max(answer.data.len() as u64);
        let data = match answer.status {
            ScsiStatus::Good => data,
            _ => &[],
        };
        let collapses = !data.is_empty() && !self.config.separate_status;
        let status = collapses.then(|| InData::next(link, &task, presented_bytes));
        let stream = DataInStream::of_bytes(&task, data, status);
        let data_pdus = self.send_data(link, &stream, data, 0..u32::MAX, now, trace);
        trace.crossing(now, self.id, link.id, tag, Layer::Target, Direction::Leave);
        if let Some(status) = status {
            self.answered_in_data(link, task, status, data_pdus, data);
        } else {
            let residual = Residual::of(expected_bytes, presented_bytes);
            let outcome = (answer.status, answer.sense, residual);
            let data = data.to_vec();
            self.send_status(link, tag, task, outcome, data_pdus, data, now, trace);
        }
    }

    /// Sends the Data-In PDUs of `data` whose DataSNs are in `run`; returns the total number of PDUs of the data.
    pub(super) fn send_data(
        &self,
        link: &mut Link,
        stream: &DataInStream,
        data: &[u8],
        run: Range<u32>,
        now: Instant,
        trace: &mut Recorder,
    ) -> u32 {
        let layout = &stream.layout;
        let (mut data_sn, mut at) = (layout.first_sn, layout.first_bytes);
        while at < stream.total_bytes {
            let segment = layout.segment(data_sn, at, stream.total_bytes);
            if run.contains(&data_sn) {
                let piece = &data[at as usize..segment.end_bytes() as usize];
                let window = self.order.announced();
                stream.push(&segment, piece, link, window, now, trace);
            }
            at = segment.end_bytes();
            data_sn += 1;
        }
        data_sn
    }

    /// Completes a task with CHECK CONDITION.
    pub(super) fn fail(
        &mut self,
        link: &mut Link,
        tag: TaskTag,
        sense: Sense,
        now: Instant,
        trace: &mut Recorder,
    ) {
        self.refuse(link, tag, &sense.into(), now, trace);
    }

    /// Completes a rejected task, once all unsolicited data has passed.
    pub(super) fn answer_refused(
        &mut self,
        link: &mut Link,
        tag: TaskTag,
        now: Instant,
        trace: &mut Recorder,
    ) {
        if let Some(Stage::Refused(refusal)) = self.tasks.get(tag).map(|task| &task.stage) {
            let refusal = *refusal;
            self.refuse(link, tag, &refusal, now, trace);
        }
    }

    /// Completes a task that was not executed, or failed.
    pub(super) fn refuse(
        &mut self,
        link: &mut Link,
        tag: TaskTag,
        refusal: &Refusal,
        now: Instant,
        trace: &mut Recorder,
    ) {
        let Some(task) = self.tasks.get(tag) else {
            return;
        };
        // Nothing counts as transferred, but data that the initiator did not announce is overflow all the same.
        let moved_bytes = match task.presented_bytes() {
            bytes if bytes > u64::from(task.expected_bytes) => bytes,
            _ => 0,
        };
        let residual = Residual::of(task.expected_bytes, moved_bytes);
        self.conclude(
            link,
            tag,
            refusal.status,
            refusal.sense.as_ref(),
            residual,
            now,
            trace,
        );
    }

    /// Completes a task with a SCSI Response: its slot is freed before the response announces it.
    #[expect(clippy::too_many_arguments, reason = "an answer has this many parts")]
    pub(super) fn conclude(
        &mut self,
        link: &mut Link,
        tag: TaskTag,
        status: ScsiStatus,
        sense: Option<&Sense>,
        residual: Residual,
        now: Instant,
        trace: &mut Recorder,
    ) {
        let Some(task) = self.end(tag) else { return };
        self.meters.count_ended(&task, status, now);
        if task.stage.reached_device() && matches!(task.repeat, Repeat::No) {
            trace.crossing(now, self.id, link.id, tag, Layer::Device, Direction::Leave);
        }
        let data_pdus = match &task.stage {
            Stage::Collecting(collecting) => collecting.r2t_sn,
            Stage::Ready(progress) | Stage::AtStore(progress) => progress.data_pdus(),
            Stage::Refused(_) | Stage::Aborted | Stage::Fenced(_) => 0,
        };
        if let Repeat::No = task.repeat {
            trace.crossing(now, self.id, link.id, tag, Layer::Target, Direction::Leave);
        }
        let outcome = (status, sense.copied(), residual);
        self.send_status(link, tag, task, outcome, data_pdus, Vec::new(), now, trace);
    }

    /// Sends the SCSI Response of a task with `data_pdus` Data-In PDUs or R2Ts, and keeps the task, with data not from
    /// a store, if it may have to be resent.
    #[expect(clippy::too_many_arguments, reason = "an answer has this many parts")]
    pub(super) fn send_status(
        &mut self,
        link: &mut Link,
        tag: TaskTag,
        task: Box<Task>,
        outcome: Outcome,
        data_pdus: u32,
        data: Vec<u8>,
        now: Instant,
        trace: &mut Recorder,
    ) {
        let sent_status = SentStatus {
            stat_sn: link.stat_sn,
            outcome,
            data_pdus,
            in_data: false,
        };
        let kept = (tag, data.len());
        self.send_response(link, kept, &sent_status, task.snack_tag, now, trace);
        if self.recovery.resends() {
            self.recovery.keep(task, sent_status, data);
        }
    }

    /// Removes a task from the table and releases its resources.
    pub(super) fn end(&mut self, tag: TaskTag) -> Option<Box<Task>> {
        let task = self.tasks.remove(tag)?;
        self.share.give(task.charged_bytes);
        self.order.release(task.holds_slot);
        self.grants.give_back(task.granted_bytes());
        Some(task)
    }

    fn send_response(
        &mut self,
        link: &mut Link,
        (tag, data_bytes): (TaskTag, usize),
        sent_status: &SentStatus,
        snack_tag: u32,
        now: Instant,
        trace: &mut Recorder,
    ) {
        let (status, sense, residual) = sent_status.outcome;
        let response = ScsiResponse {
            response: ResponseCode::CommandCompleted,
            status,
            task_tag: tag,
            snack_tag,
            stat_sn: link.take_stat_sn(),
            exp_cmd_sn: self.order.exp_cmd_sn(),
            max_cmd_sn: self.order.max_cmd_sn(),
            exp_data_sn: sent_status.data_pdus,
            residual,
            bidirectional_read_residual: Residual::None,
        };
        let mut bhs = [0; BHS_BYTES];
        response.emit(&mut bhs);
        let task = Some((tag, data_bytes));
        match sense {
            // A length before the sense data itself (§11.4.7).
            Some(sense) => {
                let mut data = [0; 2 + Sense::FIXED_BYTES];
                data[..2].copy_from_slice(&(Sense::FIXED_BYTES as u16).to_be_bytes());
                data[2..].copy_from_slice(&sense.fixed());
                self.push_answer(link, &bhs, &data, task, now, trace);
            }
            None => self.push_answer(link, &bhs, &[], task, now, trace),
        }
    }

    pub(super) fn send_ping(&mut self, link: &mut Link, now: Instant, trace: &mut Recorder) {
        // The tag only has to be valid: any received byte is a sign of life.
        let (task_tag, transfer_tag) = (RESERVED_TASK_TAG, self.grants.next_transfer_tag());
        self.send_nop(link, task_tag, transfer_tag, link.stat_sn, &[], now, trace);
    }

    /// Announces ExpCmdSN and MaxCmdSN, without requesting an answer (§11.19).
    fn send_window(&mut self, link: &mut Link, now: Instant, trace: &mut Recorder) {
        let (task_tag, transfer_tag) = (RESERVED_TASK_TAG, RESERVED_TAG);
        self.send_nop(link, task_tag, transfer_tag, link.stat_sn, &[], now, trace);
    }

    pub(super) fn send_pong(
        &mut self,
        link: &mut Link,
        nop: &NopOut,
        data: &[u8],
        now: Instant,
        trace: &mut Recorder,
    ) {
        let stat_sn = link.take_stat_sn();
        let echoed = &data[..data.len().min(link.parameters.max_send_data_bytes as usize)];
        self.send_nop(
            link,
            nop.task_tag,
            RESERVED_TAG,
            stat_sn,
            echoed,
            now,
            trace,
        );
    }

    #[expect(clippy::too_many_arguments, reason = "a NOP-In has this many parts")]
    fn send_nop(
        &mut self,
        link: &mut Link,
        task_tag: TaskTag,
        transfer_tag: u32,
        stat_sn: crate::sequence::Sn,
        data: &[u8],
        now: Instant,
        trace: &mut Recorder,
    ) {
        let nop = NopIn {
            lun: Lun::default(),
            task_tag,
            transfer_tag,
            stat_sn,
            exp_cmd_sn: self.order.exp_cmd_sn(),
            max_cmd_sn: self.order.max_cmd_sn(),
        };
        let mut bhs = [0; BHS_BYTES];
        nop.emit(&mut bhs);
        // A ping from the target has no number (§11.19.1).
        if task_tag == RESERVED_TASK_TAG {
            link.push(&bhs, data, now, trace);
        } else {
            self.push_answer(link, &bhs, data, None, now, trace);
        }
    }

    pub(super) fn send_text(
        &mut self,
        link: &mut Link,
        tag: TaskTag,
        message: &Message,
        now: Instant,
        trace: &mut Recorder,
    ) {
        let response = TextResponse {
            final_: message.is_final,
            continue_: message.continued,
            lun: Lun::default(),
            task_tag: tag,
            transfer_tag: message.target_transfer_tag,
            stat_sn: link.take_stat_sn(),
            exp_cmd_sn: self.order.exp_cmd_sn(),
            max_cmd_sn: self.order.max_cmd_sn(),
        };
        let mut bhs = [0; BHS_BYTES];
        response.emit(&mut bhs);
        self.push_answer(link, &bhs, &message.data, None, now, trace);
    }

    pub(super) fn send_logout(
        &mut self,
        link: &mut Link,
        tag: TaskTag,
        result: LogoutResult,
        now: Instant,
        trace: &mut Recorder,
    ) {
        let response = LogoutResponse {
            response: result,
            task_tag: tag,
            stat_sn: link.take_stat_sn(),
            exp_cmd_sn: self.order.exp_cmd_sn(),
            max_cmd_sn: self.order.max_cmd_sn(),
            time2wait_s: self.parameters.time2wait_s,
            time2retain_s: self.parameters.time2retain_s,
        };
        let mut bhs = [0; BHS_BYTES];
        response.emit(&mut bhs);
        self.push_answer(link, &bhs, &[], None, now, trace);
    }

    /// Sends an Asynchronous Message: `event`, about the connection `cid` (§11.9).
    pub(super) fn send_async(
        &mut self,
        link: &mut Link,
        event: AsyncEvent,
        [parameter1, parameter2, parameter3]: [u16; 3],
        now: Instant,
        trace: &mut Recorder,
    ) {
        let message = AsyncMessage {
            lun: Lun::default(),
            stat_sn: link.take_stat_sn(),
            exp_cmd_sn: self.order.exp_cmd_sn(),
            max_cmd_sn: self.order.max_cmd_sn(),
            event,
            vendor_code: 0,
            parameter1,
            parameter2,
            parameter3,
        };
        let mut bhs = [0; BHS_BYTES];
        message.emit(&mut bhs);
        self.push_answer(link, &bhs, &[], None, now, trace);
    }

    pub(super) fn send_managed(
        &mut self,
        link: &mut Link,
        tag: TaskTag,
        result: TaskManagementResult,
        now: Instant,
        trace: &mut Recorder,
    ) {
        let response = TaskManagementResponse {
            response: result,
            task_tag: tag,
            stat_sn: link.take_stat_sn(),
            exp_cmd_sn: self.order.exp_cmd_sn(),
            max_cmd_sn: self.order.max_cmd_sn(),
        };
        let mut bhs = [0; BHS_BYTES];
        response.emit(&mut bhs);
        self.push_answer(link, &bhs, &[], None, now, trace);
    }

    /// Sends a Reject with the header that it is about (§11.17).
    pub(super) fn reject(
        &mut self,
        link: &mut Link,
        reason: RejectReason,
        rejected: &Bhs,
        now: Instant,
        trace: &mut Recorder,
    ) {
        link.meter.rejects += 1;
        let reject = Reject {
            reason,
            stat_sn: link.take_stat_sn(),
            exp_cmd_sn: self.order.exp_cmd_sn(),
            max_cmd_sn: self.order.max_cmd_sn(),
            data_sn: 0,
        };
        let mut bhs = [0; BHS_BYTES];
        reject.emit(&mut bhs);
        self.push_answer(link, &bhs, rejected, None, now, trace);
    }
}

impl Session {
    /// Announces that a closed window has opened. Where tasks end without a response no other PDU does, and the
    /// initiator would wait until it has a reason to send one.
    pub(super) fn announce_window(&mut self, was_closed: bool, now: Instant, trace: &mut Recorder) {
        let Session { core, connections } = self;
        let mut links = connections.iter_mut().flatten().map(|one| &mut one.link);
        if was_closed
            && !core.order.is_closed()
            && let Some(link) = links.find(|link| link.lost_until.is_none())
        {
            core.send_window(link, now, trace);
        }
    }
}
