//! The main loop of the load generator.

use std::sync::Arc;
use std::time::Duration;

use wansan_iscsi::initiator::{Command, Completion, Transfer};
use wansan_iscsi::scsi::capacity::Capacity;
use wansan_iscsi::scsi::{Sense, cdb};
use wansan_iscsi::wire::{Lun, Residual, ScsiStatus, TaskAttribute};
use wansan_schema::BenchReport;
use wansan_trace::Instant;

use crate::content;
use crate::meter::Meter;
use crate::pace::Pace;
use crate::sequence::{Listed, Operation, Pattern, Request, Workload};
use crate::written::Written;

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
    /// Sequential or random.
    pub pattern: Pattern,
    /// Bytes per I/O, or of the longest one if `listed` is set: a multiple of the LUN's block size.
    pub block_bytes: u32,
    /// I/Os to submit cyclically instead of those given by `operation` and `block_bytes`; empty for none. They are not
    /// verified.
    pub listed: Arc<[Listed]>,
    /// I/Os in flight: exactly this many in a closed loop, at most this many at a rate.
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

/// Why a command failed, or `None` if it succeeded.
#[must_use]
pub fn failure(done: &Completion) -> Option<String> {
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

/// Why an I/O with GOOD status fell short: the load requests whole blocks only.
fn shortfall(done: &Completion) -> Option<String> {
    match done.outcome.as_ref().ok()?.residual {
        Residual::Underflow(bytes) => Some(format!("{bytes} bytes less than requested")),
        Residual::None | Residual::Overflow(_) => None,
    }
}

/// The slot of an I/O in flight.
#[derive(Debug, Default)]
struct Slot {
    buffer: Vec<u8>,
    request: Option<Request>,
    submitted: Instant,
}

/// The number of disjoint I/Os of `block_bytes` that fit a LUN; `None` if they are not whole blocks, or the LUN is
/// smaller than one.
#[must_use]
pub fn pieces(block_bytes: u32, capacity: &Capacity) -> Option<u64> {
    let fits = block_bytes > 0
        && block_bytes.is_multiple_of(capacity.block_bytes)
        && u64::from(block_bytes) <= capacity.bytes();
    fits.then(|| capacity.bytes() / u64::from(block_bytes))
}

/// Progress of a load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Warm-up and measurement.
    Loading,
    /// Waiting for the last I/Os.
    Draining,
    /// Reading back and verifying what was written, from this piece on.
    ReadingBack(Option<u64>),
    Over,
}

/// A load on one LUN.
///
/// The driver calls [`Load::next_command`] until there is none, passes the session's completions to
/// [`Load::completed`], then calls [`Load::advance`] with the time, and waits until [`Load::wakes_at`] or the next
/// completion; all of this until the load [is over](Load::is_over).
#[derive(Debug)]
pub struct Load {
    config: LoadConfig,
    lun: Lun,
    /// Block size of the LUN in bytes.
    lun_block_bytes: u32,
    slots: Vec<Slot>,
    /// Slots without an I/O.
    idle: Vec<usize>,
    /// In batch mode: whether a whole batch has been submitted, and not all of it has completed.
    gathering: bool,
    written: Option<Written>,
    meter: Meter,
    workload: Workload,
    pace: Option<Pace>,
    begun: Instant,
    /// The end of the warm-up.
    from: Instant,
    /// The end of the measurement; until then, the time set for it.
    to: Instant,
    /// I/Os to measure.
    count: u64,
    /// I/Os submitted after the warm-up, completed within the measurement, and completed until its end (with warm-up).
    asked: u64,
    ended: u64,
    all: u64,
    stage: Stage,
}

impl Load {
    /// A load that begins now. Its I/Os must [fit the LUN](pieces).
    ///
    /// # Panics
    /// When they do not.
    #[must_use]
    pub fn new(config: &LoadConfig, lun: Lun, capacity: &Capacity, now: Instant) -> Self {
        let pieces = pieces(config.block_bytes, capacity).expect("the I/Os fit the LUN");
        let from = now + config.warmup;
        let (to, count) = match config.limit {
            Limit::Time(time) => (from + time, u64::MAX),
            Limit::Count(count) => (Instant::FAR_FUTURE, count),
        };
        Load {
            lun,
            lun_block_bytes: capacity.block_bytes,
            slots: (0..config.parallel).map(|_| Slot::default()).collect(),
            idle: (0..config.parallel).rev().collect(),
            gathering: false,
            written: config.verify.then(|| Written::new(pieces)),
            meter: Meter::new(),
            workload: Workload::new(config, pieces),
            pace: config.rate_per_s.map(|rate| Pace::new(now, rate)),
            begun: now,
            from,
            to,
            count,
            asked: 0,
            ended: 0,
            all: 0,
            stage: Stage::Loading,
            config: config.clone(),
        }
    }

    /// Whether warm-up or measurement is running.
    #[must_use]
    pub fn is_loading(&self) -> bool {
        self.stage == Stage::Loading
    }

    /// Whether the measurement is running.
    #[must_use]
    pub fn is_measuring(&self, now: Instant) -> bool {
        self.is_loading() && now >= self.from
    }

    /// Whether to give up the last I/Os: the measurement is over and the session has had no connection, both for longer
    /// than `drain` plus `attempt`, the time of one recovery attempt. `cut_off` is the time without a connection.
    #[must_use]
    pub fn gives_up(&self, now: Instant, cut_off: Duration, attempt: Duration) -> bool {
        let waited = cut_off.min(now.since(self.to));
        let patience = self.config.drain.map(|drain| drain + attempt);
        self.stage == Stage::Draining && patience.is_some_and(|patience| waited > patience)
    }

    /// Whether everything is done.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.stage == Stage::Over
    }

    /// I/Os in flight.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.slots.len() - self.idle.len()
    }

    /// The progress from 0 to 1, and I/Os per second so far.
    #[must_use]
    pub fn progress(&self, now: Instant) -> (f64, f64) {
        let elapsed_s = now.since(self.begun).as_secs_f64();
        let by_time = elapsed_s / self.to.since(self.begun).as_secs_f64();
        let fraction = by_time.max(self.ended as f64 / self.count as f64).min(1.0);
        (fraction, self.all as f64 / elapsed_s.max(1e-9))
    }

    /// When it needs a call even if nothing completes.
    #[must_use]
    pub fn wakes_at(&self, now: Instant) -> Instant {
        if !self.is_loading() {
            return Instant::FAR_FUTURE;
        }
        let due = match &self.pace {
            Some(pace) if !self.idle.is_empty() && self.asked < self.count => pace.next(),
            _ => Instant::FAR_FUTURE,
        };
        let warm = if now < self.from { self.from } else { self.to };
        due.min(warm).min(self.to)
    }

    /// Updates the stage at time `now`, after all completions until then were passed in.
    pub fn advance(&mut self, now: Instant) {
        if self.is_loading() && (now >= self.to || self.ended >= self.count) {
            self.to = now.min(self.to);
            self.stage = Stage::Draining;
        }
        if self.stage == Stage::Draining && self.in_flight() == 0 {
            let reads_back = self.config.operation == Operation::Write;
            self.stage = match &self.written {
                Some(written) if reads_back => Stage::ReadingBack(written.next_from(0)),
                _ => Stage::Over,
            };
        }
        if self.stage == Stage::ReadingBack(None) && self.in_flight() == 0 {
            self.stage = Stage::Over;
        }
    }

    /// The next command to submit, if one is due. The session must take as many as the load keeps in flight.
    pub fn next_command(&mut self, now: Instant) -> Option<Command> {
        let request = match self.stage {
            Stage::Loading if now < self.to => self.next_request(now)?,
            Stage::ReadingBack(Some(piece)) if !self.idle.is_empty() => {
                let written = self.written.as_ref()?;
                self.stage = Stage::ReadingBack(written.next_from(piece + 1));
                Request {
                    write: false,
                    piece,
                    bytes: self.config.block_bytes,
                }
            }
            _ => return None,
        };
        let place = self.idle.pop()?;
        Some(self.command(place, request, now))
    }

    fn next_request(&mut self, now: Instant) -> Option<Request> {
        let is_warm = now >= self.from;
        let is_due = (!is_warm || self.asked < self.count)
            && self.has_room()
            && self.pace.as_mut().is_none_or(|pace| pace.is_due(now));
        if !is_due {
            return None;
        }
        self.asked += u64::from(is_warm);
        let mut request = self.workload.next_request();
        if let Some(written) = &self.written
            && self.config.operation == Operation::Mix
            && !written.is_set(request.piece)
        {
            // Data that was never written cannot be verified: a mix writes it first.
            request.write = true;
        }
        Some(request)
    }

    /// Whether the next I/O may be submitted.
    fn has_room(&mut self) -> bool {
        if self.config.batch {
            let (idle, all) = (self.idle.len(), self.slots.len());
            self.gathering = idle < all && (self.gathering || idle == 0);
            return !self.gathering;
        }
        !self.idle.is_empty()
    }

    fn command(&mut self, place: usize, request: Request, now: Instant) -> Command {
        let slot = &mut self.slots[place];
        let mut buffer = std::mem::take(&mut slot.buffer);
        let fresh = buffer.is_empty();
        buffer.resize(request.bytes as usize, 0);
        slot.request = Some(request);
        slot.submitted = now;
        let blocks_per_piece = self.config.block_bytes / self.lun_block_bytes;
        let lba = request.piece * u64::from(blocks_per_piece);
        let blocks = request.bytes / self.lun_block_bytes;
        let (cdb, transfer) = if request.write {
            if fresh || self.config.verify {
                let offset = request.piece * u64::from(self.config.block_bytes);
                content::fill(&mut buffer, offset, self.config.seed);
            }
            (cdb::write(lba, blocks, false), Transfer::Write(buffer))
        } else {
            (cdb::read(lba, blocks, false), Transfer::Read(buffer))
        };
        Command {
            lun: self.lun,
            cdb,
            attribute: TaskAttribute::Simple,
            transfer,
            user: place as u64,
        }
    }

    /// A command has completed. A failed one is counted, but has no latency.
    pub fn completed(&mut self, done: Completion, now: Instant) {
        let failed = failure(&done).or_else(|| shortfall(&done));
        let place = done.user as usize;
        let Some(slot) = self.slots.get_mut(place) else {
            return;
        };
        let Some(request) = slot.request.take() else {
            return;
        };
        slot.buffer = done.transfer.into_buffer();
        self.idle.push(place);
        let failed = failed.or_else(|| self.verify(place, request));
        let is_measured = self.is_measuring(now) && now < self.to;
        self.all += u64::from(self.is_loading());
        self.ended += u64::from(is_measured);
        if let Some(failed) = failed {
            self.meter.failed(failed);
        } else if is_measured {
            let latency = now.since(self.slots[place].submitted);
            let latency_ns = wansan_trace::time::duration_ns(latency);
            self.meter.completed(request.bytes, latency_ns);
        }
    }

    /// Verifies the content of an I/O; returns what is wrong with it.
    fn verify(&mut self, place: usize, request: Request) -> Option<String> {
        if !self.config.verify {
            return None;
        }
        if request.write {
            if let Some(written) = &mut self.written {
                written.set(request.piece);
            }
            return None;
        }
        let offset = request.piece * u64::from(self.config.block_bytes);
        self.meter.verified += 1;
        let buffer = &self.slots[place].buffer;
        let at = content::first_difference(buffer, offset, self.config.seed)?;
        self.meter.corrupt += 1;
        Some(format!("wrong content at byte {at} of the LUN"))
    }

    /// The measurements.
    #[must_use]
    pub fn report(&self) -> BenchReport {
        let (block_bytes, parallel) = (self.config.block_bytes, self.config.parallel);
        self.meter.report(self.from, self.to, block_bytes, parallel)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use wansan_iscsi::initiator::{Answer, TaskError};
    use wansan_trace::TaskTag;

    use super::*;

    const CAPACITY: Capacity = Capacity {
        blocks: 64,
        block_bytes: 512,
        physical_block_exponent: 0,
    };

    pub(crate) fn config() -> LoadConfig {
        LoadConfig {
            operation: Operation::Read,
            pattern: Pattern::Sequential,
            block_bytes: 4096,
            listed: Arc::default(),
            parallel: 4,
            batch: false,
            limit: Limit::Time(Duration::from_millis(100)),
            warmup: Duration::from_millis(50),
            drain: None,
            rate_per_s: None,
            seed: 1,
            verify: false,
        }
    }

    fn load(config: &LoadConfig) -> Load {
        Load::new(config, Lun::default(), &CAPACITY, Instant::ZERO)
    }

    fn at_ms(ms: u64) -> Instant {
        Instant::from_ns(ms * 1_000_000)
    }

    fn commands(load: &mut Load, now: Instant) -> Vec<Command> {
        std::iter::from_fn(|| load.next_command(now)).collect()
    }

    fn good(command: Command) -> Completion {
        Completion {
            user: command.user,
            task: TaskTag(0),
            transfer: command.transfer,
            outcome: Ok(Answer {
                status: ScsiStatus::Good,
                residual: Residual::None,
                sense: Vec::new(),
            }),
        }
    }

    /// Runs a load on a disk that completes each I/O after 10 ms.
    fn run(config: &LoadConfig) -> Load {
        let mut load = load(config);
        let mut at_disk: Vec<(Instant, Command)> = Vec::new();
        let mut now = Instant::ZERO;
        while !load.is_over() {
            let asked = commands(&mut load, now);
            assert!(at_disk.len() + asked.len() <= config.parallel);
            let due = now + Duration::from_millis(10);
            at_disk.extend(asked.into_iter().map(|command| (due, command)));
            let next = at_disk.iter().map(|(due, _)| *due).min();
            now = load.wakes_at(now).min(next.unwrap_or(Instant::FAR_FUTURE));
            assert!(
                now < Instant::FAR_FUTURE,
                "nothing is to come, and it goes on"
            );
            let done = at_disk.extract_if(.., |(due, _)| *due <= now);
            for (_, command) in done.collect::<Vec<_>>() {
                load.completed(good(command), now);
            }
            load.advance(now);
        }
        load
    }

    #[test]
    fn a_closed_loop_keeps_all_in_flight() {
        let report = run(&config()).report();
        // Four per 10 ms, over 100 ms; those that complete at the end of the measurement do not count.
        assert_eq!((report.ios, report.elapsed_s), (40, 0.1));
        let latency = report.latency_ns.expect("some were measured");
        assert!(latency.min.abs_diff(10_000_000) < 10_000, "{latency:?}");
    }

    #[test]
    fn a_rate_is_kept_where_the_disk_keeps_up() {
        let config = LoadConfig {
            rate_per_s: Some(200.0),
            ..config()
        };
        assert_eq!(run(&config).report().ios, 20);
    }

    #[test]
    fn a_count_ends_it_exactly() {
        let config = LoadConfig {
            limit: Limit::Count(10),
            warmup: Duration::ZERO,
            ..config()
        };
        let load = run(&config);
        assert_eq!((load.report().ios, load.all), (10, 10));
    }

    #[test]
    fn a_batch_waits_for_all_of_the_last() {
        let config = LoadConfig {
            batch: true,
            ..config()
        };
        let mut load = load(&config);
        let mut first = commands(&mut load, Instant::ZERO);
        assert_eq!(first.len(), 4);
        let last = first.pop().expect("four");
        for command in first {
            load.completed(good(command), at_ms(1));
        }
        assert!(commands(&mut load, at_ms(1)).is_empty());
        load.completed(good(last), at_ms(2));
        assert_eq!(commands(&mut load, at_ms(2)).len(), 4);
    }

    #[test]
    fn what_was_written_is_read_back_and_compared() {
        let config = LoadConfig {
            operation: Operation::Write,
            verify: true,
            limit: Limit::Count(2),
            warmup: Duration::ZERO,
            ..config()
        };
        let mut load = load(&config);
        for command in commands(&mut load, Instant::ZERO) {
            load.completed(good(command), at_ms(1));
        }
        load.advance(at_ms(1));
        assert!(!load.is_loading() && !load.is_over());
        // The disk has kept zeros.
        for command in commands(&mut load, at_ms(1)) {
            load.completed(good(command), at_ms(2));
        }
        load.advance(at_ms(2));
        assert!(load.is_over());
        let report = load.report();
        assert_eq!((report.verified, report.corrupt), (2, 2));
    }

    #[test]
    fn the_last_ios_are_given_up_without_a_connection_only_and_after_an_attempt() {
        let seconds = Duration::from_secs;
        let drains = |drain| {
            let mut load = load(&LoadConfig { drain, ..config() });
            let asked = commands(&mut load, Instant::ZERO);
            assert_eq!(asked.len(), 4);
            load.advance(at_ms(150));
            load
        };
        let load = drains(Some(seconds(10)));
        let gives_up = |s, cut_off, attempt| {
            load.gives_up(at_ms(150) + seconds(s), seconds(cut_off), seconds(attempt))
        };
        assert!(gives_up(11, 11, 0) && gives_up(11, 20, 0));
        assert!(!gives_up(10, 20, 0) && !gives_up(20, 10, 0) && !gives_up(100, 0, 0));
        assert!(!gives_up(12, 12, 2) && gives_up(13, 13, 2));
        assert!(!drains(None).gives_up(at_ms(1_000_000), seconds(900), seconds(0)));
    }

    #[test]
    fn one_that_failed_is_counted_without_a_latency() {
        let mut load = load(&LoadConfig {
            warmup: Duration::ZERO,
            ..config()
        });
        for command in commands(&mut load, Instant::ZERO) {
            let outcome = Err(TaskError::Rejected(9));
            let completion = Completion {
                outcome,
                ..good(command)
            };
            load.completed(completion, at_ms(1));
        }
        let report = load.report();
        assert_eq!((report.ios, report.errors), (0, 4));
    }
}
