//! Store operations of a session, and their completions.

use std::sync::Arc;

use wansan_trace::{Direction, Instant, Layer, Recorder, TaskTag};

use super::connection::Link;
use super::data_in::{DataInStream, InData};
use super::session::{Core, Session, link_at};
use super::task::{Repeat, Stage, Task};
use crate::scsi::{Answer, MediumOperation, Sense, StoreOperation};
use crate::wire::{Residual, ScsiStatus};

/// An operation for the store of a logical unit, to be completed once. Its range is inside the unit.
#[derive(Debug)]
pub enum Work {
    /// Read these bytes. Bytes available at once may be written into [`Session::read_space`]; the
    /// rest, if any, goes to [`Session::complete`].
    Read {
        /// The task.
        task: TaskTag,
        /// The unit's index in the device.
        unit: usize,
        /// First byte.
        offset_bytes: u64,
        /// Number of bytes, at least 1; at most MaxBurstLength, so a long read is split.
        len_bytes: usize,
    },
    /// Write these bytes.
    Write {
        /// The task.
        task: TaskTag,
        /// The unit's index in the device.
        unit: usize,
        /// First byte.
        offset_bytes: u64,
        /// The bytes.
        data: Vec<u8>,
        /// Force unit access: the bytes must be on the medium before completion.
        fua: bool,
    },
    /// Flush written data to the medium.
    Flush {
        /// The task.
        task: TaskTag,
        /// The unit's index in the device.
        unit: usize,
    },
    /// Perform another operation on the medium.
    Medium {
        /// The task.
        task: TaskTag,
        /// The unit's index in the device.
        unit: usize,
        /// The operation.
        operation: Box<MediumOperation>,
        /// Force unit access: written data must be on the medium before completion.
        fua: bool,
    },
}

impl Work {
    /// The task that it is of.
    #[must_use]
    pub fn task(&self) -> TaskTag {
        match self {
            Work::Read { task, .. }
            | Work::Write { task, .. }
            | Work::Flush { task, .. }
            | Work::Medium { task, .. } => *task,
        }
    }
}

/// The result of completed work.
#[derive(Debug)]
pub enum Done<'a> {
    /// The bytes of a [`Work::Read`] not written into a [`ReadSpace`].
    Read(&'a [u8]),
    /// None: of a [`Work::Write`] or a [`Work::Flush`].
    Status,
    /// The Data-In of a [`Work::Medium`].
    Medium(Vec<u8>),
}

/// Bytes of one read while the target's memory is used up.
const SHORT_READ_BYTES: u32 = 64 << 10;

impl Session {
    /// The next store operation of a task of the connection at `place`. `None` while the connection has enough to send,
    /// except for changes that other sessions wait for.
    pub fn poll_work(&mut self, place: usize, now: Instant, trace: &mut Recorder) -> Option<Work> {
        loop {
            self.refresh(now, trace);
            if !self.core.asks_stores(place) {
                return None;
            }
            let link = &mut self.connections.get_mut(place)?.as_mut()?.link;
            let at_store_bytes = self.core.tasks.at_store_bytes(place);
            link.settle(&mut self.core.share, at_store_bytes);
            let is_change = |tag: &TaskTag| self.core.tasks.get(*tag).is_some_and(Task::is_change);
            let goes_first = !link.is_lost() && link.ready.front().is_some_and(is_change);
            if !goes_first && !link.has_room(at_store_bytes) {
                return None;
            }
            let tag = link.ready.pop_front()?;
            // A task aborted while it waited is skipped.
            let Some(mut entry) = self.core.tasks.entry(tag) else {
                continue;
            };
            let task = &mut *entry.task;
            let Stage::Ready(progress) = &mut task.stage else {
                continue;
            };
            let unit = task.unit;
            let medium = progress.medium.as_deref();
            let device = &self.core.config.device;
            if let Err(answer) = device.recheck(unit, &task.operation, medium, &self.core.nexus) {
                match task.repeat {
                    Repeat::Data(_) => self.core.repeated(link, tag),
                    Repeat::No | Repeat::All => {
                        self.core.answer_task(link, tag, &answer, now, trace);
                    }
                }
                continue;
            }
            let others = medium.map(|operation| operation.other_units(unit));
            let others = others.unwrap_or_default();
            // Use the current value: WCE may have been cleared since the command arrived.
            let through = |unit| device.writes_through(unit, &self.core.nexus);
            let write_through = match medium {
                Some(operation) => operation.written_units(unit).into_iter().any(through),
                None => through(unit),
            };
            let Some(ticket) = self.core.nexus.enter(unit, &others) else {
                // The state has just changed: check again.
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
                            // A DataSN must determine the offset of its PDU.
                            SHORT_READ_BYTES.next_multiple_of(task.layout.pdu_bytes)
                        } else {
                            SHORT_READ_BYTES
                        });
                    }
                    let offset_bytes = offset_bytes + u64::from(progress.sent_bytes);
                    let len_bytes = piece as usize;
                    entry.ask_store(progress, ticket, len_bytes);
                    if piece == 0 {
                        // Only the status is left to send.
                        self.core.store_asked(tag, now, trace);
                        self.core.piece_done(link, tag, None, now, trace);
                        continue;
                    }
                    return Some(Work::Read {
                        task: tag,
                        unit,
                        offset_bytes,
                        len_bytes,
                    });
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
            entry.ask_store(progress, ticket, 0);
            return Some(work);
        }
    }

    /// Space in the send buffer for the data of a read's next Data-In, so that a store that completes at once needs no
    /// buffer: it writes into [`ReadSpace::bytes`], then [`ReadSpace::filled`] queues the PDU, and the next space takes
    /// the following bytes. Bytes that are not available at once go to [`Session::complete`].
    ///
    /// `None` if all of [`Work::Read`] has been filled, or if it must be completed by
    /// [`Session::complete`]: the task was aborted, or its connection is lost.
    pub fn read_space(
        &mut self,
        task: TaskTag,
        asked: Instant,
        trace: &mut Recorder,
    ) -> Option<ReadSpace<'_>> {
        self.refresh(asked, trace);
        let Session { core, connections } = self;
        let found = core.tasks.get(task)?;
        let Stage::AtStore(progress) = &found.stage else {
            return None;
        };
        if progress.restart || found.at_store_bytes() == 0 {
            return None;
        }
        let link = link_at(connections, found.place())?;
        if link.is_lost() {
            return None;
        }
        let len_bytes = found.next_segment(progress).len_bytes as usize;
        Some(ReadSpace {
            core,
            link,
            task,
            len_bytes,
        })
    }

    /// Completes an operation, or fails it with sense data. The times are those of its start and its completion at the
    /// store.
    pub fn complete(
        &mut self,
        task: TaskTag,
        result: Result<Done<'_>, Sense>,
        (asked, answered): (Instant, Instant),
        trace: &mut Recorder,
    ) {
        self.refresh(answered, trace);
        let Session { core, connections } = self;
        core.leave_store(task);
        let Some(found) = core.tasks.get(task) else {
            return;
        };
        if let Stage::Aborted = found.stage {
            self.aborted_left_store(task, answered, trace);
            return;
        }
        let Some(link) = link_at(connections, found.place()) else {
            return;
        };
        if let Ok(Done::Read(data)) = result {
            core.read_completed(link, task, data, (asked, answered), trace);
            return;
        }
        core.store_asked(task, asked, trace);
        let Some(found) = core.tasks.get(task) else {
            return;
        };
        if let (Err(_), Repeat::Data(_)) = (&result, &found.repeat) {
            // It has succeeded once; the initiator will notice the missing data and request it again.
            core.repeated(link, task);
            return;
        }
        let residual = Residual::of(found.expected_bytes, found.presented_bytes());
        let (id, layer) = (link.id, Layer::Store);
        trace.crossing(answered, core.id, id, task, layer, Direction::Leave);
        match result {
            Ok(Done::Read(_) | Done::Status) => {
                let status = ScsiStatus::Good;
                core.conclude(link, task, status, None, residual, answered, trace);
            }
            Ok(Done::Medium(data)) => {
                let answer = Answer::good(data);
                match core.tasks.get_mut(task).and_then(Task::take_fence) {
                    Some(fence) => core.wait_for(task, fence, Some(answer)),
                    None => core.answer_task(link, task, &answer, answered, trace),
                }
            }
            Err(sense) => core.fail(link, task, sense, answered, trace),
        }
        self.go_on(answered, trace);
    }

    /// Resumes work that waited for a completed task: functions, logouts, and writes that wait for room.
    fn go_on(&mut self, now: Instant, trace: &mut Recorder) {
        if self.core.functions.is_empty() {
            self.grant_waiting(now, trace);
        } else {
            self.management_done(now, trace);
        }
    }

    /// The store has completed the operation of a task that was ended meanwhile: it is gone now.
    fn aborted_left_store(&mut self, task: TaskTag, answered: Instant, trace: &mut Recorder) {
        let was_closed = self.core.order.is_closed();
        self.core.end_silently(task, answered, trace);
        self.core.gate.answered(task);
        self.management_done(answered, trace);
        self.announce_window(was_closed, answered, trace);
    }
}

/// Space for the data of one Data-In in the send buffer ([`Session::read_space`]). Dropping it
/// queues nothing.
#[derive(Debug)]
pub struct ReadSpace<'a> {
    core: &'a mut Core,
    link: &'a mut Link,
    task: TaskTag,
    len_bytes: usize,
}

impl ReadSpace<'_> {
    /// Where the store writes the data; the content is undefined.
    pub fn bytes(&mut self) -> &mut [u8] {
        self.link.transmitter.data_space(self.len_bytes)
    }

    /// Queues the Data-In, whose bytes have all been written, with the status in the last one. The times are those of
    /// the operation's start and completion at the store.
    pub fn filled(self, times: (Instant, Instant), trace: &mut Recorder) {
        let ReadSpace {
            core, link, task, ..
        } = self;
        core.segment_filled(link, task, times, trace);
    }
}

impl Core {
    /// A store returns the outstanding bytes of a read.
    fn read_completed(
        &mut self,
        link: &mut Link,
        tag: TaskTag,
        mut data: &[u8],
        times: (Instant, Instant),
        trace: &mut Recorder,
    ) {
        if link.is_lost() {
            // The connection is gone: it is read again when the task has moved.
            self.tasks.set_aside(tag);
            return;
        }
        while let Some(task) = self.tasks.get(tag)
            && let Stage::AtStore(progress) = &task.stage
        {
            if progress.restart {
                self.restart(tag);
                link.ready.push_back(tag);
                return;
            }
            debug_assert_eq!(data.len(), task.at_store_bytes(), "all that is left is due");
            let len_bytes = task.next_segment(progress).len_bytes as usize;
            let Some((segment, rest)) = data.split_at_checked(len_bytes) else {
                return;
            };
            link.transmitter
                .data_space(len_bytes)
                .copy_from_slice(segment);
            self.segment_filled(link, tag, times, trace);
            if rest.is_empty() {
                return;
            }
            data = rest;
        }
    }

    /// The data of a read's next Data-In is in the transmitter: queues the PDU, and continues the task when that was
    /// the last byte requested from the store.
    fn segment_filled(
        &mut self,
        link: &mut Link,
        tag: TaskTag,
        (asked, answered): (Instant, Instant),
        trace: &mut Recorder,
    ) {
        let Some(mut entry) = self.tasks.entry(tag) else {
            return;
        };
        let task = &mut *entry.task;
        if task.enter_store() {
            let (id, layer) = (task.connection(), Layer::Store);
            trace.crossing(asked, self.id, id, tag, layer, Direction::Enter);
        }
        let Stage::AtStore(progress) = &task.stage else {
            return;
        };
        let segment = task.next_segment(progress);
        let status = InData::of_read(link, task).filter(|_| !self.config.separate_status);
        let stream = DataInStream::of_read(task, status);
        let status = status.filter(|_| stream.has_status(&segment));
        // The slot is free as soon as this PDU carries its status.
        let frees_slot = status.is_some() && task.holds_slot;
        let window = self.order.announced_after(frees_slot);
        stream.push_filled(&segment, link, window, answered, trace);
        if entry.read_sent(segment.len_bytes) {
            self.piece_done(link, tag, status, answered, trace);
        }
    }

    /// A piece of a read is queued for sending, with a status if it has one: completes the task or continues with the
    /// next piece.
    pub(super) fn piece_done(
        &mut self,
        link: &mut Link,
        tag: TaskTag,
        status: Option<InData>,
        now: Instant,
        trace: &mut Recorder,
    ) {
        let Some(task) = self.tasks.get_mut(tag) else {
            return;
        };
        if let Some(ticket) = task.ticket.take() {
            self.nexus.leave(ticket);
        }
        let Stage::AtStore(progress) = &mut task.stage else {
            return;
        };
        if progress.turn_forth(task.moved_bytes) {
            let progress = std::mem::take(progress);
            task.stage = Stage::Ready(progress);
            // Behind the others: a long read does not delay short ones.
            link.ready.push_back(tag);
            return;
        }
        if let Repeat::Data(_) = task.repeat {
            self.repeated(link, tag);
            return;
        }
        if let Repeat::No = task.repeat {
            trace.crossing(now, self.id, link.id, tag, Layer::Store, Direction::Leave);
        }
        let data_pdus = progress.data_pdus();
        let Some(status) = status else {
            let residual = Residual::of(task.expected_bytes, task.presented_bytes());
            self.conclude(link, tag, ScsiStatus::Good, None, residual, now, trace);
            return;
        };
        trace.crossing(now, self.id, link.id, tag, Layer::Device, Direction::Leave);
        trace.crossing(now, self.id, link.id, tag, Layer::Target, Direction::Leave);
        if let Some(ended) = self.end(tag) {
            self.meters.count_ended(&ended, ScsiStatus::Good, now);
            self.answered_in_data(link, ended, status, data_pdus, &[]);
        }
    }

    /// Records the start of the store operation, once per task.
    fn store_asked(&mut self, tag: TaskTag, asked: Instant, trace: &mut Recorder) {
        if let Some(task) = self.tasks.get_mut(tag)
            && task.enter_store()
        {
            let (id, layer) = (task.connection(), Layer::Store);
            trace.crossing(asked, self.id, id, tag, layer, Direction::Enter);
        }
    }

    /// The store has completed all operations of a task.
    fn leave_store(&mut self, tag: TaskTag) {
        let task = self.tasks.get_mut(tag);
        if let Some(ticket) = task.and_then(|task| task.ticket.take()) {
            self.nexus.leave(ticket);
        }
    }

    /// Ends a task without a response.
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
            trace.crossing(
                now,
                self.id,
                task.connection(),
                tag,
                layer,
                Direction::Leave,
            );
        }
    }
}
