//! Handling of received PDUs.

use wansan_trace::event::PduDirection;
use wansan_trace::{Direction, Instant, Layer, Recorder, TaskTag};

use super::connection::Link;
use super::error::Close;
use super::order::Held;
use super::session::Core;
use super::task::{Refusal, Stage, Task};
use super::window::Admission;
use crate::keys::Key;
use crate::record::{keeps_pdu, pdu_record};
use crate::scsi::{Answer, Decoded, Executed, Sense, StoreOperation};
use crate::text::exchange::{Message, Turn};
use crate::text::send_targets::{Asked, push_record};
use crate::wire::{
    Bhs, FrameError, NopOut, Opcode, Pdu, RESERVED_TASK_TAG, RejectReason, ScsiCommand, ScsiStatus,
    TaskManagementRequest, TextRequest,
};

/// Immediate requests use no window slot, so they have a limit of their own; RFC 7143 §11.2.1.1 requires at least two
/// per connection.
const MAX_IMMEDIATE: usize = 32;

impl Core {
    /// Handles one PDU: determines whether it may be delivered now.
    pub(super) fn incoming(
        &mut self,
        place: usize,
        link: &mut Link,
        pdu: &Pdu<'_>,
        now: Instant,
        trace: &mut Recorder,
    ) -> Result<(), Close> {
        link.pinged = false;
        if keeps_pdu(trace, pdu.bhs) {
            let (id, from) = (link.id, PduDirection::Received);
            trace.pdu(pdu_record(
                now,
                self.id,
                id,
                from,
                pdu.bhs,
                pdu.stream_offset,
            ));
        }
        self.recovery.acknowledge(link, pdu.exp_stat_sn());
        match pdu.opcode() {
            Opcode::DataOut => self.data_out(place, link, (pdu.bhs, pdu.data), now, trace),
            Opcode::ScsiCommand
            | Opcode::TaskManagementRequest
            | Opcode::NopOut
            | Opcode::TextRequest
            | Opcode::LogoutRequest => {
                if pdu.immediate() {
                    self.count_delivered(true);
                    return self.deliver(place, link, pdu.bhs, pdu.data, now, trace);
                }
                match self.order.admit(pdu.cmd_sn()) {
                    Admission::Deliver => {
                        self.count_delivered(false);
                        self.deliver(place, link, pdu.bhs, pdu.data, now, trace)
                    }
                    Admission::Hold(ahead) => {
                        let held = Held {
                            place,
                            bhs: *pdu.bhs,
                            data: pdu.data.to_vec(),
                            data_out: Vec::new(),
                        };
                        self.order.hold(ahead, held, &mut self.share)?;
                        self.meters.count_held(&self.order);
                        Ok(())
                    }
                    Admission::Ignore => Ok(()),
                }
            }
            Opcode::Snack => self.snack(link, pdu.bhs, now, trace),
            Opcode::LoginRequest => {
                self.reject(link, RejectReason::ProtocolError, pdu.bhs, now, trace);
                Err(out_of_state(pdu.bhs, "is valid only in the login phase"))
            }
            _ => {
                self.reject(link, RejectReason::CommandNotSupported, pdu.bhs, now, trace);
                Err(out_of_state(pdu.bhs, "is not an initiator opcode"))
            }
        }
    }

    /// The next command in CmdSN order, if it is held.
    pub(super) fn take_held(&mut self) -> Option<Held> {
        let held = self.order.next(&mut self.share)?;
        self.count_delivered(false);
        Some(held)
    }

    /// Handles a PDU that has a digest error or is too long.
    pub(super) fn frame_error(
        &mut self,
        place: usize,
        link: &mut Link,
        error: FrameError,
        now: Instant,
        trace: &mut Recorder,
    ) -> Result<(), Close> {
        if matches!(
            error,
            FrameError::HeaderDigest { .. } | FrameError::DataDigest { .. }
        ) {
            link.meter.digest_errors += 1;
        }
        match &error {
            FrameError::DataDigest { bhs, .. } => {
                let reason = RejectReason::DataDigestError;
                self.reject(link, reason, bhs, now, trace);
                if self.recovery.resends() {
                    return self.data_lost(place, link, bhs, now, trace);
                }
            }
            FrameError::DataSegmentTooLong { bhs, .. } => {
                let reason = RejectReason::InvalidPduField;
                self.reject(link, reason, bhs, now, trace);
            }
            FrameError::HeaderDigest { .. } => {}
        }
        // At error recovery level 0 lost data cannot be requested again, and a lost command would leave a gap in CmdSN
        // forever. After a header digest error the start of the next PDU is unknown (§7.8), at any level.
        Err(error.into())
    }

    /// Handles a held request, and the data received after it.
    pub(super) fn deliver_with_data(
        &mut self,
        link: &mut Link,
        held: &Held,
        now: Instant,
        trace: &mut Recorder,
    ) -> Result<(), Close> {
        let place = held.place;
        self.deliver(place, link, &held.bhs, &held.data, now, trace)?;
        for (bhs, data) in &held.data_out {
            match data {
                Some(data) => self.data_out(place, link, (bhs, data), now, trace)?,
                None => self.data_lost(place, link, bhs, now, trace)?,
            }
        }
        Ok(())
    }

    /// Handles a request whose turn has come.
    pub(super) fn deliver(
        &mut self,
        place: usize,
        link: &mut Link,
        bhs: &Bhs,
        data: &[u8],
        now: Instant,
        trace: &mut Recorder,
    ) -> Result<(), Close> {
        let opcode = Opcode::from_wire(bhs[0] & 0x3f);
        if self.target.is_none()
            && matches!(opcode, Opcode::ScsiCommand | Opcode::TaskManagementRequest)
        {
            self.reject(link, RejectReason::CommandNotSupported, bhs, now, trace);
            return Err(out_of_state(
                bhs,
                "is not allowed in a discovery session (RFC 7143 §4.3)",
            ));
        }
        let handled = match opcode {
            Opcode::ScsiCommand => self.scsi_command(place, link, bhs, data, now, trace),
            Opcode::TaskManagementRequest => TaskManagementRequest::parse(bhs)
                .map_err(Close::from)
                .and_then(|request| self.manage(place, link, bhs, &request, now, trace)),
            Opcode::NopOut => self.nop_out(link, bhs, data, now, trace),
            Opcode::TextRequest => self.text_request(link, bhs, data, now, trace),
            _ => self.logout(place, link, bhs, now, trace),
        };
        if let Err(Close::Parse(_)) = handled {
            self.reject(link, RejectReason::InvalidPduField, bhs, now, trace);
        }
        handled
    }

    fn scsi_command(
        &mut self,
        place: usize,
        link: &mut Link,
        bhs: &Bhs,
        data: &[u8],
        now: Instant,
        trace: &mut Recorder,
    ) -> Result<(), Close> {
        let command = ScsiCommand::parse(bhs)?;
        let tag = command.task_tag;
        self.refresh(now, trace);
        if command.immediate && self.tasks.len() >= self.max_tasks() {
            self.reject(
                link,
                RejectReason::TooManyImmediateCommands,
                bhs,
                now,
                trace,
            );
            return Ok(());
        }
        if self.functions.end(&command) {
            self.order.release(true);
            return Ok(());
        }
        let same = self.tasks.get(tag).map(|task| &task.stage);
        if let Some(Stage::Aborted) = same {
            // The initiator knows that its task has ended, but the store operation has not completed.
            let busy = Answer::from(ScsiStatus::Busy);
            self.answer_at_once(place, link, &command, &busy, now, trace);
            return Ok(());
        }
        if same.is_some() || tag == RESERVED_TASK_TAG {
            // Its slot is freed before the response announces it, or a window of 1 would stay closed.
            self.order.release(!command.immediate);
            self.reject(link, RejectReason::TaskInProgress, bhs, now, trace);
            return Ok(());
        }
        // The initiator may reuse a tag as soon as it has the response (§11.2.1.8).
        self.recovery.take(tag);
        let layout = self.layout(link);
        trace.crossing(now, self.id, link.id, tag, Layer::Target, Direction::Enter);
        let decoded = self
            .config
            .device
            .decode(command.lun, &command.cdb, &mut self.nexus);
        let expected_bytes = command.expected_data_transfer_length;
        let (unit, operation) = match decoded {
            Decoded::Answer(answer) => {
                self.decided(place, link, &command, answer, now, trace);
                return Ok(());
            }
            Decoded::Store { unit, operation } => (unit, operation),
        };
        let wanted_bytes = match operation {
            StoreOperation::Read { len_bytes, .. } if command.read => len_bytes,
            StoreOperation::Write { len_bytes, .. }
            | StoreOperation::Deferred {
                data_out_bytes: len_bytes,
                ..
            } if command.write => len_bytes,
            _ => 0,
        };
        let moved_bytes = wanted_bytes.min(expected_bytes);
        let mut task = Task::new(
            place,
            link,
            &command,
            (unit, operation),
            moved_bytes,
            layout,
            now,
        );
        if !operation.takes_data_out() {
            self.tasks.insert(task);
            self.ready(link, tag, now, trace);
            return Ok(());
        }
        let begun = self.begin_write(&mut task, &command, data);
        let refused = begun.is_err();
        if let Err(refusal) = begun {
            task.stage = Stage::Refused(refusal);
        }
        let has_all = matches!(task.stage, Stage::Ready(_));
        self.tasks.insert(task);
        if has_all {
            self.ready(link, tag, now, trace);
        } else if !refused {
            self.continue_write(link, tag, now, trace);
        } else if command.final_ {
            self.answer_refused(link, tag, now, trace);
        }
        Ok(())
    }

    /// Answers a command decided by its CDB alone: at once, or when its fence is down.
    fn decided(
        &mut self,
        place: usize,
        link: &mut Link,
        command: &ScsiCommand,
        answer: Answer,
        now: Instant,
        trace: &mut Recorder,
    ) {
        let mut fence = self.nexus.take_fence();
        let is_fenced = !fence.is_down();
        if command.final_ && !is_fenced {
            self.answer_at_once(place, link, command, &answer, now, trace);
            return;
        }
        let tag = command.task_tag;
        let unit = self.config.device.place(command.lun).unwrap_or_default();
        let layout = self.layout(link);
        let mut task = Task::new(place, link, command, (unit, FLUSH_NOTHING), 0, layout, now);
        if !command.final_ {
            // Unsolicited data follows and is discarded before the response.
            task.stage = Stage::Refused(match answer.status {
                ScsiStatus::Good => Sense::NONE.into(),
                status => Refusal {
                    status,
                    sense: answer.sense,
                },
            });
            self.tasks.insert(task);
            return;
        }
        trace.crossing(now, self.id, link.id, tag, Layer::Device, Direction::Enter);
        self.tasks.insert(task);
        self.wait_for(tag, fence, Some(answer));
    }

    /// Passes a task with all its data to the device server.
    pub(super) fn ready(
        &mut self,
        link: &mut Link,
        tag: TaskTag,
        now: Instant,
        trace: &mut Recorder,
    ) {
        trace.crossing(now, self.id, link.id, tag, Layer::Device, Direction::Enter);
        self.refresh(now, trace);
        let answer = self.execute(tag);
        let mut fence = self.nexus.take_fence();
        if !fence.is_down() {
            self.wait_for(tag, fence, answer);
        } else if let Some(answer) = answer {
            self.answer_task(link, tag, &answer, now, trace);
        } else {
            self.queue(link, tag);
        }
    }

    /// Queues a task for the store. A change that others wait for goes first, because they get BUSY until it completes.
    pub(super) fn queue(&self, link: &mut Link, tag: TaskTag) {
        match self.tasks.get(tag) {
            Some(task) if task.is_change() => link.ready.push_front(tag),
            _ => link.ready.push_back(tag),
        }
    }

    /// Decides a deferred command, now that all its data has arrived. Returns its response if no store operation is
    /// needed.
    fn execute(&mut self, tag: TaskTag) -> Option<Answer> {
        let task = self.tasks.get_mut(tag)?;
        let StoreOperation::Deferred { cdb, .. } = &task.operation else {
            return None;
        };
        let Stage::Ready(progress) = &mut task.stage else {
            return None;
        };
        let data_out = (std::mem::take(&mut progress.data), task.expected_bytes);
        let device = &self.config.device;
        match device.execute(task.unit, cdb, data_out, &mut self.nexus) {
            Executed::Answer(answer) => Some(answer),
            Executed::Medium(operation) => {
                progress.medium = Some(operation);
                None
            }
        }
    }

    fn nop_out(
        &mut self,
        link: &mut Link,
        bhs: &Bhs,
        data: &[u8],
        now: Instant,
        trace: &mut Recorder,
    ) -> Result<(), Close> {
        let nop = NopOut::parse(bhs)?;
        self.order.release(!nop.immediate);
        // Without a task tag it answers a ping from the target, or just updates ExpStatSN (§11.18).
        if nop.task_tag != RESERVED_TASK_TAG {
            self.send_pong(link, &nop, data, now, trace);
        }
        Ok(())
    }

    fn text_request(
        &mut self,
        link: &mut Link,
        bhs: &Bhs,
        data: &[u8],
        now: Instant,
        trace: &mut Recorder,
    ) -> Result<(), Close> {
        let request = TextRequest::parse(bhs)?;
        self.order.release(!request.immediate);
        let message = Message {
            data: data.to_vec(),
            is_final: request.final_,
            continued: request.continue_,
            target_transfer_tag: request.transfer_tag,
        };
        let max_data_bytes = link.parameters.max_send_data_bytes as usize;
        let answer = match link.text.receive(&message, max_data_bytes) {
            Ok(Turn::Respond(answer)) => answer,
            Ok(Turn::Question(question)) => {
                let Some(text) = self.answer_text(&question) else {
                    self.reject(link, RejectReason::ProtocolError, bhs, now, trace);
                    return Ok(());
                };
                link.text.answer(text, max_data_bytes)
            }
            Err(_) => {
                self.reject(link, RejectReason::ProtocolError, bhs, now, trace);
                return Ok(());
            }
        };
        self.send_text(link, request.task_tag, &answer, now, trace);
        Ok(())
    }

    /// The answer to a Text Request: SendTargets, and for other keys that they cannot be changed now, or are irrelevant
    /// here (§6.2).
    fn answer_text(&self, question: &[u8]) -> Option<Vec<u8>> {
        let mut answer = Vec::new();
        for pair in crate::text::pairs(question).ok()? {
            if pair.name == "SendTargets" {
                let asked = Asked::parse(pair.value)?;
                for record in self.targets.iter() {
                    if asked.includes(&record.name, self.target.as_deref()) {
                        push_record(&mut answer, record);
                    }
                }
            } else {
                let known = Key::by_text(pair.name).is_some();
                let value = if known { "Reject" } else { "NotUnderstood" };
                crate::text::push_pair(&mut answer, pair.name, value);
            }
        }
        Some(answer)
    }

    /// Counts a delivered command; its slot, if it needs one, is taken.
    fn count_delivered(&mut self, immediate: bool) {
        let tasks = self.tasks.len() + 1;
        self.meters.count_delivered(immediate, tasks, &self.order);
    }

    /// Most concurrent tasks: those of the window and the immediate ones.
    fn max_tasks(&self) -> usize {
        self.config.command_window as usize + MAX_IMMEDIATE
    }
}

/// The operation of a task that has none.
pub(super) const FLUSH_NOTHING: StoreOperation = StoreOperation::Flush {
    offset_bytes: 0,
    len_bytes: 0,
    immediate: false,
};

fn out_of_state(bhs: &Bhs, why: &'static str) -> Close {
    Close::OutOfState {
        opcode: bhs[0] & 0x3f,
        why,
    }
}
