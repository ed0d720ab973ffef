//! The data of a write: unsolicited Data-Out, R2Ts and solicited Data-Out.

use std::collections::VecDeque;

use wansan_trace::{Instant, Recorder, TaskTag};

use super::connection::Link;
use super::error::Close;
use super::grants::Grant;
use super::session::{Core, Session, link_at};
use super::task::{Asked, Collecting, Progress, Refusal, Stage, Task};
use crate::keys::SessionParameters;
use crate::login::AnnouncedWindow;
use crate::scsi::{AdditionalSense, Sense, SenseKey, StoreOperation};
use crate::sequence::Sn;
use crate::wire::{BHS_BYTES, Bhs, DataOut, Lun, R2t, RESERVED_TAG, ScsiCommand};

impl Core {
    /// Takes a write's immediate data, after checking the command against the negotiated values and the available
    /// memory.
    pub(super) fn begin_write(
        &mut self,
        task: &mut Task,
        command: &ScsiCommand,
        data: &[u8],
    ) -> Result<(), Refusal> {
        let expected_bytes = command.expected_data_transfer_length;
        let block_bytes = self.config.device.units()[task.unit].geometry.block_bytes();
        let too_short = u64::from(expected_bytes) < task.presented_bytes();
        // If there is less data than the CDB's length, only that is transferred, and the rest is overflow (RFC 7143
        // §11.4.5.1); but a partial block cannot be written. Other commands decide themselves what to do with less.
        let is_write = matches!(task.operation, StoreOperation::Write { .. });
        let in_part =
            is_write && command.write && too_short && !expected_bytes.is_multiple_of(block_bytes);
        // A write with its expected data in the read direction would transfer nothing and yet succeed.
        let astray = !command.write && expected_bytes > 0;
        if in_part || astray {
            let additional = AdditionalSense::INVALID_FIELD_IN_INFORMATION_UNIT;
            return Err(Sense::illegal(additional).into());
        }
        let parameters = &self.parameters;
        let first_burst = parameters.first_burst_bytes.min(expected_bytes);
        let immediate_allowed = parameters.immediate_data && data.len() <= first_burst as usize;
        let unsolicited_allowed = command.final_ || !parameters.initial_r2t;
        if !data.is_empty() && !immediate_allowed || !unsolicited_allowed {
            let additional = AdditionalSense::UNEXPECTED_UNSOLICITED_DATA;
            return Err(Sense::new(SenseKey::AbortedCommand, additional).into());
        }
        let taken = &data[..data.len().min(task.moved_bytes as usize)];
        let unsolicited_bytes = if command.final_ {
            taken.len()
        } else {
            first_burst.min(task.moved_bytes) as usize
        };
        if !self.share.take(unsolicited_bytes) {
            return Err(Refusal::no_memory(self.tasks.len()));
        }
        task.charged_bytes = unsolicited_bytes;
        let mut buffer = Vec::with_capacity(unsolicited_bytes);
        buffer.extend_from_slice(taken);
        if command.final_ && taken.len() == task.moved_bytes as usize {
            task.stage = Stage::Ready(Progress {
                data: buffer,
                ..Progress::default()
            });
            return Ok(());
        }
        task.stage = Stage::Collecting(Box::new(Collecting {
            data: buffer,
            received_bytes: data.len() as u32,
            unsolicited_to: (!command.final_).then_some(first_burst),
            unsolicited_data_sn: 0,
            asked: VecDeque::new(),
            ask_from: 0,
            r2t_sn: 0,
            granted_bytes: 0,
            again: VecDeque::new(),
            unsolicited_lost: false,
        }));
        Ok(())
    }

    /// Takes one Data-Out PDU. One without a command is dropped: its task was aborted.
    pub(super) fn data_out(
        &mut self,
        place: usize,
        link: &mut Link,
        (bhs, data): (&Bhs, &[u8]),
        now: Instant,
        trace: &mut Recorder,
    ) -> Result<(), Close> {
        let data_out = DataOut::parse(bhs)?;
        let tag = data_out.task_tag;
        let Some(task) = self.tasks.get_mut(tag) else {
            let share = &mut self.share;
            return self.order.hold_data_out(place, tag, bhs, Some(data), share);
        };
        if task.place() != place && !matches!(task.stage, Stage::Aborted) {
            // §4.2.2.1, connection allegiance.
            return Err(Close::Protocol(
                "Data-Out on a connection other than its command's",
            ));
        }
        let lengths = (task.moved_bytes, task.expected_bytes);
        let rules = Rules::of(&self.parameters);
        match &mut task.stage {
            Stage::Collecting(collecting) => {
                match collecting.take(&data_out, data, lengths, rules) {
                    Ok(()) => self.continue_write(link, tag, now, trace),
                    Err(sense) => self.fail(link, tag, sense, now, trace),
                }
                Ok(())
            }
            Stage::Refused(_) => {
                if data_out.final_ && data_out.transfer_tag == RESERVED_TAG {
                    self.answer_refused(link, tag, now, trace);
                }
                Ok(())
            }
            Stage::Ready(_) | Stage::AtStore(_) | Stage::Fenced(_) if rules.recovers => Ok(()),
            Stage::Ready(_) | Stage::AtStore(_) | Stage::Fenced(_) => Err(Close::Protocol(
                "Data-Out for a command that already has all its data",
            )),
            Stage::Aborted => Ok(()),
        }
    }

    /// Requests missing data of a write, or passes it to the store when nothing is missing.
    pub(super) fn continue_write(
        &mut self,
        link: &mut Link,
        tag: TaskTag,
        now: Instant,
        trace: &mut Recorder,
    ) {
        let Some(task) = self.tasks.get_mut(tag) else {
            return;
        };
        let moved_bytes = task.moved_bytes;
        let Stage::Collecting(collecting) = &mut task.stage else {
            return;
        };
        if collecting.unsolicited_to.is_some() {
            return;
        }
        let have_bytes = collecting.data.len() as u32;
        let lacks = !collecting.asked.is_empty() || !collecting.again.is_empty();
        if have_bytes >= moved_bytes && !lacks {
            let progress = Progress {
                data: std::mem::take(&mut collecting.data),
                data_sn: collecting.r2t_sn,
                granted_bytes: collecting.granted_bytes,
                ..Progress::default()
            };
            task.stage = Stage::Ready(progress);
            self.ready(link, tag, now, trace);
            return;
        }
        if collecting.granted_bytes == 0 {
            let needed_bytes = moved_bytes - have_bytes;
            match self.grants.ask(tag, needed_bytes, &mut self.share) {
                Grant::Given => {}
                Grant::Waits => return,
                Grant::NoMemory => {
                    let refusal = Refusal::no_memory(self.tasks.len() - 1);
                    self.refuse(link, tag, &refusal, now, trace);
                    return;
                }
            }
            task.charged_bytes += needed_bytes as usize;
            collecting.granted_bytes = needed_bytes;
            collecting.ask_from = have_bytes;
            collecting.data.reserve_exact(needed_bytes as usize);
        }
        self.ask(link, tag, now, trace);
    }

    /// Sends as many R2Ts as may be outstanding, all at once.
    fn ask(&mut self, link: &mut Link, tag: TaskTag, now: Instant, trace: &mut Recorder) {
        let Some(task) = self.tasks.get_mut(tag) else {
            return;
        };
        let Stage::Collecting(collecting) = &mut task.stage else {
            return;
        };
        while collecting.asked.len() < usize::from(self.parameters.max_outstanding_r2t) {
            let wanted = match collecting.again.pop_front() {
                Some(lost) => {
                    link.meter.recovery_r2ts += 1;
                    lost
                }
                None if collecting.ask_from < task.moved_bytes => {
                    let from = collecting.ask_from;
                    let length = (task.moved_bytes - from).min(self.parameters.max_burst_bytes);
                    collecting.ask_from = from + length;
                    from..from + length
                }
                None => return,
            };
            let asked = Asked {
                transfer_tag: self.grants.take_transfer_tag(),
                next_bytes: wanted.start,
                end_bytes: wanted.end,
                data_sn: 0,
                r2t_sn: collecting.r2t_sn,
                lost: false,
            };
            let r2t = asked.r2t(task.lun, tag, link.stat_sn, self.order.announced());
            let mut bhs = [0; BHS_BYTES];
            r2t.emit(&mut bhs);
            link.push(&bhs, &[], now, trace);
            collecting.asked.push_back(asked);
            collecting.r2t_sn += 1;
        }
    }
}

impl Session {
    /// Continues writes that waited for room freed by others.
    pub(super) fn grant_waiting(&mut self, now: Instant, trace: &mut Recorder) {
        while let Some(tag) = self.core.grants.first_waiting() {
            let place = self.core.tasks.get(tag).map(Task::place);
            if let Some(place) = place
                && let Some(link) = link_at(&mut self.connections, place)
            {
                self.core.continue_write(link, tag, now, trace);
            }
            let task = self.core.tasks.get(tag);
            if let Some(Stage::Collecting(collecting)) = task.map(|task| &task.stage)
                && collecting.granted_bytes == 0
            {
                return;
            }
            self.core.grants.first_is_served();
        }
    }
}

/// The negotiated rules of Data-Out.
#[derive(Debug, Clone, Copy)]
struct Rules {
    /// DataSequenceInOrder (§13.19): sequences arrive in the order of their R2Ts.
    in_order: bool,
    /// Lost data is requested again (error recovery level 1 and up).
    recovers: bool,
}

impl Rules {
    fn of(parameters: &SessionParameters) -> Rules {
        Rules {
            in_order: parameters.data_sequence_in_order,
            recovers: parameters.error_recovery_level > 0,
        }
    }
}

impl Asked {
    /// The R2T of the sequence.
    pub(super) fn r2t(
        &self,
        lun: Lun,
        task_tag: TaskTag,
        stat_sn: Sn,
        window: AnnouncedWindow,
    ) -> R2t {
        R2t {
            lun,
            task_tag,
            transfer_tag: self.transfer_tag,
            stat_sn,
            exp_cmd_sn: window.exp_cmd_sn,
            max_cmd_sn: window.max_cmd_sn,
            r2t_sn: self.r2t_sn,
            buffer_offset: self.next_bytes,
            desired_data_transfer_length: self.end_bytes - self.next_bytes,
        }
    }
}

impl Collecting {
    /// Takes one PDU's data if it is valid now.
    fn take(
        &mut self,
        pdu: &DataOut,
        data: &[u8],
        (moved_bytes, expected_bytes): (u32, u32),
        rules: Rules,
    ) -> Result<(), Sense> {
        let aborted = |additional| Sense::new(SenseKey::AbortedCommand, additional);
        let length = data.len() as u32;
        if pdu.transfer_tag == RESERVED_TAG {
            let unexpected = aborted(AdditionalSense::UNEXPECTED_UNSOLICITED_DATA);
            let end = self.unsolicited_to.ok_or(unexpected)?;
            let is_next =
                pdu.buffer_offset == self.received_bytes && pdu.data_sn == self.unsolicited_data_sn;
            if self.unsolicited_lost || rules.recovers && !is_next {
                self.unsolicited_lost = true;
            } else if !is_next || length > end - self.received_bytes {
                return Err(unexpected);
            } else {
                self.unsolicited_data_sn += 1;
                self.received_bytes += length;
                let room = moved_bytes as usize - self.data.len();
                self.data.extend_from_slice(&data[..data.len().min(room)]);
            }
            if pdu.final_ {
                // A write longer than the first burst has all of it or none (§11.4.7.2).
                let is_short = self.received_bytes != end && !self.unsolicited_lost;
                if end < expected_bytes && is_short {
                    return Err(aborted(AdditionalSense::NOT_ENOUGH_UNSOLICITED_DATA));
                }
                self.unsolicited_to = None;
            }
            return Ok(());
        }
        let wrong = aborted(AdditionalSense::DATA_PHASE_ERROR);
        let known = |asked: &Asked| asked.transfer_tag == pdu.transfer_tag;
        let Some(place) = self.asked.iter().position(known) else {
            // Possibly an unnecessary retransmission.
            return if rules.recovers { Ok(()) } else { Err(wrong) };
        };
        let asked = &mut self.asked[place];
        let is_next = pdu.buffer_offset == asked.next_bytes && pdu.data_sn == asked.data_sn;
        if asked.lost || rules.recovers && !is_next {
            asked.lost = true;
        } else if !is_next
            || place > 0 && rules.in_order
            || length > asked.end_bytes - asked.next_bytes
        {
            return Err(wrong);
        } else {
            let at = asked.next_bytes as usize;
            asked.next_bytes += length;
            asked.data_sn += 1;
            if pdu.final_ && !rules.recovers && asked.next_bytes != asked.end_bytes {
                return Err(aborted(AdditionalSense::NOT_ENOUGH_UNSOLICITED_DATA));
            }
            self.put(at, data);
        }
        if pdu.final_ {
            self.end_sequence(place);
        }
        Ok(())
    }

    /// Copies solicited data to its offset, which is after that of earlier sequences even if those have not arrived
    /// yet.
    fn put(&mut self, at: usize, data: &[u8]) {
        if at > self.data.len() {
            self.data.resize(at, 0);
        }
        let over = (self.data.len() - at).min(data.len());
        self.data[at..at + over].copy_from_slice(&data[..over]);
        self.data.extend_from_slice(&data[over..]);
    }

    /// The last PDU of a sequence has arrived: missing data will be requested again.
    fn end_sequence(&mut self, place: usize) {
        if let Some(asked) = self.asked.remove(place)
            && asked.next_bytes < asked.end_bytes
        {
            self.again.push_back(asked.next_bytes..asked.end_bytes);
        }
    }

    /// A Data-Out PDU was lost, of which only the header is known: a recovery R2T will request its data at the end of
    /// its sequence (§7.8).
    pub(super) fn lose(&mut self, pdu: &DataOut) {
        if pdu.transfer_tag == RESERVED_TAG {
            self.unsolicited_lost = true;
            if pdu.final_ {
                self.unsolicited_to = None;
            }
            return;
        }
        let known = |asked: &Asked| asked.transfer_tag == pdu.transfer_tag;
        if let Some(place) = self.asked.iter().position(known) {
            self.asked[place].lost = true;
            if pdu.final_ {
                self.end_sequence(place);
            }
        }
    }

    /// Outstanding R2Ts will not be answered, because the task has moved to another connection: request all of their
    /// data again, from R2TSN `r2t_sn` on.
    pub(super) fn ask_again(&mut self, r2t_sn: u32) {
        self.unsolicited_to = None;
        for asked in std::mem::take(&mut self.asked) {
            self.again.push_back(asked.next_bytes..asked.end_bytes);
        }
        self.r2t_sn = r2t_sn;
    }
}
