//! What the stores are to do for a session, and what they have answered.

use std::sync::Arc;

use wansan_trace::{Direction, Instant, Layer, Recorder, TaskTag};

use super::session::{Core, Session, link_at};
use super::task::{Repeat, Stage, Task};
use crate::scsi::{Answer, MediumOperation, Sense, StoreOperation, Ticket};
use crate::wire::{BHS_BYTES, DataIn, RESERVED_TAG, Residual, ScsiStatus};

/// Work for the store of a logical unit. Its range lies inside the unit.
#[derive(Debug)]
pub enum Work {
    /// Read these bytes, then call [`Session::read_with`] or [`Session::read_done`].
    Read {
        /// The task.
        task: TaskTag,
        /// The unit's place in the device.
        unit: usize,
        /// First byte.
        offset_bytes: u64,
        /// Number of bytes; at most MaxBurstLength, so a long read comes in several pieces.
        len_bytes: usize,
    },
    /// Write these bytes, then call [`Session::status_done`].
    Write {
        /// The task.
        task: TaskTag,
        /// The unit's place in the device.
        unit: usize,
        /// First byte.
        offset_bytes: u64,
        /// The bytes.
        data: Vec<u8>,
        /// They must have reached the medium.
        fua: bool,
    },
    /// Bring what was written to the medium, then call [`Session::status_done`].
    Flush {
        /// The task.
        task: TaskTag,
        /// The unit's place in the device.
        unit: usize,
    },
    /// Do something else on the medium, then call [`Session::medium_done`].
    Medium {
        /// The task.
        task: TaskTag,
        /// The unit's place in the device.
        unit: usize,
        /// What.
        operation: Box<MediumOperation>,
        /// What it writes must have reached the medium.
        fua: bool,
    },
}

/// How much a session reads at once while the target's memory is used up.
const SHORT_READ_BYTES: u32 = 64 << 10;

impl Session {
    /// The next piece of work for a task of the connection at `place`. All but changes that others
    /// wait for waits while the connection has enough to send.
    pub fn poll_work(&mut self, place: usize, now: Instant, trace: &mut Recorder) -> Option<Work> {
        loop {
            self.refresh(now, trace);
            if !self.core.asks_stores(place) {
                return None;
            }
            let link = &mut self.connections.get_mut(place)?.as_mut()?.link;
            let at_store_bytes = self.core.places[place].at_store_bytes;
            link.settle(&mut self.core.share, at_store_bytes);
            let is_change = |tag| self.core.tasks.get(tag).is_some_and(Task::is_change);
            let goes_first = !link.is_lost() && link.ready.front().is_some_and(is_change);
            if !goes_first && !link.has_room(at_store_bytes) {
                return None;
            }
            let tag = link.ready.pop_front()?;
            // A task that was aborted while it waited is passed over.
            let Some(task) = self.core.tasks.get_mut(&tag) else {
                continue;
            };
            let Stage::Ready(progress) = &mut task.stage else {
                continue;
            };
            let unit = task.unit;
            let medium = progress.medium.as_deref();
            let device = &self.core.config.device;
            if let Err(answer) = device.recheck(unit, &task.operation, medium, &self.core.nexus) {
                self.core.answer_task(link, tag, &answer, now, trace);
                continue;
            }
            let others = medium.map(|operation| operation.other_units(unit));
            let others = others.unwrap_or_default();
            // Use the current value: WCE may have been cleared since the command came.
            let through = |unit| device.writes_through(unit, &self.core.nexus);
            let write_through = match medium {
                Some(operation) => operation.written_units(unit).into_iter().any(through),
                None => through(unit),
            };
            let Some(ticket) = self.core.nexus.enter(unit, &others) else {
                // Something has changed in this very moment: look again.
                link.ready.push_front(tag);
                continue;
            };
            let mut progress = std::mem::take(progress);
            let work = match task.operation {
                StoreOperation::Read { offset_bytes, .. } => {
                    progress.turn_back(&task.layout, task.moved_bytes);
                    let left = progress.until_bytes(task.moved_bytes) - progress.sent_bytes;
                    let mut piece = left.min(task.layout.left_in_burst(progress.sent_bytes));
                    let owed_bytes = at_store_bytes + piece as usize;
                    if !link.settle(&mut self.core.share, owed_bytes) {
                        if !link.has_room(at_store_bytes) {
                            task.stage = Stage::Ready(progress);
                            link.ready.push_front(tag);
                            self.core.nexus.leave(ticket);
                            return None;
                        }
                        piece = piece.min(if self.core.parameters.error_recovery_level > 0 {
                            // A DataSN must say where its PDU lies.
                            SHORT_READ_BYTES.next_multiple_of(task.layout.pdu_bytes)
                        } else {
                            SHORT_READ_BYTES
                        });
                    }
                    task.at_store_bytes = piece as usize;
                    self.core.places[place].at_store_bytes += piece as usize;
                    Work::Read {
                        task: tag,
                        unit,
                        offset_bytes: offset_bytes + u64::from(progress.sent_bytes),
                        len_bytes: piece as usize,
                    }
                }
                StoreOperation::Write {
                    offset_bytes, fua, ..
                } => {
                    let data = std::mem::take(&mut progress.data);
                    Work::Write {
                        task: tag,
                        unit,
                        offset_bytes,
                        data,
                        fua: fua || write_through,
                    }
                }
                StoreOperation::Flush { .. } => Work::Flush { task: tag, unit },
                StoreOperation::Deferred { .. } => {
                    // A deferred command is ready only when this is decided.
                    let Some(operation) = progress.medium.take() else {
                        self.core.nexus.leave(ticket);
                        continue;
                    };
                    if let MediumOperation::KeepReservations(change) = &*operation {
                        let change = Arc::clone(change);
                        progress.medium = Some(Box::new(MediumOperation::KeepReservations(change)));
                    }
                    Work::Medium {
                        task: tag,
                        unit,
                        operation,
                        fua: write_through,
                    }
                }
            };
            task.stage = Stage::AtStore(progress);
            task.ticket = Some(ticket);
            return Some(work);
        }
    }

    /// Answers a read by letting `read` fill the answer's own buffer, PDU by PDU: it is given the
    /// offset inside the piece and the place for the bytes, and says when the store had answered.
    /// The store was asked at `asked`. `read` may say `None`: gives `false` when it did for the first
    /// PDU, as nothing has happened then, and the piece must come by [`Session::read_done`]. At a
    /// later one the piece ends, and the rest of the read is asked for by [`Session::poll_work`].
    pub fn read_with(
        &mut self,
        task: TaskTag,
        len_bytes: usize,
        asked: Instant,
        trace: &mut Recorder,
        read: impl FnMut(usize, &mut [u8]) -> Option<Result<Instant, Sense>>,
    ) -> bool {
        self.refresh(asked, trace);
        let ticket = self.core.take_ticket(task);
        let done = self.read_into_answer(task, len_bytes, asked, trace, read);
        match (done, self.core.tasks.get_mut(&task)) {
            // The piece is to come by `read_done`.
            (false, Some(found)) => found.ticket = ticket,
            _ => self.core.leave_store(ticket),
        }
        done
    }

    fn read_into_answer(
        &mut self,
        task: TaskTag,
        len_bytes: usize,
        asked: Instant,
        trace: &mut Recorder,
        mut read: impl FnMut(usize, &mut [u8]) -> Option<Result<Instant, Sense>>,
    ) -> bool {
        let collapses = self.core.collapses();
        let Some(found) = self.core.tasks.get_mut(&task) else {
            return true;
        };
        if let Stage::Aborted = found.stage {
            return self.aborted_at_store(task, asked, trace);
        }
        let Some(link) = link_at(&mut self.connections, found.place) else {
            return true;
        };
        if link.is_lost() {
            // Nobody is there to take it: it is read again when the task has moved.
            self.core.set_aside(task);
            return true;
        }
        if let Stage::AtStore(progress) = &found.stage
            && progress.restart
        {
            self.core.restart(task);
            link.ready.push_back(task);
            return true;
        }
        let mut at = 0;
        let mut answered = asked;
        let (expected, actual) = (found.expected_bytes, found.presented_bytes());
        let layout = found.layout;
        // A piece of no bytes still has its status to send.
        while at < len_bytes
            && let Stage::AtStore(progress) = &mut found.stage
        {
            let length = (layout.pdu_bytes as usize).min(len_bytes - at);
            let sent_bytes = progress.sent_bytes + length as u32;
            let end = sent_bytes == found.moved_bytes;
            let last = end && collapses;
            let data_in = DataIn {
                final_: end || layout.left_in_burst(sent_bytes) == layout.burst_bytes,
                acknowledge: false,
                status: last.then_some(ScsiStatus::Good),
                residual: if last {
                    Residual::of(expected, actual)
                } else {
                    Residual::None
                },
                lun: found.lun,
                task_tag: task,
                transfer_tag: RESERVED_TAG,
                stat_sn: link.stat_sn,
                // The slot is free as soon as this PDU has its status.
                exp_cmd_sn: self.core.window.exp_cmd_sn(),
                max_cmd_sn: self.core.window.max_cmd_sn_after(last && found.holds_slot),
                data_sn: progress.data_sn,
                buffer_offset: progress.sent_bytes,
            };
            let mut bhs = [0; BHS_BYTES];
            data_in.emit(&mut bhs);
            let stream_offset = link.transmitter.queued_end();
            let mut outcome = None;
            link.transmitter.push_if(&bhs, length, |space| {
                outcome = read(at, space);
                matches!(outcome, Some(Ok(_)))
            });
            match outcome {
                None if at == 0 => return false,
                // What was read so far has been queued: the rest is a piece of its own.
                None => break,
                Some(Err(sense)) => {
                    self.store_failed(task, sense, (asked, answered), trace);
                    return true;
                }
                Some(Ok(when)) => answered = when,
            }
            progress.sent_bytes = sent_bytes;
            progress.data_sn += 1;
            link.record(&bhs, length, stream_offset, answered, trace);
            at += length;
        }
        self.piece_done(task, (asked, answered), trace);
        true
    }

    /// Answers a read with the piece's bytes, or with the sense data of an error. The store was
    /// asked and had answered at these two times.
    pub fn read_done(
        &mut self,
        task: TaskTag,
        piece: Result<&[u8], Sense>,
        (asked, answered): (Instant, Instant),
        trace: &mut Recorder,
    ) {
        match piece {
            Ok(data) => {
                self.read_with(task, data.len(), asked, trace, |at, space| {
                    space.copy_from_slice(&data[at..at + space.len()]);
                    Some(Ok(answered))
                });
            }
            Err(sense) => {
                self.store_answered(task, answered, trace);
                self.store_failed(task, sense, (asked, answered), trace);
            }
        }
    }

    /// A piece of a read is queued for sending: ends the task or goes on with the next piece.
    fn piece_done(
        &mut self,
        task: TaskTag,
        (asked, now): (Instant, Instant),
        trace: &mut Recorder,
    ) {
        self.store_asked(task, asked, trace);
        let collapses = self.core.collapses();
        let Some(found) = self.core.tasks.get_mut(&task) else {
            return;
        };
        let Stage::AtStore(progress) = &mut found.stage else {
            return;
        };
        let place = found.place;
        let Some(link) = link_at(&mut self.connections, place) else {
            return;
        };
        if progress.turn_forth(found.moved_bytes) {
            let progress = std::mem::take(progress);
            found.stage = Stage::Ready(progress);
            self.core.places[place].at_store_bytes -= std::mem::take(&mut found.at_store_bytes);
            // Behind the others: a long read does not keep short ones waiting.
            link.ready.push_back(task);
            return;
        }
        if let Repeat::Data(told) = &found.repeat {
            let told = **told;
            self.core.repeated(task, told);
            return;
        }
        let (id, session) = (link.id, self.core.id);
        if let Repeat::No = found.repeat {
            trace.crossing(now, session, id, task, Layer::Store, Direction::Leave);
        }
        if progress.sent_bytes == 0 || !collapses {
            // Nothing to send but the status.
            let residual = Residual::of(found.expected_bytes, found.presented_bytes());
            self.core
                .conclude(link, task, ScsiStatus::Good, None, residual, now, trace);
            return;
        }
        link.take_stat_sn();
        trace.crossing(now, session, id, task, Layer::Device, Direction::Leave);
        trace.crossing(now, session, id, task, Layer::Target, Direction::Leave);
        if let Some(ended) = self.core.end(task) {
            self.core.count(&ended, ScsiStatus::Good, now);
        }
    }

    /// The store has answered a write or a flush; it was asked and had answered at these times.
    pub fn status_done(
        &mut self,
        task: TaskTag,
        result: Result<(), Sense>,
        (asked, answered): (Instant, Instant),
        trace: &mut Recorder,
    ) {
        self.store_answered(task, answered, trace);
        if let Err(sense) = result {
            self.store_failed(task, sense, (asked, answered), trace);
            return;
        }
        if self.aborted_at_store(task, answered, trace) {
            return;
        }
        self.store_asked(task, asked, trace);
        let Some(found) = self.core.tasks.get(&task) else {
            return;
        };
        let residual = Residual::of(found.expected_bytes, found.presented_bytes());
        let Some(link) = link_at(&mut self.connections, found.place) else {
            return;
        };
        trace.crossing(
            answered,
            self.core.id,
            link.id,
            task,
            Layer::Store,
            Direction::Leave,
        );
        self.core.conclude(
            link,
            task,
            ScsiStatus::Good,
            None,
            residual,
            answered,
            trace,
        );
        self.go_on(answered, trace);
    }

    /// The store has done what [`Work::Medium`] says, and gives the Data-In of the answer; it was
    /// asked and had answered at these times.
    pub fn medium_done(
        &mut self,
        task: TaskTag,
        result: Result<Vec<u8>, Sense>,
        (asked, answered): (Instant, Instant),
        trace: &mut Recorder,
    ) {
        self.store_answered(task, answered, trace);
        let data = match result {
            Ok(data) => data,
            Err(sense) => {
                self.store_failed(task, sense, (asked, answered), trace);
                return;
            }
        };
        if self.aborted_at_store(task, answered, trace) {
            return;
        }
        self.store_asked(task, asked, trace);
        let Some(found) = self.core.tasks.get_mut(&task) else {
            return;
        };
        let fence = found.take_fence();
        let Some(link) = link_at(&mut self.connections, found.place) else {
            return;
        };
        trace.crossing(
            answered,
            self.core.id,
            link.id,
            task,
            Layer::Store,
            Direction::Leave,
        );
        let answer = Answer::good(data);
        match fence {
            Some(fence) => self.core.wait_for(task, fence, Some(answer)),
            None => self.core.answer_task(link, task, &answer, answered, trace),
        }
        self.go_on(answered, trace);
    }

    /// Notes that the store is done with a task, which others may have aborted meanwhile.
    fn store_answered(&mut self, task: TaskTag, answered: Instant, trace: &mut Recorder) {
        self.refresh(answered, trace);
        let ticket = self.core.take_ticket(task);
        self.core.leave_store(ticket);
    }

    fn store_failed(
        &mut self,
        task: TaskTag,
        sense: Sense,
        (asked, answered): (Instant, Instant),
        trace: &mut Recorder,
    ) {
        if self.aborted_at_store(task, answered, trace) {
            return;
        }
        self.store_asked(task, asked, trace);
        let Some(found) = self.core.tasks.get(&task) else {
            return;
        };
        if let Repeat::Data(told) = &found.repeat {
            let told = **told;
            // It has ended well once; the initiator will miss the data and ask again.
            self.core.repeated(task, told);
            return;
        }
        let Some(link) = link_at(&mut self.connections, found.place) else {
            return;
        };
        trace.crossing(
            answered,
            self.core.id,
            link.id,
            task,
            Layer::Store,
            Direction::Leave,
        );
        self.core.fail(link, task, sense, answered, trace);
        self.go_on(answered, trace);
    }

    /// Resumes work that waited for a finished task: functions, logouts, and writes that wait for
    /// room.
    fn go_on(&mut self, now: Instant, trace: &mut Recorder) {
        if self.core.management.is_empty() {
            self.grant_waiting(now, trace);
        } else {
            self.management_done(now, trace);
        }
    }

    /// Records that the store was asked, once per task.
    fn store_asked(&mut self, task: TaskTag, asked: Instant, trace: &mut Recorder) {
        let Some(found) = self.core.tasks.get_mut(&task) else {
            return;
        };
        let Stage::AtStore(progress) = &mut found.stage else {
            return;
        };
        if !progress.store_entered {
            progress.store_entered = true;
            let (id, layer) = (found.connection, Layer::Store);
            trace.crossing(asked, self.core.id, id, task, layer, Direction::Enter);
        }
    }

    /// Whether the task was ended while the store was at work on it; then it is gone now.
    fn aborted_at_store(&mut self, task: TaskTag, answered: Instant, trace: &mut Recorder) -> bool {
        let aborted = self
            .core
            .tasks
            .get(&task)
            .is_some_and(|task| matches!(task.stage, Stage::Aborted));
        if aborted {
            let was_closed = self.core.window.is_closed();
            self.core.end_silently(task, answered, trace);
            self.core.left_behind.retain(|left| *left != task);
            self.management_done(answered, trace);
            self.announce_window(was_closed, answered, trace);
        }
        aborted
    }
}

impl Core {
    fn take_ticket(&mut self, task: TaskTag) -> Option<Ticket> {
        self.tasks.get_mut(&task)?.ticket.take()
    }

    fn leave_store(&mut self, ticket: Option<Ticket>) {
        if let Some(ticket) = ticket {
            self.nexus.leave(ticket);
        }
    }

    /// Ends a task without an answer.
    pub(super) fn end_silently(&mut self, tag: TaskTag, now: Instant, trace: &mut Recorder) {
        let Some(task) = self.end(tag) else { return };
        let at_store = match &task.stage {
            Stage::Ready(progress) | Stage::AtStore(progress) => progress.store_entered,
            Stage::Collecting(_) | Stage::Refused(_) | Stage::Aborted | Stage::Fenced(_) => false,
        };
        let left = [
            (Layer::Store, at_store),
            (Layer::Device, task.stage.reached_device()),
            (Layer::Target, true),
        ];
        for (layer, _) in left.into_iter().filter(|(_, entered)| *entered) {
            trace.crossing(now, self.id, task.connection, tag, layer, Direction::Leave);
        }
    }
}
