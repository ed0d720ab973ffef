//! Handling of received PDUs.

use wansan_trace::event::PduDirection;
use wansan_trace::{ConnectionId, Direction, Instant, Layer, Recorder, TaskTag};

use super::connection::{Leaving, Link, Pong};
use super::error::SessionError;
use super::requests::Request;
use super::session::{Core, Event};
use super::task::{Answer, Burst, Completion, Stage, Task, TaskError, Transfer};
use crate::record::{keeps_pdu, pdu_record};
use crate::wire::{
    AsyncEvent, AsyncMessage, BHS_BYTES, DataIn, LogoutResponse, NopIn, Opcode, Pdu, R2t,
    RESERVED_TAG, RESERVED_TASK_TAG, Reject, RejectReason, Residual, ResponseCode, ScsiResponse,
    ScsiStatus, TaskManagementResponse, TaskManagementResult,
};

/// The target's pings that may wait to be answered.
const MAX_PONGS: usize = 16;

impl Core {
    /// Handles one PDU, whose first byte was read at `first_byte`.
    pub(super) fn incoming(
        &mut self,
        link: &mut Link,
        pdu: &Pdu<'_>,
        first_byte: Instant,
        now: Instant,
        trace: &mut Recorder,
    ) -> Result<(), SessionError> {
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
        self.window.update(pdu.command_window());
        let lacks_data = |tag| {
            self.tasks
                .get(tag)
                .is_some_and(|task| task.answer.is_some())
        };
        link.release_statuses(lacks_data);
        match pdu.opcode() {
            Opcode::DataIn => self.data_in(link, pdu, first_byte, now, trace),
            Opcode::ScsiResponse => self.scsi_response(link, pdu, first_byte, now, trace),
            Opcode::R2t => self.r2t(link, &R2t::parse(pdu.bhs)?),
            Opcode::NopIn => self.nop_in(link, pdu, now),
            Opcode::TaskManagementResponse => {
                let response = TaskManagementResponse::parse(pdu.bhs)?;
                if link.take_status(response.stat_sn)? {
                    self.managed(link, &response, now, trace)?;
                }
                Ok(())
            }
            Opcode::LogoutResponse => {
                let response = LogoutResponse::parse(pdu.bhs)?;
                if !link.take_status(response.stat_sn)? {
                    return Ok(());
                }
                match self.requests.take(response.task_tag) {
                    Some(Request::Logout) => self.events.push_back(Event::LoggedOut),
                    Some(Request::Leave) => {
                        let event = AsyncEvent::LogoutRequest.to_wire();
                        return Err(SessionError::TargetLeft { event });
                    }
                    Some(Request::Remove { cid, .. }) => {
                        return self.removed(link, cid, response.response, now, trace);
                    }
                    _ => {}
                }
                Ok(())
            }
            Opcode::TextResponse => self.text_response(link, pdu, now, trace),
            Opcode::Reject => self.reject(link, pdu, now, trace),
            Opcode::AsyncMessage => self.async_message(link, &AsyncMessage::parse(pdu.bhs)?),
            other => Err(SessionError::UnexpectedOpcode(other.to_wire())),
        }
    }

    fn data_in(
        &mut self,
        link: &mut Link,
        pdu: &Pdu<'_>,
        first_byte: Instant,
        now: Instant,
        trace: &mut Recorder,
    ) -> Result<(), SessionError> {
        let data_in = DataIn::parse(pdu.bhs)?;
        let session = self.id;
        let Some(task) = self.tasks.on(link.id, data_in.task_tag)? else {
            // Data of a task that was aborted in the meantime.
            if data_in.status.is_some() {
                link.take_status(data_in.stat_sn)?;
            }
            return Ok(());
        };
        task.answer_began(session, link, first_byte, trace);
        let offset = data_in.buffer_offset as usize;
        if link.recovers {
            task.data_sent_up_to(link, data_in.data_sn)?;
        }
        let (expected_bytes, expected) = (task.transfer.awaited_bytes() as u32, task.got_bytes);
        let misplaced = || SessionError::DataOutOfPlace {
            task: data_in.task_tag.0,
            bytes: pdu.data.len(),
            offset: data_in.buffer_offset,
            expected_bytes,
            expected,
        };
        let Transfer::Read(buffer) = &mut task.transfer else {
            return Err(misplaced());
        };
        // DataPDUInOrder is always Yes here; sequences may arrive in another order if negotiated (§13.19), and lost
        // PDUs arrive late.
        let in_order = self.parameters.data_sequence_in_order && !link.recovers;
        if (in_order && data_in.buffer_offset != task.got_bytes)
            || (!link.recovers && data_in.data_sn != task.data_sns.expected)
        {
            return Err(misplaced());
        }
        let place = offset
            .checked_add(pdu.data.len())
            .and_then(|end| buffer.get_mut(offset..end));
        let place = place.ok_or_else(misplaced)?;
        if task.data_sns.take(data_in.data_sn) {
            place.copy_from_slice(pdu.data);
            task.got_bytes += pdu.data.len() as u32;
        }
        if data_in.acknowledge && link.recovers && task.data_sns.is_whole() {
            link.acknowledge_data(&data_in, task.data_sns.expected)?;
        }
        let is_answered = task.answer.is_some();
        if let Some(status) = data_in.status
            && link.take_status(data_in.stat_sn)?
        {
            let answer = Answer {
                status,
                residual: data_in.residual,
                sense: Vec::new(),
            };
            let answer = (data_in.stat_sn, answer);
            self.answer_came(link, data_in.task_tag, answer, now, trace);
        } else if is_answered {
            self.data_came(data_in.task_tag, now, trace);
        }
        Ok(())
    }

    fn scsi_response(
        &mut self,
        link: &mut Link,
        pdu: &Pdu<'_>,
        first_byte: Instant,
        now: Instant,
        trace: &mut Recorder,
    ) -> Result<(), SessionError> {
        let response = ScsiResponse::parse(pdu.bhs)?;
        if !link.take_status(response.stat_sn)? {
            return Ok(());
        }
        let session = self.id;
        let Some(task) = self.tasks.on(link.id, response.task_tag)? else {
            return Ok(());
        };
        if link.recovers && matches!(task.transfer, Transfer::Read(_)) {
            task.data_sent_up_to(link, response.exp_data_sn)?;
        }
        task.answer_began(session, link, first_byte, trace);
        if response.response != ResponseCode::CommandCompleted {
            let error = TaskError::Response(response.response.to_wire());
            self.finish(response.task_tag, Err(error), now, trace);
            return Ok(());
        }
        let answer = Answer {
            status: response.status,
            residual: response.residual,
            sense: match pdu.data {
                [] => Vec::new(),
                data => sense_of(data).to_vec(),
            },
        };
        let answer = (response.stat_sn, answer);
        self.answer_came(link, response.task_tag, answer, now, trace);
        Ok(())
    }

    /// A status arrived: checks that a successful read is complete, and completes the task.
    pub(super) fn answered(
        &mut self,
        tag: TaskTag,
        answer: Answer,
        now: Instant,
        trace: &mut Recorder,
    ) {
        let Some(task) = self.tasks.get_mut(tag) else {
            return;
        };
        let expected_bytes = match (&task.transfer, answer.status, answer.residual) {
            (Transfer::Read(data), ScsiStatus::Good, Residual::Underflow(missing)) => {
                (data.len() as u32).saturating_sub(missing)
            }
            (Transfer::Read(data), ScsiStatus::Good, _) => data.len() as u32,
            _ => task.got_bytes,
        };
        let got_bytes = task.got_bytes;
        match answer.status {
            ScsiStatus::Good => self.has_executed(tag),
            _ if self.tries_again(tag, &answer, now, trace) => return,
            _ => {}
        }
        let outcome = if got_bytes == expected_bytes {
            Ok(answer)
        } else {
            Err(TaskError::DataMissing {
                got_bytes,
                expected_bytes,
            })
        };
        self.finish(tag, outcome, now, trace);
    }

    /// Completes a task with its outcome.
    pub(super) fn finish(
        &mut self,
        tag: TaskTag,
        outcome: Result<Answer, TaskError>,
        now: Instant,
        trace: &mut Recorder,
    ) {
        let Some(task) = self.tasks.get_mut(tag) else {
            return;
        };
        let is_write = task.extent.is_some();
        let id = match task.stage {
            Stage::Queued | Stage::Withheld => ConnectionId(0),
            Stage::Sent(id) if matches!(outcome, Err(TaskError::SessionEnded)) => {
                self.carriage.left(id, task, now);
                trace.crossing(now, self.id, id, tag, Layer::Window, Direction::Leave);
                id
            }
            Stage::Sent(id) => {
                let is_good = outcome
                    .as_ref()
                    .is_ok_and(|answer| answer.status == ScsiStatus::Good);
                self.carriage.done(id, task, is_good, now);
                trace.crossing(now, self.id, id, tag, Layer::Window, Direction::Leave);
                id
            }
        };
        let outcome = match outcome {
            Ok(answer) if is_write && self.withholds(tag) => return self.withhold(tag, answer),
            outcome => outcome,
        };
        let Some(task) = self.tasks.get_mut(tag) else {
            return;
        };
        trace.crossing(now, self.id, id, tag, Layer::Queue, Direction::Leave);
        trace.crossing(now, self.id, id, tag, Layer::Scsi, Direction::Leave);
        let extent = task.extent.take();
        self.completions.push_back(Completion {
            user: task.user,
            task: tag,
            transfer: std::mem::replace(&mut task.transfer, Transfer::None),
            outcome,
        });
        self.tasks.remove(tag);
        if let Some(extent) = extent {
            self.write_left(&extent, now, trace);
        }
    }

    fn r2t(&mut self, link: &mut Link, r2t: &R2t) -> Result<(), SessionError> {
        let Some(task) = self.tasks.on(link.id, r2t.task_tag)? else {
            return Ok(());
        };
        let bad = |problem| SessionError::BadR2t {
            task: r2t.task_tag.0,
            problem,
        };
        let end_bytes = r2t
            .buffer_offset
            .checked_add(r2t.desired_data_transfer_length);
        let Some(end_bytes) = end_bytes.filter(|end| *end <= task.transfer.len_bytes()) else {
            return Err(bad("exceeds the command's Expected Data Transfer Length"));
        };
        if link.recovers && !task.take_data_sn(link, r2t.r2t_sn)? {
            return Ok(()); // A resent duplicate.
        }
        if !matches!(task.transfer, Transfer::Write(_)) {
            return Err(bad("is for a command without Data-Out"));
        }
        // Forbidden (§11.8.4), and harmless: LIO requests a write's missing data again when it does not arrive in time,
        // with length 0 if the last of it arrived meanwhile.
        if r2t.desired_data_transfer_length == 0 {
            return Ok(());
        }
        if r2t.desired_data_transfer_length > self.parameters.max_burst_bytes {
            return Err(bad("exceeds MaxBurstLength"));
        }
        let solicited = task
            .bursts
            .iter()
            .filter(|burst| burst.transfer_tag.is_some())
            .count();
        if solicited >= usize::from(self.parameters.max_outstanding_r2t) {
            return Err(bad("exceeds MaxOutstandingR2T"));
        }
        if task.bursts.is_empty() {
            link.turns.push_back(r2t.task_tag);
        }
        task.bursts.push_back(Burst {
            transfer_tag: Some(r2t.transfer_tag),
            offset_bytes: r2t.buffer_offset,
            end_bytes,
            data_sn: 0,
        });
        Ok(())
    }

    fn nop_in(&mut self, link: &mut Link, pdu: &Pdu<'_>, now: Instant) -> Result<(), SessionError> {
        let nop = NopIn::parse(pdu.bhs)?;
        if nop.task_tag != RESERVED_TASK_TAG {
            if !link.take_status(nop.stat_sn)? {
                return Ok(());
            }
            if let Some(took) = link.liveness.answered(nop.task_tag, now) {
                self.carriage.pinged(link.id, took, now);
            }
            if self.requests.take(nop.task_tag) == Some(Request::Ping) {
                self.events.push_back(Event::Pong {
                    request: nop.task_tag,
                });
            }
        }
        if nop.transfer_tag == RESERVED_TAG {
            return Ok(());
        }
        // A ping from the target. Its answer waits for room like everything else, and a target that does not read its
        // answers must not make them accumulate here.
        if link.pongs.len() >= MAX_PONGS {
            return Err(SessionError::PingFlood);
        }
        let echoed = pdu
            .data
            .len()
            .min(link.parameters.max_send_data_bytes as usize);
        link.pongs.push_back(Pong {
            lun: nop.lun,
            transfer_tag: nop.transfer_tag,
            data: pdu.data[..echoed].to_vec(),
        });
        Ok(())
    }

    /// A task management function was answered: completes the tasks that it ended (§11.6.1).
    fn managed(
        &mut self,
        link: &mut Link,
        response: &TaskManagementResponse,
        now: Instant,
        trace: &mut Recorder,
    ) -> Result<(), SessionError> {
        let Some(request) = self.requests.take(response.task_tag) else {
            return Ok(());
        };
        if let Request::Reassign { referenced, .. } = request {
            return self.reassigned(link, referenced, response.response, now, trace);
        }
        if response.response == TaskManagementResult::Complete {
            self.end_managed(request, now, trace);
        }
        let result = response.response;
        self.events.push_back(Event::Managed {
            request: response.task_tag,
            result,
        });
        Ok(())
    }

    /// A Reject contains the header that it is about (§11.17); if that names a task, the task is over.
    fn reject(
        &mut self,
        link: &mut Link,
        pdu: &Pdu<'_>,
        now: Instant,
        trace: &mut Recorder,
    ) -> Result<(), SessionError> {
        let reject = Reject::parse(pdu.bhs)?;
        if !link.take_status(reject.stat_sn)? {
            return Ok(());
        }
        let about = pdu.data.first_chunk::<BHS_BYTES>();
        match (reject.reason, about) {
            (RejectReason::DataDigestError, Some(bhs)) if link.recovers => {
                return self.lost_at_target(link, bhs);
            }
            // Lost data cannot be recovered on this connection.
            (RejectReason::DataDigestError | RejectReason::SnackReject, _) => {
                return Err(SessionError::Damaged);
            }
            _ => {}
        }
        if let Some(tag) = pdu.data.get(16..20) {
            let tag = TaskTag(u32::from_be_bytes([tag[0], tag[1], tag[2], tag[3]]));
            self.requests.take(tag);
            if self.asking.take_if(|(asked, _)| *asked == tag).is_some() {
                self.events.push_back(Event::Targets(Vec::new()));
            }
            let error = TaskError::Rejected(reject.reason.to_wire());
            self.finish(tag, Err(error), now, trace);
        }
        Ok(())
    }

    fn async_message(
        &mut self,
        link: &mut Link,
        message: &AsyncMessage,
    ) -> Result<(), SessionError> {
        if !link.take_status(message.stat_sn)? {
            return Ok(());
        }
        match message.event {
            // Another connection's loss shows on that connection.
            AsyncEvent::DropConnection if message.parameter1 != link.id.0 => Ok(()),
            AsyncEvent::LogoutRequest => {
                link.leaving = Leaving::Wanted;
                Ok(())
            }
            AsyncEvent::DropConnection | AsyncEvent::DropAllConnections => {
                Err(SessionError::TargetLeft {
                    event: message.event.to_wire(),
                })
            }
            // Other events require no action here: a changed LUN shows as a unit attention, and no key is open to
            // renegotiation.
            _ => Ok(()),
        }
    }
}

impl Task {
    /// Records the first byte of the task's response.
    fn answer_began(
        &mut self,
        session: wansan_trace::SessionId,
        link: &Link,
        first_byte: Instant,
        trace: &mut Recorder,
    ) {
        if !self.answered {
            self.answered = true;
            let layer = Layer::Socket;
            trace.crossing(
                first_byte,
                session,
                link.id,
                self.tag,
                layer,
                Direction::Leave,
            );
        }
    }
}

/// The sense data in a SCSI Response's data segment: a length and that many bytes (§11.4.7.1).
fn sense_of(data: &[u8]) -> &[u8] {
    let Some((&[high, low], sense)) = data.split_first_chunk() else {
        return &[];
    };
    let length = usize::from(u16::from_be_bytes([high, low]));
    sense.get(..length).unwrap_or(sense)
}
