//! A cache over a disk that reorders operations, fails some and may lose power: all reads and the final contents are
//! ones that a disk with a volatile cache may give.

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;
use wansan_cache::{Action, Answer, Cache, CacheConfig, Failure, Operation, Outcome, Range};
use wansan_trace::Instant;

const SIZE: u64 = 96;

/// The next step.
#[derive(Debug, Clone)]
enum Step {
    Read(u64, u64),
    Write(u64, u64, bool),
    Zero(u64, u64, bool),
    Trim(u64, u64, bool),
    Flush,
    Prefetch(u64, u64),
    /// The disk executes one of its outstanding operations.
    Work(prop::sample::Index),
    /// The answer to an executed operation arrives.
    Arrive(prop::sample::Index),
    /// The disk fails a change or a flush after doing part of it.
    Fail(prop::sample::Index, u64),
    /// The disk loses power and unflushed writes; outstanding operations are sent again. Some of its answers are still
    /// in transit.
    Restart(u64),
    /// Time passes, in ms.
    Wait(u64),
    /// Others start or stop using the disk.
    Share(bool),
}

fn step() -> impl Strategy<Value = Step> {
    let range = || (0..SIZE).prop_flat_map(|start| (Just(start), 1..=(SIZE - start).min(24)));
    prop_oneof![
        4 => range().prop_map(|(start, bytes)| Step::Read(start, bytes)),
        4 => (range(), prop::bool::weighted(0.2)).prop_map(|((start, bytes), fua)| Step::Write(start, bytes, fua)),
        1 => (range(), any::<bool>()).prop_map(|((start, bytes), fua)| Step::Zero(start, bytes, fua)),
        1 => (range(), prop::bool::weighted(0.2)).prop_map(|((start, bytes), fua)| Step::Trim(start, bytes, fua)),
        1 => Just(Step::Flush),
        1 => range().prop_map(|(start, bytes)| Step::Prefetch(start, bytes)),
        6 => any::<prop::sample::Index>().prop_map(Step::Work),
        6 => any::<prop::sample::Index>().prop_map(Step::Arrive),
        1 => (any::<prop::sample::Index>(), any::<u64>()).prop_map(|(at, seed)| Step::Fail(at, seed)),
        1 => any::<u64>().prop_map(Step::Restart),
        2 => (0_u64..10).prop_map(Step::Wait),
        1 => any::<bool>().prop_map(Step::Share),
    ]
}

/// A change of one byte, with the steps of its submission and acknowledgement.
#[derive(Debug, Clone, Copy)]
struct Change {
    value: u8,
    asked: usize,
    acknowledged: usize,
    /// It was acknowledged once on the medium.
    is_durable: bool,
    /// A flush has reported its possible loss.
    is_given_up: bool,
}

const NEVER: usize = usize::MAX;

#[derive(Debug)]
enum Open {
    Read(Range),
    /// A change of a range, its value, and whether it is on the medium when answered.
    Change(Range, u8, bool),
    Flush,
    Other,
}

struct World {
    cache: Cache,
    now: Instant,
    step: usize,
    /// The changes of each byte.
    bytes: Vec<Vec<Change>>,
    open: BTreeMap<u64, (usize, Open)>,
    /// Acknowledged flushes, by the step of their submission.
    flushed: Vec<usize>,
    operations: Vec<Operation>,
    answers: Vec<(Operation, Outcome)>,
    disk: Vec<u8>,
    /// Possible contents of the medium after a power failure, per byte.
    medium: Vec<Vec<u8>>,
    /// The disk has failed: lost data need not read as written.
    has_failed: bool,
    /// Others have used the disk, so lost data were not rewritten.
    was_shared: bool,
}

/// A pseudorandom generator.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(0x5851_f42d_4c95_7f2d)
            .wrapping_add(0x1405_7b7e_f767_814f);
        (self.0 >> 33) as usize % bound
    }
}

impl World {
    fn new(writes_behind: bool, write_bytes: u64, unflushed_changes: usize) -> World {
        let config = CacheConfig {
            size_bytes: SIZE,
            writes_behind,
            write_bytes,
            read_ahead_bytes: 64,
            burst_bytes: 16,
            unflushed_changes,
            merge_time: Duration::from_millis(4),
            writes_in_flight: 3,
            is_volatile: true,
            marks: false,
        };
        World {
            cache: Cache::new(config),
            now: Instant::from_ns(1_000_000_000),
            step: 0,
            bytes: vec![Vec::new(); SIZE as usize],
            open: BTreeMap::new(),
            flushed: Vec::new(),
            operations: Vec::new(),
            answers: Vec::new(),
            disk: vec![0; SIZE as usize],
            medium: vec![vec![0]; SIZE as usize],
            has_failed: false,
            was_shared: false,
        }
    }

    fn ask(&mut self, action: Action, open: Open) {
        let request = self.step as u64;
        if let Open::Change(range, value, is_durable) = open {
            for at in range.start..range.end {
                self.bytes[at as usize].push(Change {
                    value,
                    asked: self.step,
                    acknowledged: NEVER,
                    is_durable,
                    is_given_up: false,
                });
            }
        }
        self.open.insert(request, (self.step, open));
        self.cache.submit(request, action, self.now);
    }

    /// Whether a read from step `asked` to `answered` may return this value for a byte: no other change certainly
    /// followed the one that made it.
    fn may_be(&self, at: usize, value: u8, asked: usize, answered: usize) -> bool {
        let changes = &self.bytes[at];
        let is_hidden = |acknowledged: usize| {
            changes
                .iter()
                .any(|other| other.asked > acknowledged && other.acknowledged < asked)
        };
        let first = value == 0 && changes.iter().all(|change| change.acknowledged >= asked);
        first
            || changes.iter().any(|change| {
                change.value == value && change.asked < answered && !is_hidden(change.acknowledged)
            })
    }

    /// Whether a change must be on the medium.
    fn is_safe(&self, change: &Change) -> bool {
        let is_after = |flush: &usize| *flush > change.acknowledged;
        change.acknowledged != NEVER
            && !change.is_given_up
            && (change.is_durable || self.flushed.iter().any(is_after))
    }

    /// Whether the medium may hold this value: no later change is certainly on it.
    fn may_be_left(&self, at: usize, value: u8) -> bool {
        let changes = &self.bytes[at];
        let is_hidden = |acknowledged: usize| {
            changes
                .iter()
                .any(|other| other.asked > acknowledged && self.is_safe(other))
        };
        let first = value == 0 && !changes.iter().any(|change| self.is_safe(change));
        first
            || changes
                .iter()
                .any(|change| change.value == value && !is_hidden(change.acknowledged))
    }

    /// A flush failed: changes acknowledged but not yet safe may be lost.
    fn give_up(&mut self, answered: usize) {
        for at in 0..self.bytes.len() {
            for place in 0..self.bytes[at].len() {
                let change = self.bytes[at][place];
                if change.acknowledged <= answered && !self.is_safe(&change) {
                    self.bytes[at][place].is_given_up = true;
                }
            }
        }
    }

    fn settle(&mut self) -> Result<(), TestCaseError> {
        while let Some(operation) = self.cache.poll_operation(self.now) {
            let range = operation.action.range();
            if !matches!(operation.action, Action::Read { .. } | Action::Flush) {
                for other in &self.operations {
                    let overlaps = !matches!(other.action, Action::Read { .. })
                        && other.action.range().overlaps(&range);
                    prop_assert!(!overlaps, "{operation:?} overlaps {other:?}");
                }
                for (other, _) in &self.answers {
                    let overlaps = !matches!(other.action, Action::Read { .. })
                        && other.action.range().overlaps(&range);
                    prop_assert!(!overlaps, "{operation:?} overlaps {other:?}");
                }
            }
            self.operations.push(operation);
        }
        while let Some(done) = self.cache.poll_done() {
            // Answers come between two steps: submissions at a step precede answers at the same step.
            let answered = self.step;
            let Some((asked, open)) = self.open.remove(&done.request) else {
                return Err(TestCaseError::fail("answered twice"));
            };
            match (open, done.outcome) {
                (Open::Read(range), Ok(Answer::Data(data))) => {
                    for (at, value) in (range.start..).zip(data) {
                        let is_right =
                            self.has_failed || self.may_be(at as usize, value, asked, answered + 1);
                        prop_assert!(
                            is_right,
                            "byte {at} read as {value}: {:?}",
                            self.bytes[at as usize]
                        );
                    }
                }
                (Open::Change(range, ..), Ok(Answer::Done)) => {
                    for at in range.start..range.end {
                        let change = self.bytes[at as usize]
                            .iter_mut()
                            .find(|change| change.asked == asked);
                        change.expect("it was asked for").acknowledged = answered;
                    }
                }
                (Open::Flush, Ok(Answer::Done)) => self.flushed.push(asked),
                (Open::Flush, Err(_)) if self.has_failed => self.give_up(answered),
                // A failed write leaves undefined data.
                (Open::Change(range, ..), Err(_)) if self.has_failed => {
                    for byte in &mut self.bytes[range.start as usize..range.end as usize] {
                        let before = byte.iter_mut().filter(|change| change.asked < asked);
                        before.for_each(|change| change.is_given_up = true);
                    }
                }
                (Open::Other, Ok(Answer::Done)) => {}
                (open, outcome) => {
                    return Err(TestCaseError::fail(format!("{open:?}: {outcome:?}")));
                }
            }
        }
        Ok(())
    }

    fn work(&mut self, at: usize) {
        let operation = self.operations.swap_remove(at);
        let Operation { tag, action } = &operation;
        let (tag, action) = (*tag, action.clone());
        let outcome: Outcome = Ok(match action {
            Action::Read { range } => {
                Answer::Data(self.disk[range.start as usize..range.end as usize].to_vec())
            }
            Action::Write {
                offset_bytes,
                data,
                fua,
            } => {
                self.change(offset_bytes, &data, fua);
                Answer::Done
            }
            // Its unmapped blocks read as zeros.
            Action::Zero { range, .. } | Action::Trim { range, .. } => {
                self.change(range.start, &vec![0; range.bytes() as usize], false);
                Answer::Done
            }
            Action::Flush => {
                self.medium = self.disk.iter().map(|byte| vec![*byte]).collect();
                Answer::Done
            }
            other => panic!("the disk is asked for {other:?}"),
        });
        self.answers.push((Operation { tag, ..operation }, outcome));
    }

    fn arrive(&mut self, at: usize) {
        let (operation, outcome) = self.answers.swap_remove(at);
        self.cache.completed(operation.tag, outcome, self.now);
    }

    /// Loses unflushed data: each byte of the medium becomes its flushed value, or any value written since.
    fn lose(&mut self, dice: &mut Dice) {
        for at in 0..SIZE as usize {
            let left = &self.medium[at];
            self.disk[at] = left[dice.below(left.len())];
            self.medium[at] = vec![self.disk[at]];
        }
    }

    fn restart(&mut self, seed: u64) {
        let mut dice = Dice(seed);
        self.lose(&mut dice);
        let (late, lost): (Vec<_>, Vec<_>) =
            self.answers.drain(..).partition(|_| dice.below(3) == 0);
        self.answers = late;
        self.operations
            .extend(lost.into_iter().map(|(operation, _)| operation));
        // Data that others changed are not rewritten, and a flush may report it.
        self.has_failed |= self.was_shared;
        self.cache.again(self.now);
    }

    fn fail(&mut self, at: usize, seed: u64) {
        let mut dice = Dice(seed);
        let is_read = matches!(self.operations[at].action, Action::Read { .. });
        if is_read {
            return;
        }
        self.has_failed = true;
        let operation = self.operations.swap_remove(at);
        match &operation.action {
            Action::Flush => self.lose(&mut dice),
            Action::Write {
                offset_bytes, data, ..
            } => {
                let done = dice.below(data.len() + 1);
                self.change(*offset_bytes, &data[..done], false);
            }
            _ => {}
        }
        self.answers.push((operation, Err(Failure::Io)));
    }

    fn change(&mut self, start: u64, data: &[u8], is_durable: bool) {
        for (at, value) in (start as usize..).zip(data) {
            self.disk[at] = *value;
            match is_durable {
                true => self.medium[at] = vec![*value],
                false => self.medium[at].push(*value),
            }
        }
    }

    fn play(&mut self, step: &Step) -> Result<(), TestCaseError> {
        self.step += 1;
        let value = (self.step % 251) as u8 + 1;
        match *step {
            Step::Read(start, bytes) => {
                let range = Range::new(start, bytes);
                self.ask(Action::Read { range }, Open::Read(range));
            }
            Step::Write(offset_bytes, bytes, fua) => {
                let range = Range::new(offset_bytes, bytes);
                let data = vec![value; bytes as usize];
                let is_durable = fua;
                self.ask(
                    Action::Write {
                        offset_bytes,
                        data,
                        fua,
                    },
                    Open::Change(range, value, is_durable),
                );
            }
            Step::Zero(start, bytes, fua) => {
                let range = Range::new(start, bytes);
                let (may_unmap, fast) = (true, false);
                self.ask(
                    Action::Zero {
                        range,
                        fua,
                        may_unmap,
                        fast,
                    },
                    Open::Change(range, 0, fua),
                );
            }
            Step::Trim(start, bytes, fua) => {
                let range = Range::new(start, bytes);
                self.ask(Action::Trim { range, fua }, Open::Change(range, 0, fua));
            }
            Step::Flush => self.ask(Action::Flush, Open::Flush),
            Step::Prefetch(start, bytes) => {
                let range = Range::new(start, bytes);
                self.ask(Action::Prefetch { range }, Open::Other);
            }
            Step::Work(at) if !self.operations.is_empty() => {
                self.work(at.index(self.operations.len()));
            }
            Step::Arrive(at) if !self.answers.is_empty() => {
                self.arrive(at.index(self.answers.len()));
            }
            Step::Fail(at, seed) if !self.operations.is_empty() => {
                self.fail(at.index(self.operations.len()), seed);
            }
            Step::Work(_) | Step::Arrive(_) | Step::Fail(..) => {}
            Step::Restart(seed) => self.restart(seed),
            Step::Wait(ms) => self.now += Duration::from_millis(ms),
            Step::Share(is_shared) => {
                self.was_shared |= is_shared;
                self.cache.share(is_shared);
            }
        }
        self.settle()
    }

    /// The disk executes all remaining operations.
    fn drain(&mut self) -> Result<(), TestCaseError> {
        for _ in 0..10_000 {
            self.step += 1;
            self.now += Duration::from_millis(1);
            if !self.operations.is_empty() {
                self.work(0);
            }
            if !self.answers.is_empty() {
                self.arrive(0);
            }
            self.settle()?;
            if self.cache.is_idle() {
                return Ok(());
            }
        }
        Err(TestCaseError::fail("it never comes to rest"))
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn a_program_sees_a_disk_with_a_volatile_cache(
        steps in prop::collection::vec(step(), 1..120),
        writes_behind in any::<bool>(),
        write_bytes in prop::sample::select(vec![0, 8, 40, 1000]),
        unflushed_changes in prop::sample::select(vec![0, 1, 2, 3, 1000]),
        loses_power in any::<bool>(),
    ) {
        let mut world = World::new(writes_behind, write_bytes, unflushed_changes);
        for step in steps {
            world.play(&step)?;
        }
        if loses_power {
            for at in 0..SIZE as usize {
                for value in &world.medium[at] {
                    let is_right = world.may_be_left(at, *value);
                    prop_assert!(is_right, "byte {at} is left as {value}: {:?}, flushed {:?}", world.bytes[at], world.flushed);
                }
            }
            return Ok(());
        }
        world.drain()?;
        world.play(&Step::Flush)?;
        world.drain()?;
        prop_assert!(world.open.is_empty());
        // All of it is on the medium.
        world.restart(1);
        let end = world.step + 1;
        for at in 0..SIZE as usize {
            let value = world.disk[at];
            let is_right = match world.has_failed {
                true => world.may_be_left(at, value),
                false => world.may_be(at, value, end, end),
            };
            prop_assert!(is_right, "byte {at} is {value}: {:?}", world.bytes[at]);
        }
        prop_assert_eq!(world.cache.behind_bytes(), 0);
    }
}
