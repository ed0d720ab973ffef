//! The loop of the load generator.

use std::time::Duration;

use wansan_iscsi::initiator::{Command, Completion, Transfer};
use wansan_iscsi::scsi::{Cdb, Malformed, Sense, cdb};
use wansan_iscsi::wire::{Lun, Residual, ScsiStatus, TaskAttribute};
use wansan_schema::{BenchReport, ConnectionReport};
use wansan_trace::{Instant, clock};

use super::report::{Meter, between};
use super::unit;
use super::verify::Written;
use super::workload::{Operation, Pattern, Request, Workload};
use crate::content;
use crate::initiator::{Initiator, InitiatorError};
use crate::machine;

/// The end of a load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// After this time, warm-up excluded.
    Time(Duration),
    /// After this many I/Os, warm-up excluded.
    Count(u64),
}

/// The settings of a load.
#[derive(Debug, Clone)]
pub struct LoadConfig {
    /// Reads, writes or both.
    pub operation: Operation,
    /// Where.
    pub pattern: Pattern,
    /// Bytes per I/O: a multiple of the LUN's block.
    pub block_bytes: u32,
    /// I/Os in flight: as many as this in a closed loop, at most this many when paced.
    pub parallel: usize,
    /// Batch mode: submits the next `parallel` I/Os only when all of the last ones have completed,
    /// as successive `read()` calls on a raw device do.
    pub batch: bool,
    /// When to end.
    pub limit: Limit,
    /// Warm-up, excluded from results.
    pub warmup: Duration,
    /// How long outstanding I/Os may wait without a connection at the end, in addition to one
    /// recovery attempt; `None` for as long as the session tries to recover.
    pub drain: Option<Duration>,
    /// I/Os submitted per second, evenly spaced; `None` for a closed loop.
    pub rate_per_s: Option<f64>,
    /// Seed for the order of the I/Os and the content of verified blocks.
    pub seed: u64,
    /// Verify the data read: reads against what an earlier load with the same seed wrote, writes
    /// and mixes against what this load wrote.
    pub verify: bool,
}

/// Why a load failed.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The session failed.
    #[error(transparent)]
    Session(#[from] InitiatorError),
    /// The run ended while the last I/Os had no connection to complete on.
    #[error(
        "the run has ended, but {ios} I/Os cannot complete: no connection to the target for {} s; check that the target is running and reachable",
        cut_off.as_secs()
    )]
    CutOff {
        /// Outstanding I/Os.
        ios: usize,
        /// Time without any connection.
        cut_off: Duration,
    },
    /// The LUN did not report its capacity.
    #[error("LUN {lun} cannot be used: {problem}")]
    Unusable {
        /// Its number.
        lun: u16,
        /// What it said.
        problem: String,
    },
    /// The target has no such LUN.
    #[error("no LUN {lun}: {}", unit::list(there))]
    NoSuchLun {
        /// Its number.
        lun: u16,
        /// The LUNs that REPORT LUNS lists; empty when it lists none.
        there: Vec<Lun>,
    },
    /// The LUN reported an invalid capacity.
    #[error("LUN {lun} cannot be used: {source}")]
    Malformed {
        /// Its number.
        lun: u16,
        /// What is wrong.
        source: Malformed,
    },
    /// The block size does not fit the LUN.
    #[error(
        "I/Os of {block_bytes} bytes do not fit LUN {lun}, which has {capacity_bytes} bytes in {lun_block_bytes}-byte blocks: use a multiple of the block length, at most the capacity"
    )]
    Block {
        /// Bytes per I/O.
        block_bytes: u32,
        /// The LUN's number.
        lun: u16,
        /// The LUN's size.
        capacity_bytes: u64,
        /// The LUN's block.
        lun_block_bytes: u32,
    },
    /// The machine has too little memory for so many I/Os.
    #[error(
        "{parallel} I/Os of {block_bytes} bytes in flight need more than this machine's \
         {memory_bytes} bytes of memory: use fewer or smaller I/Os"
    )]
    Memory {
        /// I/Os in flight.
        parallel: usize,
        /// Bytes per I/O.
        block_bytes: u32,
        /// The machine's memory.
        memory_bytes: u64,
    },
}

/// Progress of a load.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Progress {
    /// From 0 to 1.
    pub fraction: f64,
    /// I/Os per second since the load began.
    pub iops: f64,
}

pub(super) fn command(lun: Lun, cdb: Cdb, transfer: Transfer, user: u64) -> Command {
    Command {
        lun,
        cdb,
        attribute: TaskAttribute::Simple,
        transfer,
        user,
    }
}

/// Why a command failed, or `None` when it has done all it was asked.
pub(super) fn failure(done: &Completion) -> Option<String> {
    match &done.outcome {
        Err(error) => Some(error.to_string()),
        Ok(answer) if answer.status != ScsiStatus::Good => match Sense::parse(&answer.sense) {
            Ok(sense) => Some(format!(
                "{:?}: {:?}, {}",
                answer.status, sense.key, sense.additional
            )),
            Err(_) => Some(format!("{:?} without sense data", answer.status)),
        },
        Ok(answer) => match answer.residual {
            Residual::None | Residual::Underflow(_) => None,
            Residual::Overflow(bytes) => Some(format!("{bytes} bytes more than requested")),
        },
    }
}

/// What is missing of an I/O that was answered with GOOD: the load asks for whole blocks only.
fn shortfall(done: &Completion) -> Option<String> {
    match done.outcome.as_ref().ok()?.residual {
        Residual::Underflow(bytes) => Some(format!("{bytes} bytes less than requested")),
        Residual::None | Residual::Overflow(_) => None,
    }
}

/// One I/O's place.
#[derive(Debug, Default)]
struct Slot {
    buffer: Vec<u8>,
    request: Option<Request>,
    submitted: Instant,
}

/// A load on one LUN of a session, which can begin at once.
pub struct Load<'a> {
    initiator: &'a mut Initiator,
    lun: Lun,
    config: &'a LoadConfig,
    /// I/Os that the LUN has room for beside each other.
    pieces: u64,
    blocks_per_io: u32,
    slots: Vec<Slot>,
    /// Slots without an I/O.
    idle: Vec<usize>,
    /// Whether a batch has been asked for, and not all of it is done.
    gathering: bool,
    written: Option<Written>,
    meter: Meter,
    connections: Vec<ConnectionReport>,
}

/// How often `progress` is called.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(200);

impl<'a> Load<'a> {
    /// Reads the LUN's capacity and allocates the buffers.
    ///
    /// # Errors
    /// [`LoadError`].
    pub fn ready(
        initiator: &'a mut Initiator,
        lun: u16,
        config: &'a LoadConfig,
    ) -> Result<Self, LoadError> {
        let capacity = unit::capacity(initiator, lun)?;
        let lun_block_bytes = capacity.block_bytes;
        let capacity_bytes = capacity.blocks.saturating_mul(u64::from(lun_block_bytes));
        let block_bytes = config.block_bytes;
        if block_bytes == 0
            || !block_bytes.is_multiple_of(lun_block_bytes)
            || u64::from(block_bytes) > capacity_bytes
        {
            return Err(LoadError::Block {
                block_bytes,
                lun,
                capacity_bytes,
                lun_block_bytes,
            });
        }
        let (parallel, memory_bytes) = (config.parallel, machine::memory_bytes());
        if u64::from(block_bytes).saturating_mul(parallel as u64) > memory_bytes {
            return Err(LoadError::Memory {
                parallel,
                block_bytes,
                memory_bytes,
            });
        }
        let pieces = capacity_bytes / u64::from(block_bytes);
        Ok(Load {
            initiator,
            lun: unit::address(lun)?,
            config,
            pieces,
            blocks_per_io: block_bytes / lun_block_bytes,
            slots: (0..parallel).map(|_| Slot::default()).collect(),
            idle: (0..parallel).rev().collect(),
            gathering: false,
            written: config.verify.then(|| Written::new(pieces)),
            meter: Meter::new(),
            connections: Vec::new(),
        })
    }

    /// Runs the load. `progress` is called a few times per second.
    ///
    /// # Errors
    /// [`LoadError`]. A failed I/O is counted in the report and does not fail the load.
    pub fn run(mut self, mut progress: impl FnMut(Progress)) -> Result<BenchReport, LoadError> {
        let config = self.config;
        let workload = Workload::new(config.operation, config.pattern, self.pieces, config.seed);
        let (from, to) = self.measure(workload, &mut progress)?;
        if config.operation == Operation::Write {
            self.read_back()?;
        }
        let connections = std::mem::take(&mut self.connections);
        let report = self
            .meter
            .report(from, to, config.block_bytes, config.parallel);
        let recoveries = self.initiator.recoveries();
        Ok(BenchReport {
            recoveries: recoveries.sessions + recoveries.connections,
            lost_s: recoveries.lost.as_secs_f64(),
            connections,
            ..report
        })
    }

    /// Runs warm-up and measurement, and waits for the last I/Os. Gives what was measured.
    fn measure(
        &mut self,
        mut workload: Workload,
        progress: &mut impl FnMut(Progress),
    ) -> Result<(Instant, Instant), LoadError> {
        let begun = clock::now();
        let from = begun + self.config.warmup;
        let (end, count) = match self.config.limit {
            Limit::Time(time) => (from + time, u64::MAX),
            Limit::Count(count) => (Instant::FAR_FUTURE, count),
        };
        let mut pace = self.config.rate_per_s.map(|rate| Pace::new(begun, rate));
        let mut next_progress = begun;
        let (mut asked, mut ended, mut all) = (0, 0, 0);
        let mut now = begun;
        let mut earlier = None;
        while now < end && ended < count {
            if now >= from {
                earlier.get_or_insert_with(|| self.initiator.tallies(now));
            }
            while (now < from || asked < count)
                && self.has_room()
                && pace.as_mut().is_none_or(|pace| pace.is_due(now))
            {
                asked += u64::from(now >= from);
                self.submit(workload.next_request(), now);
            }
            let due = match &pace {
                Some(pace) if !self.idle.is_empty() => pace.next,
                _ => Instant::FAR_FUTURE,
            };
            let wake = due.min(end).min(if now < from {
                from
            } else {
                Instant::FAR_FUTURE
            });
            self.initiator.turn(wake.min(now + PROGRESS_INTERVAL))?;
            now = clock::now();
            while let Some(done) = self.initiator.poll_completion(now) {
                all += 1;
                let latency_ns = self.complete(done, now);
                if now >= from && now < end {
                    // One that failed has ended too, but has no latency worth counting.
                    ended += 1;
                    latency_ns.inspect(|&latency_ns| self.meter.completed(latency_ns));
                }
            }
            if now >= next_progress {
                next_progress = now + PROGRESS_INTERVAL;
                let by_time = now.since(begun).as_secs_f64() / end.since(begun).as_secs_f64();
                let fraction = by_time.max(ended as f64 / count as f64).min(1.0);
                let iops = f64::from(all) / now.since(begun).as_secs_f64().max(1e-9);
                progress(Progress { fraction, iops });
            }
        }
        let to = now.min(end);
        if let Some(earlier) = earlier {
            let later = self.initiator.tallies(now);
            self.connections = between(&earlier, &later);
        }
        self.drain()?;
        Ok((from, to))
    }

    /// Whether there is a place for the next I/O.
    fn has_room(&mut self) -> bool {
        if self.config.batch {
            let (idle, all) = (self.idle.len(), self.slots.len());
            self.gathering = idle < all && (self.gathering || idle == 0);
            return !self.gathering;
        }
        !self.idle.is_empty()
    }

    /// Waits for what is in flight.
    fn drain(&mut self) -> Result<(), LoadError> {
        let begun = clock::now();
        let patience = self
            .config
            .drain
            .map(|drain| drain + self.initiator.attempt());
        while self.idle.len() < self.slots.len() {
            self.initiator.turn(Instant::FAR_FUTURE)?;
            let now = clock::now();
            while let Some(done) = self.initiator.poll_completion(now) {
                self.complete(done, now);
            }
            let cut_off = self.initiator.cut_off(now);
            if patience.is_some_and(|patience| cut_off.min(now.since(begun)) > patience) {
                let ios = self.slots.len() - self.idle.len();
                return Err(LoadError::CutOff { ios, cut_off });
            }
        }
        Ok(())
    }

    /// Reads all that was written and compares it.
    fn read_back(&mut self) -> Result<(), LoadError> {
        let Some(written) = self.written.take() else {
            return Ok(());
        };
        let mut next = written.next_from(0);
        self.written = Some(written);
        while next.is_some() || self.idle.len() < self.slots.len() {
            let now = clock::now();
            while let Some(piece) = next.filter(|_| !self.idle.is_empty()) {
                self.submit(
                    Request {
                        write: false,
                        piece,
                    },
                    now,
                );
                next = self
                    .written
                    .as_ref()
                    .and_then(|written| written.next_from(piece + 1));
            }
            self.initiator.turn(Instant::FAR_FUTURE)?;
            while let Some(done) = self.initiator.poll_completion(now) {
                self.complete(done, now);
            }
        }
        Ok(())
    }

    fn submit(&mut self, mut request: Request, now: Instant) {
        let Some(place) = self.idle.pop() else { return };
        if let Some(written) = &self.written
            && self.config.operation == Operation::Mix
            && !written.is_set(request.piece)
        {
            // What nobody has written cannot be compared: a mix writes it first.
            request.write = true;
        }
        let slot = &mut self.slots[place];
        let mut buffer = std::mem::take(&mut slot.buffer);
        let fresh = buffer.is_empty();
        buffer.resize(self.config.block_bytes as usize, 0);
        let lba = request.piece * u64::from(self.blocks_per_io);
        let (cdb, transfer) = if request.write {
            if fresh || self.config.verify {
                let offset = request.piece * u64::from(self.config.block_bytes);
                content::fill(&mut buffer, offset, self.config.seed);
            }
            (
                cdb::write(lba, self.blocks_per_io, false),
                Transfer::Write(buffer),
            )
        } else {
            (
                cdb::read(lba, self.blocks_per_io, false),
                Transfer::Read(buffer),
            )
        };
        slot.request = Some(request);
        slot.submitted = now;
        let command = command(self.lun, cdb, transfer, place as u64);
        if let Err(full) = self.initiator.submit(command, now) {
            // The session was made for as many tasks as there are slots; if its caller made it
            // smaller, the load keeps that many in flight.
            self.slots[place].buffer = full.0.transfer.into_buffer();
            self.slots[place].request = None;
            self.idle.insert(0, place);
        }
    }

    /// Takes a completion in; gives the latency of an I/O that has done what it should.
    fn complete(&mut self, done: Completion, now: Instant) -> Option<u64> {
        let failed = failure(&done).or_else(|| shortfall(&done));
        let place = done.user as usize;
        let slot = self.slots.get_mut(place)?;
        let request = slot.request.take()?;
        slot.buffer = done.transfer.into_buffer();
        self.idle.push(place);
        if let Some(failed) = failed {
            self.meter.failed(|| failed);
            return None;
        }
        if self.config.verify {
            if request.write {
                if let Some(written) = &mut self.written {
                    written.set(request.piece);
                }
            } else {
                let offset = request.piece * u64::from(self.config.block_bytes);
                self.meter.verified += 1;
                if let Some(at) = content::first_difference(&slot.buffer, offset, self.config.seed)
                {
                    self.meter.corrupt += 1;
                    self.meter
                        .failed(|| format!("wrong content at byte {at} of the LUN"));
                    return None;
                }
            }
        }
        Some(wansan_trace::time::duration_ns(now.since(slot.submitted)))
    }
}

/// Evenly spaced moments.
#[derive(Debug)]
struct Pace {
    begun: Instant,
    interval_ns: f64,
    given: u64,
    next: Instant,
}

impl Pace {
    fn new(begun: Instant, rate_per_s: f64) -> Self {
        Pace {
            begun,
            interval_ns: 1e9 / rate_per_s,
            given: 0,
            next: begun,
        }
    }

    /// Whether an I/O is due; if so, it counts as asked for. Moments that were missed because all
    /// slots were taken are made up for.
    fn is_due(&mut self, now: Instant) -> bool {
        if now < self.next {
            return false;
        }
        self.given += 1;
        let offset_ns = self.interval_ns * self.given as f64;
        self.next = self.begun + Duration::from_nanos(offset_ns as u64);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pace_is_kept_without_drift() {
        let mut pace = Pace::new(Instant::ZERO, 3.0);
        let mut given = 0;
        for ms in 0..=10_000 {
            while pace.is_due(Instant::from_ns(ms * 1_000_000)) {
                given += 1;
            }
        }
        assert_eq!(given, 31);
    }
}
