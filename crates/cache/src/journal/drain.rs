//! Write-back of records: in epochs, and no epoch before the previous one is on the disk's medium.

use std::collections::VecDeque;
use std::time::Duration;

use wansan_trace::Instant;

use super::record::{Kind, Record};
use super::ring::{JournalFile, Ring};
use crate::action::Action;
use crate::dirty::{Burst, Dirty, Due};

/// Records read and merged at once, in bytes.
const BATCH_BYTES: u64 = 4 << 20;

/// Delay before retrying writes that the disk failed.
const RETRY: Duration = Duration::from_secs(1);

/// State of the records being written back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Writing to the disk.
    Writing,
    /// Flushing the disk.
    Flushing,
    /// On the medium; the journal's head can advance once its file is durable up to this write count.
    Sealing(u64),
}

/// The records not yet written back.
#[derive(Debug)]
pub(super) struct Drain {
    records: VecDeque<(Record, Option<Instant>)>,
    bytes: u64,
    /// Number of the oldest records taken, and their bytes.
    taken: usize,
    taken_bytes: u64,
    /// Most bytes taken before a flush.
    most_bytes: u64,
    burst_bytes: u64,
    operations: usize,
    in_flight: usize,
    /// The outstanding operation must complete before another record is taken.
    is_alone: bool,
    /// A write of the current round failed.
    has_failed: bool,
    retries_at: Instant,
    phase: Phase,
    /// Merged writes of the batch being sent.
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

    /// Completes an operation of the disk.
    pub(super) fn completed(&mut self, is_done: bool, now: Instant) {
        self.in_flight -= 1;
        if !is_done {
            self.has_failed = true;
            self.retries_at = now + RETRY;
        }
    }

    /// Sends all taken records again.
    pub(super) fn again(&mut self) {
        if self.taken > 0 && !matches!(self.phase, Phase::Sealing(_)) {
            self.has_failed = true;
            self.retries_at = Instant::ZERO;
        }
    }

    /// The next operation for the disk.
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
            // Restart from the oldest: the disk may have lost any of those that it had not flushed.
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
                // No later write to the range may be outstanding with it.
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

    /// The kind of the next record that may be taken now.
    fn next(&self) -> Option<Kind> {
        let (next, _) = self.records.get(self.taken)?;
        let (oldest, _) = self.records.front()?;
        (next.epoch == oldest.epoch && self.taken_bytes < self.most_bytes).then_some(next.kind)
    }

    fn take(&mut self, record: &Record) {
        self.taken += 1;
        self.taken_bytes += record.ring_bytes();
    }

    /// Reads and merges consecutive writes; returns `false` if the journal cannot be read.
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

    /// The write count that must be durable before the head can advance.
    pub(super) fn awaits_sync(&self) -> Option<u64> {
        match self.phase {
            Phase::Sealing(written) => Some(written),
            Phase::Writing | Phase::Flushing => None,
        }
    }

    /// Removes and returns the records that are on the medium and before the durable head.
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
