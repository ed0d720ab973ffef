//! How records go to the disk: in epochs, and no further than the disk's medium has them.

use std::collections::VecDeque;
use std::time::Duration;

use wansan_trace::Instant;

use super::record::{Kind, Record};
use super::ring::{JournalFile, Ring};
use crate::action::Action;
use crate::dirty::{Burst, Dirty, Due};

/// Records that are read and merged at once, in bytes.
const BATCH_BYTES: u64 = 4 << 20;

/// Between two attempts to write what the disk did not take.
const RETRY: Duration = Duration::from_secs(1);

/// What is done about the records that were taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// They are being written.
    Writing,
    /// The disk makes them durable.
    Flushing,
    /// They are at the disk, and the journal says so once so much of its file is durable.
    Sealing(u64),
}

/// The records that are not at the disk.
#[derive(Debug)]
pub(super) struct Drain {
    records: VecDeque<(Record, Option<Instant>)>,
    bytes: u64,
    /// How many of the oldest were taken, and their bytes.
    taken: usize,
    taken_bytes: u64,
    /// A flush has to follow when so much was taken.
    most_bytes: u64,
    burst_bytes: u64,
    operations: usize,
    in_flight: usize,
    /// What is under way must be done before anything else is taken.
    is_alone: bool,
    /// Something that was taken did not get there.
    has_failed: bool,
    retries_at: Instant,
    phase: Phase,
    /// Merged writes of the batch that is being sent.
    batch: VecDeque<Burst>,
}

impl Drain {
    pub(super) fn new(
        records: VecDeque<Record>,
        most_bytes: u64,
        burst_bytes: u64,
        operations: usize,
    ) -> Drain {
        Drain {
            bytes: records.iter().map(Record::ring_bytes).sum(),
            records: records.into_iter().map(|record| (record, None)).collect(),
            taken: 0,
            taken_bytes: 0,
            most_bytes,
            burst_bytes,
            operations,
            in_flight: 0,
            is_alone: false,
            has_failed: false,
            retries_at: Instant::ZERO,
            phase: Phase::Writing,
            batch: VecDeque::new(),
        }
    }

    pub(super) fn add(&mut self, record: Record, now: Instant) {
        self.bytes += record.ring_bytes();
        self.records.push_back((record, Some(now)));
    }

    pub(super) fn behind_bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn behind_since(&self) -> Option<Instant> {
        let (_, since) = self.records.front()?;
        Some(since.unwrap_or(Instant::ZERO))
    }

    pub(super) fn retries_at(&self) -> Instant {
        match self.has_failed && self.in_flight == 0 {
            true => self.retries_at,
            false => Instant::FAR_FUTURE,
        }
    }

    /// An operation of the disk has ended.
    pub(super) fn completed(&mut self, is_done: bool, now: Instant) {
        self.in_flight -= 1;
        if !is_done {
            self.has_failed = true;
            self.retries_at = now + RETRY;
        }
    }

    /// All that was taken goes to the disk again.
    pub(super) fn again(&mut self) {
        if self.taken > 0 && !matches!(self.phase, Phase::Sealing(_)) {
            self.has_failed = true;
            self.retries_at = Instant::ZERO;
        }
    }

    /// What the disk is to do now.
    pub(super) fn advance<F: JournalFile>(
        &mut self,
        ring: &mut Ring<F>,
        now: Instant,
    ) -> Vec<Action> {
        let mut actions = Vec::new();
        if self.has_failed {
            if self.in_flight > 0 || now < self.retries_at {
                return actions;
            }
            // From the oldest on: the disk may have lost any that it had not made durable.
            self.begin_again();
        }
        if self.phase == Phase::Writing && !ring.is_broken() {
            self.write(ring, &mut actions);
        }
        if self.phase == Phase::Flushing && self.in_flight == 0 && actions.is_empty() {
            let oldest = self.records.get(self.taken).map(|(record, _)| record);
            if let Ok(written) = ring.write_head(oldest) {
                self.phase = Phase::Sealing(written);
            }
        }
        if let Phase::Sealing(written) = self.phase
            && written <= ring.durable()
        {
            ring.free();
        }
        self.in_flight += actions.len();
        actions
    }

    fn begin_again(&mut self) {
        self.taken = 0;
        self.taken_bytes = 0;
        self.batch.clear();
        self.is_alone = false;
        self.has_failed = false;
        self.phase = Phase::Writing;
    }

    fn write<F: JournalFile>(&mut self, ring: &mut Ring<F>, actions: &mut Vec<Action>) {
        loop {
            let under_way = self.in_flight + actions.len();
            if self.is_alone && under_way > 0 {
                return;
            }
            self.is_alone = false;
            if let Some(burst) = self.batch.pop_front() {
                if under_way >= self.operations {
                    return self.batch.push_front(burst);
                }
                actions.push(Action::Write {
                    offset_bytes: burst.offset_bytes,
                    data: burst.data,
                    fua: false,
                });
                continue;
            }
            match self.next() {
                Some(Kind::Write) => {
                    if !self.read_batch(ring) {
                        return;
                    }
                }
                // Later writes of the range must not be under way with it.
                Some(_) if under_way > 0 => return,
                Some(kind) => {
                    let (record, _) = self.records[self.taken];
                    self.take(&record);
                    self.is_alone = true;
                    actions.push(match kind {
                        Kind::Zero { may_unmap } => Action::Zero {
                            range: record.range,
                            fua: false,
                            may_unmap,
                            fast: false,
                        },
                        _ => Action::Trim {
                            range: record.range,
                            fua: false,
                        },
                    });
                    return;
                }
                None if self.taken > 0 && under_way == 0 => {
                    self.phase = Phase::Flushing;
                    actions.push(Action::Flush);
                    return;
                }
                None => return,
            }
        }
    }

    /// What the next record says that may be taken now.
    fn next(&self) -> Option<Kind> {
        let (next, _) = self.records.get(self.taken)?;
        let (oldest, _) = self.records.front()?;
        (next.epoch == oldest.epoch && self.taken_bytes < self.most_bytes).then_some(next.kind)
    }

    fn take(&mut self, record: &Record) {
        self.taken += 1;
        self.taken_bytes += record.ring_bytes();
    }

    /// Reads and merges writes that follow each other; `false` when the journal cannot be read.
    fn read_batch<F: JournalFile>(&mut self, ring: &mut Ring<F>) -> bool {
        let mut merged = Dirty::new(self.burst_bytes);
        while self.next() == Some(Kind::Write) && merged.bytes() < BATCH_BYTES {
            let (record, _) = self.records[self.taken];
            let mut data = vec![0; record.range.bytes() as usize];
            if ring.read(record.data_place(), &mut data).is_err() {
                return false;
            }
            self.take(&record);
            if !data.is_empty() {
                merged.write(Burst {
                    offset_bytes: record.range.start,
                    data,
                    first: record.number,
                    last: record.number,
                    since: Instant::ZERO,
                    fua: false,
                    has_early: true,
                    tickets: Vec::new(),
                });
            }
        }
        let all = Due {
            all: true,
            before: 0,
            until: Instant::ZERO,
        };
        while let Some(burst) = merged.take_due(all, |_| true) {
            self.batch.push_back(burst);
        }
        true
    }

    /// The count of what must be durable for the journal to say that records are at the disk.
    pub(super) fn awaits_sync(&self) -> Option<u64> {
        match self.phase {
            Phase::Sealing(written) => Some(written),
            Phase::Writing | Phase::Flushing => None,
        }
    }

    /// The records that are at the disk, and of which the journal says so.
    pub(super) fn take_sealed(&mut self, durable: u64) -> Vec<Record> {
        match self.phase {
            Phase::Sealing(written) if written <= durable => {}
            _ => return Vec::new(),
        }
        let sealed = self.records.drain(..self.taken).map(|(record, _)| record);
        let sealed: Vec<Record> = sealed.collect();
        self.bytes -= self.taken_bytes;
        self.taken = 0;
        self.taken_bytes = 0;
        self.phase = Phase::Writing;
        sealed
    }
}
