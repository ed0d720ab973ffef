//! A journal: keeps writes in a file on this host until the disk has them.

mod drain;
mod index;
mod record;
mod ring;

use std::collections::{BTreeMap, VecDeque};

use wansan_trace::Instant;
use wansan_trace::event::RequestWait;

use self::drain::Drain;
use self::index::Index;
use self::record::Kind;
pub use self::record::{Identity, Superblock};
use self::ring::Ring;
pub use self::ring::{JournalFile, OpenError};
use crate::action::{Action, Answer, Extent, Failure, Outcome};
use crate::cache::{Done, Operation};
use crate::config::Counters;
use crate::mark::{Mark, Marks};
use crate::range::{Range, fill};

/// Configuration of a journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JournalConfig {
    /// Identity of its disk.
    pub identity: Identity,
    /// Length of the ring, in bytes: a multiple of 4096, longer than any write.
    pub ring_bytes: u64,
    /// Longest merged write, in bytes.
    pub burst_bytes: u64,
    /// Most outstanding operations at the disk; at least 1.
    pub operations: usize,
    /// As in [`CacheConfig`](crate::CacheConfig).
    pub marks: bool,
}

/// A read that waits for data from the disk.
#[derive(Debug)]
struct Read {
    request: u64,
    range: Range,
    data: Vec<u8>,
    gaps: Vec<Range>,
}

/// An outstanding operation of the disk.
#[derive(Debug)]
enum InFlight {
    Read(Read),
    /// A request passed through unchanged.
    Through(u64),
    /// A write-back of acknowledged data.
    Drain {
        is_trim: bool,
    },
}

/// A journal between a program and a disk. Requests go in by [`Journal::submit`], completions of the disk's operations
/// by [`Journal::completed`] and of syncs of its file by [`Journal::synced`]; after each, and at [`Journal::deadline`],
/// take operations, a sync and answers from [`Journal::poll_operation`], [`Journal::poll_sync`] and
/// [`Journal::poll_done`] until there are no more.
///
/// A write is answered when it is in the file, a flush when the file is durable. Records are written back in epochs,
/// separated by flushes: all of one before any of the next, so that the disk always holds a state that a disk with a
/// volatile cache could have after a power failure at some past moment. Overlapping operations must take effect in the
/// order in which they come out, which a [`Cache`](crate::Cache) below ensures.
#[derive(Debug)]
pub struct Journal<F> {
    ring: Ring<F>,
    index: Index,
    drain: Drain,
    /// Epoch of new records.
    epoch: u64,
    in_flight: BTreeMap<u64, InFlight>,
    next_tag: u64,
    operations: VecDeque<Operation>,
    done: VecDeque<Done>,
    marks: Marks,
    /// The operation being completed.
    ending: Option<u64>,
    /// Writes that wait for room in the ring.
    waiting: VecDeque<(u64, Action)>,
    /// Requests that wait for the file to be durable, with the required write count.
    flushes: VecDeque<(u64, u64)>,
    /// Counters for what the layer below does not see.
    counters: Counters,
}

impl<F: JournalFile> Journal<F> {
    /// Creates a journal in an empty file.
    ///
    /// # Errors
    /// The file's error.
    pub fn create(file: F, config: JournalConfig) -> Result<Journal<F>, Failure> {
        let ring = Ring::create(file, config.identity, config.ring_bytes)?;
        Ok(Journal::over(
            ring,
            config,
            Index::default(),
            VecDeque::new(),
        ))
    }

    /// Opens the journal in a file, with the records not yet written back.
    ///
    /// # Errors
    /// [`OpenError`] if it belongs to another disk or is not a journal.
    pub fn open(file: F, config: JournalConfig) -> Result<Journal<F>, OpenError> {
        let (ring, records) = Ring::open(file, config.identity)?;
        let mut index = Index::default();
        records.iter().for_each(|record| index.add(record));
        Ok(Journal::over(ring, config, index, records.into()))
    }

    fn over(
        ring: Ring<F>,
        config: JournalConfig,
        index: Index,
        records: VecDeque<record::Record>,
    ) -> Journal<F> {
        let epoch = records.back().map_or(0, |last| last.epoch + 1);
        Journal {
            drain: Drain::new(
                records,
                ring.bytes() / 8,
                config.burst_bytes,
                config.operations.max(1),
            ),
            ring,
            index,
            epoch,
            in_flight: BTreeMap::new(),
            next_tag: 0,
            operations: VecDeque::new(),
            done: VecDeque::new(),
            marks: Marks::new(config.marks),
            ending: None,
            waiting: VecDeque::new(),
            flushes: VecDeque::new(),
            counters: Counters::default(),
        }
    }

    /// Submits a request. `request` must be unique among the open ones; the range must be inside the disk.
    pub fn submit(&mut self, request: u64, action: Action, now: Instant) {
        match action {
            Action::Read { range } => self.read(request, range),
            Action::Write { .. } | Action::Zero { .. } | Action::Trim { .. } => {
                let writes = u64::from(matches!(action, Action::Write { .. }));
                self.counters.writes += writes;
                self.waiting.push_back((request, action));
                self.take_waiting(now);
                if let Some((last, _)) = self.waiting.back()
                    && *last == request
                {
                    self.counters.held_writes += writes;
                    self.marks.add(request, RequestWait::JournalRoom, now);
                }
            }
            Action::Flush => {
                self.counters.flushes += 1;
                self.await_file(request, now);
            }
            // Report ranges in the journal as data.
            Action::Status { range, .. } if !self.index.overlapping(&range).is_empty() => {
                let extents = vec![Extent::data(range.bytes())];
                self.finish(request, Ok(Answer::Status(extents)));
            }
            Action::Status { .. } | Action::Prefetch { .. } => {
                self.send(InFlight::Through(request), action);
            }
        }
    }

    fn finish(&mut self, request: u64, outcome: Outcome) {
        self.done.push_back(Done {
            request,
            outcome,
            operation: self.ending,
        });
    }

    fn send(&mut self, what: InFlight, action: Action) {
        let tag = self.next_tag;
        self.next_tag += 1;
        self.in_flight.insert(tag, what);
        self.operations.push_back(Operation { tag, action });
    }

    fn read(&mut self, request: u64, range: Range) {
        let mut data = vec![0; range.bytes() as usize];
        let mut gaps = vec![range];
        let mut failure = None;
        for entry in self.index.overlapping(&range) {
            let ring = &mut self.ring;
            fill(&mut gaps, &entry.range, |part| {
                // The buffer is already zeroed.
                if let Some(place) = entry.place {
                    let at = range.places(&part);
                    let place = place + (part.start - entry.range.start);
                    if let Err(failed) = ring.read(place, &mut data[at]) {
                        failure = Some(failed);
                    }
                }
            });
        }
        match (failure, gaps.first(), gaps.last()) {
            (Some(failure), ..) => self.finish(request, Err(failure)),
            (None, Some(first), Some(last)) => {
                let whole = Range {
                    start: first.start,
                    end: last.end,
                };
                let read = Read {
                    request,
                    range,
                    data,
                    gaps,
                };
                self.send(InFlight::Read(read), Action::Read { range: whole });
            }
            _ => {
                self.counters.read_hits += 1;
                self.finish(request, Ok(Answer::Data(data)));
            }
        }
    }

    /// Accepts waiting writes while there is room.
    fn take_waiting(&mut self, now: Instant) {
        while let Some((request, action)) = self.waiting.pop_front() {
            match self.append(&action, now) {
                Ok(true) => self.acknowledge(request, &action, now),
                Ok(false) => return self.waiting.push_front((request, action)),
                Err(failure) => self.finish(request, Err(failure)),
            }
        }
    }

    /// Appends a record; returns whether there was room.
    fn append(&mut self, action: &Action, now: Instant) -> Result<bool, Failure> {
        let (kind, data) = match action {
            Action::Write { data, .. } => (Kind::Write, &data[..]),
            Action::Zero { may_unmap, .. } => {
                let may_unmap = *may_unmap;
                (Kind::Zero { may_unmap }, &[][..])
            }
            _ => (Kind::Trim, &[][..]),
        };
        let Some(record) = self.ring.append(kind, self.epoch, action.range(), data)? else {
            return Ok(false);
        };
        self.index.add(&record);
        self.drain.add(record, now);
        Ok(true)
    }

    fn acknowledge(&mut self, request: u64, action: &Action, now: Instant) {
        self.counters.early_acks += u64::from(matches!(action, Action::Write { .. }));
        let is_fua = matches!(
            action,
            Action::Write { fua: true, .. }
                | Action::Zero { fua: true, .. }
                | Action::Trim { fua: true, .. }
        );
        match is_fua {
            true => self.await_file(request, now),
            false => self.finish(request, Ok(Answer::Done)),
        }
    }

    /// Ends the epoch; the request is answered once its records are durable.
    fn await_file(&mut self, request: u64, now: Instant) {
        self.marks.add(request, RequestWait::Journal, now);
        self.epoch += 1;
        self.flushes.push_back((request, self.ring.written()));
        self.answer_flushes();
    }

    fn answer_flushes(&mut self) {
        while let Some((request, written)) = self.flushes.front().copied()
            && (written <= self.ring.durable() || self.ring.is_broken())
        {
            self.flushes.pop_front();
            let outcome = match self.ring.is_broken() {
                true => Err(Failure::Io),
                false => Ok(Answer::Done),
            };
            self.finish(request, outcome);
        }
    }

    /// Whether to sync the file now; report the result to [`Journal::synced`].
    pub fn poll_sync(&mut self) -> bool {
        let for_flushes = self.flushes.back().map(|(_, written)| *written);
        let for_head = self.drain.awaits_sync();
        let wanted = for_flushes.into_iter().chain(for_head).max();
        wanted.is_some_and(|written| self.ring.begin_sync(written))
    }

    /// Reports the result of a sync. After a failure, no more writes are accepted.
    pub fn synced(&mut self, result: Result<(), Failure>) {
        self.ring.end_sync(result.is_ok());
        self.answer_flushes();
    }

    /// Completes an operation of the disk.
    pub fn completed(&mut self, tag: u64, outcome: Outcome, now: Instant) {
        self.ending = Some(tag);
        match self.in_flight.remove(&tag) {
            Some(InFlight::Read(read)) => self.read_is_done(read, outcome),
            Some(InFlight::Through(request)) => self.finish(request, outcome),
            Some(InFlight::Drain { is_trim }) => {
                // A refused trim is harmless: the range may read as anything.
                let is_refused = matches!(outcome, Err(Failure::NotSupported | Failure::Invalid));
                let is_done = outcome.is_ok() || is_trim && is_refused;
                self.drain.completed(is_done, now);
            }
            None => {}
        }
        self.ending = None;
    }

    /// The request that an operation serves, if any.
    #[must_use]
    pub fn request_of(&self, operation: u64) -> Option<u64> {
        match self.in_flight.get(&operation)? {
            InFlight::Read(read) => Some(read.request),
            InFlight::Through(request) => Some(*request),
            InFlight::Drain { .. } => None,
        }
    }

    fn read_is_done(&mut self, read: Read, outcome: Outcome) {
        let Read {
            request,
            range,
            mut data,
            gaps,
        } = read;
        let outcome = match outcome {
            Ok(Answer::Data(below)) => {
                let start = gaps.first().map_or(range.start, |gap| gap.start);
                let whole = Range::new(start, below.len() as u64);
                for gap in gaps {
                    data[range.places(&gap)].copy_from_slice(&below[whole.places(&gap)]);
                }
                Ok(Answer::Data(data))
            }
            outcome => outcome,
        };
        self.finish(request, outcome);
    }

    /// The next operation for the disk.
    pub fn poll_operation(&mut self, now: Instant) -> Option<Operation> {
        if self.operations.is_empty() {
            self.advance(now);
        }
        self.operations.pop_front()
    }

    fn advance(&mut self, now: Instant) {
        loop {
            let actions = self.drain.advance(&mut self.ring, now);
            for action in actions {
                let is_trim = matches!(action, Action::Trim { .. });
                self.send(InFlight::Drain { is_trim }, action);
            }
            let at_disk = self.drain.take_sealed(self.ring.durable());
            at_disk.iter().for_each(|record| self.index.remove(record));
            if !at_disk.is_empty() || self.ring.is_broken() {
                self.take_waiting(now);
            }
            if at_disk.is_empty() {
                return;
            }
        }
    }

    /// When [`Journal::poll_operation`] may return an operation without further input.
    #[must_use]
    pub fn deadline(&self) -> Instant {
        self.drain.retries_at()
    }

    /// The next completed request.
    pub fn poll_done(&mut self) -> Option<Done> {
        self.done.pop_front()
    }

    /// See [`Cache::poll_mark`](crate::Cache::poll_mark).
    pub fn poll_mark(&mut self) -> Option<Mark> {
        self.marks.poll()
    }

    /// The disk may have lost unflushed writes: writes the journal's records back again.
    pub fn again(&mut self) {
        self.drain.again();
    }

    /// Bytes of records not yet written back.
    #[must_use]
    pub fn behind_bytes(&self) -> u64 {
        self.drain.behind_bytes()
    }

    /// Arrival of the oldest record not yet written back; `None` for records found at the start.
    #[must_use]
    pub fn behind_since(&self) -> Option<Instant> {
        self.drain.behind_since()
    }

    /// Counters of the program's requests; `below` are those of the cache, which sees only what the journal passes on.
    #[must_use]
    pub fn counters(&self, below: Counters) -> Counters {
        Counters {
            read_hits: self.counters.read_hits + below.read_hits,
            writes: self.counters.writes,
            early_acks: self.counters.early_acks,
            held_writes: self.counters.held_writes,
            flushes: self.counters.flushes,
            ..below
        }
    }

    /// Whether its file could not be synced or read: no more writes are accepted.
    #[must_use]
    pub fn is_broken(&self) -> bool {
        self.ring.is_broken()
    }

    /// Whether no request is open and the disk has all writes.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.in_flight.is_empty()
            && self.operations.is_empty()
            && self.done.is_empty()
            && self.waiting.is_empty()
            && self.flushes.is_empty()
            && self.drain.behind_bytes() == 0
    }

    /// Its file.
    #[must_use]
    pub fn file(&self) -> &F {
        self.ring.file()
    }
}
