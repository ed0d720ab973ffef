//! What the target receives.

use wansan_trace::event::PduDirection;
use wansan_trace::{Direction, Instant, Layer, Recorder, TaskTag};

use super::connection::Link;
use super::error::Close;
use super::layout::Layout;
use super::session::Core;
use super::task::{Progress, Refusal, Repeat, Stage, Task};
use super::window::Admission;
use crate::keys::Key;
use crate::record::pdu_record;
use crate::scsi::{Answer, Decoded, Executed, Sense, StoreOperation};
use crate::text::exchange::{Message, Turn};
use crate::text::send_targets::{Asked, push_record};
use crate::wire::{
    Bhs, FrameError, Lun, NopOut, Opcode, Pdu, RESERVED_TASK_TAG, RejectReason, ScsiCommand,
    ScsiStatus, TaskManagementRequest, TextRequest,
};

/// A command that waits for those before it.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) place: usize,
    pub(super) bhs: Bhs,
    pub(super) data: Vec<u8>,
    /// The unsolicited Data-Out that has followed it, which comes on the connection of the command
    /// however long that has to wait (§4.2.2.1); of a PDU that was lost there is only the header.
    pub(super) data_out: Vec<(Bhs, Option<Vec<u8>>)>,
}

/// PDUs behind a gap in CmdSN, and their data.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct HeldLoad {
    pub(super) pdus: usize,
    pub(super) data_bytes: usize,
}

impl HeldLoad {
    const fn pdu(data_bytes: usize) -> HeldLoad {
        HeldLoad {
            pdus: 1,
            data_bytes,
        }
    }

    /// What it takes of the session's share of memory.
    const fn charged_bytes(self) -> usize {
        self.pdus * size_of::<Held>() + self.data_bytes
    }

    fn add(&mut self, other: HeldLoad) {
        self.pdus += other.pdus;
        self.data_bytes += other.data_bytes;
    }

    fn subtract(&mut self, other: HeldLoad) {
        self.pdus -= other.pdus;
        self.data_bytes -= other.data_bytes;
    }
}

/// The shortest data segment that an end may limit the other to (RFC 7143 §13.12).
const MIN_MAX_RECV_DATA_BYTES: usize = 512;

impl Held {
    fn load(&self) -> HeldLoad {
        let mut load = HeldLoad::pdu(self.data.len());
        for (_, data) in &self.data_out {
            load.add(HeldLoad::pdu(data.as_ref().map_or(0, Vec::len)));
        }
        load
    }

    /// Whether it is the SCSI command of that task, with unsolicited data to follow.
    fn is_write(&self, tag: TaskTag) -> bool {
        ScsiCommand::parse(&self.bhs)
            .is_ok_and(|command| command.task_tag == tag && command.write && !command.final_)
    }

    /// Whether it is a SCSI command for that unit, or for any when there is none.
    pub(super) fn is_for(&self, lun: Option<Lun>) -> bool {
        ScsiCommand::parse(&self.bhs).is_ok_and(|command| lun.is_none_or(|lun| command.lun == lun))
    }
}

/// Immediate requests hold no window slot, so they have a bound of their own; RFC 7143 §11.2.1.1
/// asks for at least two per connection.
const MAX_IMMEDIATE: usize = 32;

impl Core {
    /// Handles one PDU: finds out whether it may be delivered now.
    pub(super) fn incoming(
        &mut self,
        place: usize,
        link: &mut Link,
        pdu: &Pdu<'_>,
        now: Instant,
        trace: &mut Recorder,
    ) -> Result<(), Close> {
        link.pinged = false;
        if trace.pdu.is_kept() {
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
        self.acknowledge(link, pdu.exp_stat_sn());
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
                match self.window.admit(pdu.cmd_sn()) {
                    Admission::Deliver => {
                        self.held.advance();
                        self.count_delivered(false);
                        self.deliver(place, link, pdu.bhs, pdu.data, now, trace)
                    }
                    Admission::Hold(ahead) if self.held.has(ahead) => Ok(()),
                    Admission::Hold(ahead) => {
                        self.charge_held(pdu.data.len())?;
                        let held = Held {
                            place,
                            bhs: *pdu.bhs,
                            data: pdu.data.to_vec(),
                            data_out: Vec::new(),
                        };
                        self.held.put(ahead, held);
                        self.count_held();
                        Ok(())
                    }
                    Admission::Ignore => Ok(()),
                }
            }
            Opcode::Snack => self.snack(link, pdu.bhs, now, trace),
            Opcode::LoginRequest => {
                self.reject(link, RejectReason::ProtocolError, pdu.bhs, now, trace);
                Err(out_of_state(
                    pdu.bhs,
                    "belongs to the login phase, which is over",
                ))
            }
            _ => {
                self.reject(link, RejectReason::CommandNotSupported, pdu.bhs, now, trace);
                Err(out_of_state(pdu.bhs, "is not an initiator's PDU"))
            }
        }
    }

    /// Keeps a Data-Out PDU of `tag` whose command is held; `data` is `None` when it was lost. One
    /// that belongs to no command is let go: its task was aborted.
    pub(super) fn hold_data_out(
        &mut self,
        place: usize,
        tag: TaskTag,
        bhs: &Bhs,
        data: Option<&[u8]>,
    ) -> Result<(), Close> {
        let is_its = |held: &Held| held.place == place && held.is_write(tag);
        if self.held.newest(is_its).is_none() {
            return Ok(());
        }
        self.charge_held(data.map_or(0, <[u8]>::len))?;
        if let Some(held) = self.held.newest(is_its) {
            held.data_out.push((*bhs, data.map(<[u8]>::to_vec)));
        }
        Ok(())
    }

    /// Charges memory for a PDU with so much data that is to wait behind a gap in CmdSN. The bounds
    /// are what the whole command window may bring unsolicited: FirstBurstLength for each command,
    /// in PDUs as short as the shortest MaxRecvDataSegmentLength.
    fn charge_held(&mut self, data_bytes: usize) -> Result<(), Close> {
        let mut load = self.held_load;
        load.add(HeldLoad::pdu(data_bytes));
        if load.data_bytes > self.config.unsolicited_bytes as usize {
            return Err(Close::Protocol(
                "it sent too much data ahead of a gap in CmdSN",
            ));
        }
        let first_burst_bytes = self.parameters.first_burst_bytes as usize;
        let pdus_per_command = 1 + first_burst_bytes.div_ceil(MIN_MAX_RECV_DATA_BYTES);
        if load.pdus > self.window.size() as usize * pdus_per_command {
            return Err(Close::Protocol(
                "it sent too many PDUs ahead of a gap in CmdSN",
            ));
        }
        if !self.share.take(HeldLoad::pdu(data_bytes).charged_bytes()) {
            return Err(Close::NoMemory);
        }
        self.held_load = load;
        Ok(())
    }

    /// The next command in CmdSN order, if it is held.
    pub(super) fn take_held(&mut self) -> Option<Held> {
        if self.held.is_empty() {
            return None;
        }
        self.pass_received();
        let held = self.held.take()?;
        // What is held lies inside the window, and the window never shrinks.
        self.window.admit(self.window.exp_cmd_sn());
        self.count_delivered(false);
        self.let_go(&held);
        Some(held)
    }

    /// A command that was held is held no longer.
    pub(super) fn let_go(&mut self, held: &Held) {
        self.held_load.subtract(held.load());
        self.share.give(held.load().charged_bytes());
    }

    /// Moves on past commands that count as received without having come.
    pub(super) fn pass_received(&mut self) {
        while self.held.pass() {
            self.window.admit(self.window.exp_cmd_sn());
            self.window.release();
        }
    }

    /// Handles a PDU that was lost to a digest error or is too long.
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
                if self.recovers() {
                    return self.data_lost(place, link, bhs, now, trace);
                }
            }
            FrameError::DataSegmentTooLong { bhs, .. } => {
                let reason = RejectReason::InvalidPduField;
                self.reject(link, reason, bhs, now, trace);
            }
            FrameError::HeaderDigest { .. } => {}
        }
        // At error recovery level 0 lost data cannot be asked for again, and a lost command would
        // leave a gap in CmdSN for ever. After a bad header nothing tells where the next PDU begins
        // (§7.8), at any level.
        Err(error.into())
    }

    /// Handles a request that was held, and the data that has come behind it.
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
                "has no place in a discovery session (§4.3)",
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
        if self.is_taken_along(&command) {
            self.release(true);
            return Ok(());
        }
        let same = self.tasks.get(&tag).map(|task| &task.stage);
        if let Some(Stage::Aborted) = same {
            // The initiator knows that its task has ended; only the store does not yet.
            let busy = Answer::from(ScsiStatus::Busy);
            self.answer_at_once(place, link, &command, &busy, now, trace);
            return Ok(());
        }
        if same.is_some() || tag == RESERVED_TASK_TAG {
            // Its slot is free before the answer says so, or a window of 1 would stay closed.
            self.release(!command.immediate);
            self.reject(link, RejectReason::TaskInProgress, bhs, now, trace);
            return Ok(());
        }
        // The initiator may use a tag again as soon as it has the answer (§11.2.1.8).
        self.answered.remove(&tag);
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
            self.tasks.insert(tag, task);
            self.ready(link, tag, now, trace);
            return Ok(());
        }
        let begun = self.begin_write(&mut task, &command, data);
        let refused = begun.is_err();
        if let Err(refusal) = begun {
            task.stage = Stage::Refused(refusal);
        }
        let has_all = matches!(task.stage, Stage::Ready(_));
        self.tasks.insert(tag, task);
        if has_all {
            self.ready(link, tag, now, trace);
        } else if !refused {
            self.continue_write(link, tag, now, trace);
        } else if command.final_ {
            self.answer_refused(link, tag, now, trace);
        }
        Ok(())
    }

    /// Answers a command that its CDB alone has decided: at once, or when its fence is down.
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
            // Unsolicited data follows and is discarded before the answer.
            task.stage = Stage::Refused(match answer.status {
                ScsiStatus::Good => Sense::NONE.into(),
                status => Refusal {
                    status,
                    sense: answer.sense,
                },
            });
            self.tasks.insert(tag, task);
            return;
        }
        trace.crossing(now, self.id, link.id, tag, Layer::Device, Direction::Enter);
        self.tasks.insert(tag, task);
        self.wait_for(tag, fence, Some(answer));
    }

    /// Gives a task that has all its data to the device server.
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

    /// Queues a task for the store. A change that others wait for goes first, as they get BUSY until
    /// it is over.
    pub(super) fn queue(&self, link: &mut Link, tag: TaskTag) {
        match self.tasks.get(&tag) {
            Some(task) if task.is_change() => link.ready.push_front(tag),
            _ => link.ready.push_back(tag),
        }
    }

    /// Decides what a deferred command comes to, now that all its data is there. Gives its answer
    /// when no store has to work for it.
    fn execute(&mut self, tag: TaskTag) -> Option<Answer> {
        let task = self.tasks.get_mut(&tag)?;
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
        self.release(!nop.immediate);
        // Without a task tag it answers a ping of ours, or just tells ExpStatSN (§11.18).
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
        self.release(!request.immediate);
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

    /// The answer to a text: SendTargets, and for other keys that none may be changed now, or that
    /// they mean nothing here (§6.2).
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

    /// Gives a window slot back if the request held one.
    pub(super) fn release(&mut self, held_slot: bool) {
        if held_slot {
            self.window.release();
        }
    }

    /// Tasks that may exist at once: those of the window and the immediate ones.
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

impl Task {
    pub(super) fn new(
        place: usize,
        link: &Link,
        command: &ScsiCommand,
        (unit, operation): (usize, StoreOperation),
        moved_bytes: u32,
        layout: Layout,
        now: Instant,
    ) -> Task {
        Task {
            tag: command.task_tag,
            lun: command.lun,
            place,
            connection: link.id,
            cmd_sn: command.cmd_sn,
            holds_slot: !command.immediate,
            expected_bytes: command.expected_data_transfer_length,
            takes_data: command.read,
            began: now,
            unit,
            operation,
            moved_bytes,
            charged_bytes: 0,
            at_store_bytes: 0,
            layout,
            snack_tag: 0,
            repeat: Repeat::No,
            ticket: None,
            stage: Stage::Ready(Progress::default()),
        }
    }
}

fn out_of_state(bhs: &Bhs, why: &'static str) -> Close {
    Close::OutOfState {
        opcode: bhs[0] & 0x3f,
        why,
    }
}
