//! A journal over a cache over a disk with a volatile cache, under program crashes, power failures of the host, and
//! restarts of the target. Writes covered by an acknowledged flush are never lost, and the disk always holds a state of
//! the past.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use proptest::prelude::*;
use wansan_cache::{
    Action, Answer, Cache, CacheConfig, Counters, Failure, Journal, JournalConfig, JournalFile,
    OpenError, Operation, Outcome, Range,
};
use wansan_trace::Instant;

/// Disk size in blocks, and block size: a record spans several sectors, any of which may be torn.
const SIZE: u64 = 64;
const BLOCK: u64 = 64;
const RING_BYTES: u64 = 32 << 10;
const IDENTITY: [u8; 32] = [7; 32];

/// A file on a host: its durable contents, and the writes since.
#[derive(Debug, Default)]
struct Content {
    bytes: Vec<u8>,
    durable: Vec<u8>,
    unsynced: Vec<(u64, Vec<u8>)>,
    /// Number of these covered by the outstanding sync.
    syncing: Option<usize>,
}

impl Content {
    fn write(bytes: &mut Vec<u8>, place: u64, data: &[u8]) {
        let end = place as usize + data.len();
        if bytes.len() < end {
            bytes.resize(end, 0);
        }
        bytes[place as usize..end].copy_from_slice(data);
    }

    fn sync(&mut self, count: usize) {
        for (place, data) in self.unsynced.drain(..count) {
            Self::write(&mut self.durable, place, &data);
        }
    }

    /// Power failure of the host: any subset of the unsynced sectors may be on its disk.
    fn lose_power(&mut self, random: &mut impl FnMut() -> u64) {
        for (place, data) in std::mem::take(&mut self.unsynced) {
            for (at, sector) in data.chunks(512).enumerate() {
                if random().is_multiple_of(2) {
                    Self::write(&mut self.durable, place + 512 * at as u64, sector);
                }
            }
        }
        self.bytes = self.durable.clone();
        self.syncing = None;
    }
}

#[derive(Debug, Clone, Default)]
struct File(Rc<RefCell<Content>>);

impl File {
    /// Sets the file's length, as the creator of a journal does.
    fn allocate(&self) {
        let mut content = self.0.borrow_mut();
        content.bytes = vec![0; RING_BYTES as usize + (16 << 10)];
        content.durable = content.bytes.clone();
    }
}

impl JournalFile for File {
    fn write_at(&mut self, place: u64, data: &[u8]) -> Result<(), Failure> {
        let mut content = self.0.borrow_mut();
        Content::write(&mut content.bytes, place, data);
        content.unsynced.push((place, data.to_vec()));
        Ok(())
    }

    fn read_at(&mut self, place: u64, into: &mut [u8]) -> Result<(), Failure> {
        let content = self.0.borrow();
        let from = content
            .bytes
            .get(place as usize..place as usize + into.len());
        into.copy_from_slice(from.ok_or(Failure::Io)?);
        Ok(())
    }

    fn sync(&mut self) -> Result<(), Failure> {
        let mut content = self.0.borrow_mut();
        let all = content.unsynced.len();
        content.sync(all);
        Ok(())
    }
}

#[derive(Debug, Clone)]
enum Step {
    Read(u64, u64),
    Write(u64, u64, bool),
    Zero(u64, u64, bool),
    Flush,
    /// The disk executes one of its outstanding operations.
    Work(usize),
    /// The answer to an executed operation arrives.
    Arrive(usize),
    /// A sync of the file completes.
    Sync,
    /// The program is killed.
    Kill,
    /// The host loses power.
    LosePower(u64),
    /// The target loses power, and the session with it.
    Restart(u64),
    Wait(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let range = || (0..SIZE).prop_flat_map(|start| (Just(start), 1..=(SIZE - start).min(24)));
    prop_oneof![
        6 => range().prop_map(|(start, bytes)| Step::Read(start, bytes)),
        10 => (range(), prop::bool::weighted(0.15)).prop_map(|((start, bytes), fua)| Step::Write(start, bytes, fua)),
        2 => (range(), prop::bool::weighted(0.3)).prop_map(|((start, bytes), fua)| Step::Zero(start, bytes, fua)),
        3 => Just(Step::Flush),
        12 => any::<usize>().prop_map(Step::Work),
        12 => any::<usize>().prop_map(Step::Arrive),
        6 => Just(Step::Sync),
        1 => Just(Step::Kill),
        1 => any::<u64>().prop_map(Step::LosePower),
        1 => any::<u64>().prop_map(Step::Restart),
        2 => (0_u64..2000).prop_map(Step::Wait),
    ]
}

/// A change of one block.
#[derive(Debug, Clone, Copy)]
struct Change {
    value: u8,
    asked: usize,
    acknowledged: usize,
    /// A loss of power of the host at this step or later leaves it.
    safe: usize,
    /// The flushes before it was submitted, and before it was acknowledged.
    epochs: [usize; 2],
    /// A crash may have lost it.
    is_lost: bool,
}

const NEVER: usize = usize::MAX;

#[derive(Debug)]
enum Open {
    Read(Range),
    /// A change of a range, and whether it is durable when answered.
    Change(Range, bool),
    Flush,
}

struct World {
    file: File,
    journal: Journal<File>,
    cache: Cache,
    now: Instant,
    step: usize,
    epoch: usize,
    /// The changes of each block.
    blocks: Vec<Vec<Change>>,
    open: BTreeMap<u64, (usize, Open)>,
    operations: Vec<Operation>,
    answers: Vec<(u64, Outcome)>,
    disk: Vec<u8>,
    /// Possible contents of the medium after a power failure of the target, per block.
    medium: Vec<Vec<u8>>,
}

/// The byte range of a range of blocks.
fn bytes_of(range: Range) -> Range {
    Range::new(range.start * BLOCK, range.bytes() * BLOCK)
}

/// The blocks of a byte range.
fn blocks(range: Range) -> std::ops::Range<usize> {
    (range.start / BLOCK) as usize..(range.end / BLOCK) as usize
}

fn config() -> JournalConfig {
    JournalConfig {
        identity: IDENTITY,
        ring_bytes: RING_BYTES,
        burst_bytes: 16 * BLOCK,
        operations: 4,
        marks: false,
    }
}

fn cache() -> Cache {
    Cache::new(CacheConfig {
        size_bytes: SIZE * BLOCK,
        writes_behind: false,
        write_bytes: 0,
        read_ahead_bytes: 64 * BLOCK,
        burst_bytes: 16 * BLOCK,
        unflushed_changes: 64,
        merge_time: Duration::ZERO,
        writes_in_flight: 3,
        // The journal keeps unflushed writes.
        is_volatile: false,
        marks: false,
    })
}

impl World {
    fn new() -> World {
        let file = File::default();
        file.allocate();
        World {
            journal: Journal::create(file.clone(), config()).expect("a file in memory"),
            file,
            cache: cache(),
            now: Instant::from_ns(1_000_000_000),
            step: 0,
            epoch: 0,
            blocks: vec![Vec::new(); SIZE as usize],
            open: BTreeMap::new(),
            operations: Vec::new(),
            answers: Vec::new(),
            disk: vec![0; SIZE as usize],
            medium: vec![vec![0]; SIZE as usize],
        }
    }

    fn ask(&mut self, action: Action, open: Open, value: u8, ends_epoch: bool) {
        if let Open::Change(range, _) = open {
            for at in range.start..range.end {
                self.blocks[at as usize].push(Change {
                    value,
                    asked: self.step,
                    acknowledged: NEVER,
                    safe: NEVER,
                    epochs: [self.epoch, NEVER],
                    is_lost: false,
                });
            }
        }
        let request = self.step as u64;
        self.open.insert(request, (self.step, open));
        self.journal.submit(request, action, self.now);
        self.epoch += usize::from(ends_epoch);
    }

    /// Whether a read submitted at `asked` may return this value for a block.
    fn may_be(&self, at: usize, value: u8, asked: usize) -> bool {
        let changes = &self.blocks[at];
        let is_hidden = |index: usize| {
            changes[index + 1..]
                .iter()
                .any(|other| !other.is_lost && other.acknowledged < asked)
        };
        let is_first = value == 0
            && !changes
                .iter()
                .any(|change| !change.is_lost && change.acknowledged < asked);
        is_first
            || (0..changes.len()).any(|index| changes[index].value == value && !is_hidden(index))
    }

    /// Checks that the disk holds a state of the past: one epoch in part, all earlier ones in full, nothing of later
    /// ones.
    fn check_past(&self) -> Result<(), TestCaseError> {
        let fits = |epoch: usize| (0..SIZE as usize).all(|at| self.may_be_in(at, epoch));
        let is_past = (0..=self.epoch).any(fits);
        prop_assert!(
            is_past,
            "no state of the past: {:?} of {:?}",
            self.disk,
            self.blocks
        );
        Ok(())
    }

    /// Whether a block's contents are possible when `epoch` is there in part.
    fn may_be_in(&self, at: usize, epoch: usize) -> bool {
        let value = self.disk[at];
        for change in self.blocks[at].iter().rev() {
            let [asked, acknowledged] = change.epochs;
            if asked <= epoch && change.value == value {
                return true;
            }
            // All of it is there, and nothing older.
            if !change.is_lost && acknowledged < epoch {
                return false;
            }
        }
        value == 0
    }

    fn settle(&mut self) -> Result<(), TestCaseError> {
        loop {
            let mut is_quiet = true;
            while let Some(Operation { tag, action }) = self.journal.poll_operation(self.now) {
                is_quiet = false;
                self.cache.submit(tag, action, self.now);
            }
            while let Some(operation) = self.cache.poll_operation(self.now) {
                is_quiet = false;
                self.operations.push(operation);
            }
            while let Some(done) = self.cache.poll_done() {
                is_quiet = false;
                self.journal.completed(done.request, done.outcome, self.now);
            }
            if self.journal.poll_sync() {
                is_quiet = false;
                let mut content = self.file.0.borrow_mut();
                content.syncing = Some(content.unsynced.len());
            }
            while let Some(done) = self.journal.poll_done() {
                is_quiet = false;
                self.answered(done.request, done.outcome)?;
            }
            if is_quiet {
                return Ok(());
            }
        }
    }

    fn answered(&mut self, request: u64, outcome: Outcome) -> Result<(), TestCaseError> {
        let Some((asked, open)) = self.open.remove(&request) else {
            return Err(TestCaseError::fail("answered twice"));
        };
        match (open, outcome) {
            (Open::Read(range), Ok(Answer::Data(data))) => {
                for (at, block) in (range.start as usize..).zip(data.chunks(BLOCK as usize)) {
                    let value = block[0];
                    let is_whole = block.iter().all(|byte| *byte == value);
                    prop_assert!(is_whole, "block {at} is torn: {block:?}");
                    prop_assert!(
                        self.may_be(at, value, asked),
                        "block {at} read as {value}: {:?}",
                        self.blocks[at]
                    );
                }
            }
            (Open::Change(range, is_durable), Ok(Answer::Done)) => {
                for at in range.start..range.end {
                    let change = self.blocks[at as usize]
                        .iter_mut()
                        .find(|change| change.asked == asked);
                    let change = change.expect("it was asked for");
                    change.acknowledged = self.step;
                    change.epochs[1] = self.epoch;
                    if is_durable {
                        change.safe = self.step;
                    }
                }
            }
            (Open::Flush, Ok(Answer::Done)) => {
                // Changes acknowledged before the flush was submitted survive from now on.
                for change in self.blocks.iter_mut().flatten() {
                    if change.acknowledged < asked {
                        change.safe = change.safe.min(self.step);
                    }
                }
            }
            (open, outcome) => return Err(TestCaseError::fail(format!("{open:?}: {outcome:?}"))),
        }
        Ok(())
    }

    fn work(&mut self, at: usize) {
        let Operation { tag, action } = self.operations.swap_remove(at);
        let outcome: Outcome = Ok(match action {
            Action::Read { range } => {
                let blocks = self.disk[blocks(range)].iter();
                Answer::Data(blocks.flat_map(|value| [*value; BLOCK as usize]).collect())
            }
            Action::Write {
                offset_bytes, data, ..
            } => {
                let range = Range::new(offset_bytes, data.len() as u64);
                let values: Vec<u8> = data.iter().step_by(BLOCK as usize).copied().collect();
                self.change(range, &values);
                Answer::Done
            }
            Action::Zero { range, .. } => {
                self.change(range, &vec![0; blocks(range).len()]);
                Answer::Done
            }
            Action::Flush => {
                self.medium = self.disk.iter().map(|byte| vec![*byte]).collect();
                Answer::Done
            }
            other => panic!("the disk is asked for {other:?}"),
        });
        self.answers.push((tag, outcome));
    }

    fn change(&mut self, range: Range, values: &[u8]) {
        for (at, value) in blocks(range).zip(values) {
            self.disk[at] = *value;
            self.medium[at].push(*value);
        }
    }

    /// The program crashes and restarts.
    fn crash(&mut self, power: Option<u64>) -> Result<(), TestCaseError> {
        let mut state = power.unwrap_or_default();
        let mut random = move || {
            state = state
                .wrapping_mul(0x5851_f42d_4c95_7f2d)
                .wrapping_add(0x1405_7b7e_f767_814f);
            state >> 33
        };
        if power.is_some() {
            self.file.0.borrow_mut().lose_power(&mut random);
        }
        self.file.0.borrow_mut().syncing = None;
        for change in self.blocks.iter_mut().flatten() {
            let survives = match power {
                // Data that the kernel has do not depend on the program.
                None => change.acknowledged != NEVER,
                Some(_) => change.safe != NEVER,
            };
            change.is_lost |= !survives;
        }
        self.open.clear();
        // Operations outstanding at the target may or may not be executed.
        while !self.operations.is_empty() {
            match random() % 2 {
                0 => self.work(0),
                _ => drop(self.operations.remove(0)),
            }
        }
        self.answers.clear();
        self.cache = cache();
        self.journal = Journal::open(self.file.clone(), config())
            .map_err(|error| TestCaseError::fail(format!("{error:?}")))?;
        self.epoch += 1;
        Ok(())
    }

    /// The target loses unflushed writes; outstanding operations are sent again.
    fn restart(&mut self, seed: u64) {
        let mut state = seed;
        for at in 0..SIZE as usize {
            state = state
                .wrapping_mul(0x5851_f42d_4c95_7f2d)
                .wrapping_add(0x1405_7b7e_f767_814f);
            let left = &self.medium[at];
            self.disk[at] = left[(state >> 33) as usize % left.len()];
            self.medium[at] = vec![self.disk[at]];
        }
        self.journal.again();
    }

    fn play(&mut self, step: &Step) -> Result<(), TestCaseError> {
        self.step += 1;
        let value = (self.step % 251) as u8 + 1;
        match *step {
            Step::Read(start, bytes) => {
                let range = Range::new(start, bytes);
                let open = Open::Read(range);
                let range = bytes_of(range);
                self.ask(Action::Read { range }, open, 0, false);
            }
            Step::Write(start, count, fua) => {
                let range = Range::new(start, count);
                let data = vec![value; bytes_of(range).bytes() as usize];
                let offset_bytes = bytes_of(range).start;
                let open = Open::Change(range, fua);
                self.ask(
                    Action::Write {
                        offset_bytes,
                        data,
                        fua,
                    },
                    open,
                    value,
                    fua,
                );
            }
            Step::Zero(start, bytes, fua) => {
                let range = Range::new(start, bytes);
                let (may_unmap, fast) = (true, false);
                self.ask(
                    Action::Zero {
                        range: bytes_of(range),
                        fua,
                        may_unmap,
                        fast,
                    },
                    Open::Change(range, fua),
                    0,
                    fua,
                );
            }
            Step::Flush => self.ask(Action::Flush, Open::Flush, 0, true),
            Step::Work(at) if !self.operations.is_empty() => {
                self.work(at % self.operations.len());
            }
            Step::Arrive(at) if !self.answers.is_empty() => {
                let (tag, outcome) = self.answers.swap_remove(at % self.answers.len());
                self.cache.completed(tag, outcome, self.now);
            }
            Step::Sync => self.end_sync(),
            Step::Kill => self.crash(None)?,
            Step::LosePower(seed) => self.crash(Some(seed))?,
            Step::Restart(seed) => self.restart(seed),
            Step::Wait(ms) => self.now += Duration::from_millis(ms),
            Step::Work(_) | Step::Arrive(_) => {}
        }
        self.settle()?;
        self.check_past()
    }

    fn end_sync(&mut self) {
        let syncing = self.file.0.borrow_mut().syncing.take();
        if let Some(count) = syncing {
            self.file.0.borrow_mut().sync(count);
            self.journal.synced(Ok(()));
        }
    }

    fn drain(&mut self) -> Result<(), TestCaseError> {
        for _ in 0..20_000 {
            self.step += 1;
            self.now += Duration::from_millis(100);
            if !self.operations.is_empty() {
                self.work(0);
            }
            if !self.answers.is_empty() {
                let (tag, outcome) = self.answers.remove(0);
                self.cache.completed(tag, outcome, self.now);
            }
            self.end_sync();
            self.settle()?;
            self.check_past()?;
            if self.journal.is_idle() {
                return Ok(());
            }
        }
        Err(TestCaseError::fail("it never comes to rest"))
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn crashes_leave_what_was_flushed_and_the_disk_a_state_of_the_past(
        steps in prop::collection::vec(step(), 1..200),
    ) {
        let mut world = World::new();
        for step in steps {
            world.play(&step)?;
        }
        world.drain()?;
        prop_assert!(world.open.is_empty());
        // A final power failure of the target: its medium must have everything.
        world.restart(1);
        for at in 0..SIZE as usize {
            let value = world.disk[at];
            let right = world.may_be(at, value, world.step + 1);
            prop_assert!(right, "block {at} is left as {value}: {:?}", world.blocks[at]);
        }
    }

    #[test]
    fn what_is_no_journal_is_refused(bytes in prop::collection::vec(any::<u8>(), 0..20_000)) {
        let file = File::default();
        file.allocate();
        file.0.borrow_mut().bytes[..bytes.len()].copy_from_slice(&bytes);
        prop_assert_eq!(Journal::open(file.clone(), config()).err(), Some(OpenError::NoJournal));
        file.0.borrow_mut().bytes = Vec::new();
        prop_assert!(matches!(Journal::open(file, config()).err(), Some(OpenError::File(_))));
    }
}

#[test]
fn a_record_behind_a_torn_one_never_comes_back() {
    let mut world = World::new();
    // The first record is torn, the second is intact. Another record replaces the first and is written back, so that
    // the second lies where the oldest would be.
    let steps = [
        Step::Write(0, 1, false),
        Step::Zero(0, 12, false),
        Step::LosePower(5_641_808_237_826_355_912),
        Step::Write(0, 1, false),
        Step::Work(0),
        Step::Arrive(0),
        Step::Work(0),
        Step::Arrive(0),
        Step::Kill,
        Step::Read(0, 1),
    ];
    for step in &steps {
        world.play(step).expect("the latest data are read");
    }
}

#[test]
fn another_disks_journal_is_refused() {
    let file = File::default();
    drop(Journal::create(file.clone(), config()).expect("a file in memory"));
    let other = JournalConfig {
        identity: [8; 32],
        ..config()
    };
    assert_eq!(Journal::open(file, other).err(), Some(OpenError::OtherDisk));
}

#[test]
fn a_disk_that_does_not_trim_holds_up_nothing() {
    let file = File::default();
    let mut journal = Journal::create(file, config()).expect("a file in memory");
    let mut now = Instant::from_ns(1_000_000_000);
    let range = Range::new(0, BLOCK);
    journal.submit(0, Action::Trim { range, fua: false }, now);
    let data = vec![1; BLOCK as usize];
    let write = Action::Write {
        offset_bytes: BLOCK,
        data,
        fua: false,
    };
    journal.submit(1, write, now);
    for _ in 0..20 {
        now += Duration::from_millis(1);
        while let Some(Operation { tag, action }) = journal.poll_operation(now) {
            let outcome = match action {
                Action::Trim { .. } => Err(Failure::NotSupported),
                _ => Ok(Answer::Done),
            };
            journal.completed(tag, outcome, now);
        }
        if journal.poll_sync() {
            journal.synced(Ok(()));
        }
    }
    assert_eq!(journal.behind_bytes(), 0);
}

#[test]
fn what_programs_asked_for_is_counted() {
    let file = File::default();
    let mut journal = Journal::create(file, config()).expect("a file in memory");
    let now = Instant::from_ns(1_000_000_000);
    let write = |offset_bytes, fua| Action::Write {
        offset_bytes,
        data: vec![1; BLOCK as usize],
        fua,
    };
    let inside = Range::new(0, BLOCK);
    let outside = Range::new(4 * BLOCK, BLOCK);
    let actions = [
        write(0, false),
        write(BLOCK, true),
        Action::Flush,
        Action::Read { range: inside },
        Action::Read { range: outside },
    ];
    for (request, action) in (0..).zip(actions) {
        journal.submit(request, action, now);
    }
    // The cache below sees one burst for both writes, a flush from the journal itself, and the read passed through.
    let below = Counters {
        writes: 1,
        early_acks: 7,
        flushes: 7,
        bursts: 1,
        read_misses: 1,
        ..Counters::default()
    };
    let expected = Counters {
        writes: 2,
        early_acks: 2,
        flushes: 1,
        bursts: 1,
        read_hits: 1,
        read_misses: 1,
        ..Counters::default()
    };
    assert_eq!(journal.counters(below), expected);
}
