//! Sessions that are lost while commands are outstanding: acknowledged results stay.

use std::collections::HashSet;

use wansan_iscsi::initiator::{AdmitError, Completion, TaskError, Transfer};
use wansan_iscsi::keys::Wanted;
use wansan_iscsi::scsi::{AdditionalSense, Sense, cdb};
use wansan_iscsi::target::Work;
use wansan_iscsi::wire::{ScsiStatus, TaskManagementFunction};

use super::management::manage;
use super::pair::{BLOCK_BYTES, Pair};

/// Few blocks, so that writes overlap.
const BLOCKS: usize = 24;
const FLUSH: u64 = u64::MAX;

/// A caller that does not wait for one write before it submits another to the same blocks.
struct Rash {
    pair: Pair,
    seed: u64,
    /// The blocks of each write, by its number.
    writes: Vec<(usize, usize)>,
    told: HashSet<u64>,
    flushes: usize,
}

impl Rash {
    fn write(&mut self) {
        let first = self.pair.random_below(BLOCKS);
        let blocks = 1 + self.pair.random_below(4);
        let number = self.writes.len() as u64;
        let data = number.to_le_bytes().repeat(blocks * BLOCK_BYTES / 8);
        self.pair.write(first as u64, data, number);
        self.writes.push((first, first + blocks));
    }

    /// Lets the store complete one of its operations.
    fn store_works(&mut self) {
        if self.pair.held.is_empty() {
            return;
        }
        let any = self.pair.random_below(self.pair.held.len());
        let work = self.pair.held.swap_remove(any);
        if let Work::Write { data, .. } = &work {
            let number = u64::from_le_bytes(data[..8].try_into().unwrap());
            self.may_be_written(number);
        }
        self.pair.answer(work);
    }

    /// Fails if this write undoes an acknowledged one.
    fn may_be_written(&self, number: u64) {
        let (first, end) = self.writes[number as usize];
        for &told in &self.told {
            let (from, to) = self.writes[told as usize];
            let undone = told >= number && from < end && first < to;
            let Rash { seed, .. } = self;
            assert!(
                !undone,
                "seed {seed}: write {number} comes after {told} was told"
            );
        }
    }

    fn take(&mut self, done: Vec<Completion>) {
        for done in done {
            let answer = done.outcome.unwrap();
            assert_eq!(answer.status, ScsiStatus::Good, "seed {}", self.seed);
            if done.user == FLUSH {
                self.flushes -= 1;
            } else {
                assert!(
                    self.told.insert(done.user),
                    "seed {}: told twice",
                    self.seed
                );
            }
        }
    }
}

#[test]
fn what_was_told_is_not_undone_by_what_is_sent_again() {
    for seed in 0..40 {
        let wanted = Wanted {
            first_burst_bytes: 1024,
            ..Wanted::default()
        };
        let mut rash = Rash {
            pair: Pair::new(wanted.clone(), wanted, 16, seed),
            seed,
            writes: Vec::new(),
            told: HashSet::new(),
            flushes: 0,
        };
        rash.pair.hold_store = true;
        for _ in 0..300 {
            match rash.pair.random_below(16) {
                0..6 if rash.pair.initiator.in_flight() < 40 => rash.write(),
                6 if rash.pair.initiator.in_flight() < 40 => {
                    let flush = cdb::synchronize_cache(0, 0, false);
                    rash.pair.submit(flush, Transfer::None, FLUSH);
                    rash.flushes += 1;
                }
                7 if rash.pair.random_below(4) == 0 => rash.pair.reinstate(),
                7..9 => drop(rash.pair.towards_target().unwrap()),
                9 => drop(rash.pair.towards_initiator()),
                _ => {
                    rash.store_works();
                    let done = rash.pair.settle();
                    rash.take(done);
                }
            }
        }
        while rash.pair.initiator.in_flight() > 0 {
            rash.store_works();
            let done = rash.pair.settle();
            rash.take(done);
        }
        assert_eq!((rash.told.len(), rash.flushes), (rash.writes.len(), 0));
    }
}

#[test]
fn the_answer_of_a_write_waits_for_an_older_one_of_the_same_blocks() {
    let mut pair = Pair::new(Wanted::default(), Wanted::default(), 16, 5);
    pair.hold_store = true;
    pair.write(3, vec![1; 2 * BLOCK_BYTES], 0);
    pair.write(4, vec![2; 2 * BLOCK_BYTES], 1);
    pair.write(8, vec![3; BLOCK_BYTES], 2);
    assert!(pair.settle().is_empty());
    let (first, second, third) = (
        pair.held.remove(0),
        pair.held.remove(0),
        pair.held.remove(0),
    );
    pair.answer(second);
    pair.answer(third);
    let users = |done: Vec<Completion>| done.iter().map(|done| done.user).collect::<Vec<_>>();
    assert_eq!(users(pair.settle_good()), [2]);
    pair.answer(first);
    assert_eq!(users(pair.settle_good()), [0, 1]);
}

#[test]
fn a_command_that_must_not_run_twice_is_given_up() {
    let mut pair = Pair::new(Wanted::default(), Wanted::default(), 16, 5);
    let mut compare_and_write = [0; 16];
    compare_and_write[0] = 0x89;
    compare_and_write[13] = 1;
    let data = vec![0; 2 * BLOCK_BYTES];
    let now = pair.now();
    pair.submit(compare_and_write, Transfer::Write(data), 7);
    pair.initiator.pump(now, &mut pair.trace);
    pair.reinstate();
    let done = pair.settle();
    assert_eq!(done[0].outcome, Err(TaskError::Unsure));
}

#[test]
fn a_connection_of_another_session_is_not_taken_in() {
    let mut pair = Pair::new(Wanted::default(), Wanted::default(), 16, 6);
    let other = pair.lead_another(1);
    let tsih = 7;
    assert_eq!(
        pair.initiator.admit(other),
        Err(AdmitError::OtherSession { tsih })
    );
    let same_cid = pair.begin_to_join(0);
    assert_eq!(pair.initiator.admit(same_cid), Err(AdmitError::Taken));
    let early = pair.begin_to_join(1);
    assert_eq!(pair.initiator.admit(early), Err(AdmitError::NotLoggedIn));
    let (now, leader) = (pair.now(), pair.lead_another(0));
    let leader = leader.into_session(0).unwrap();
    let taken = pair.initiator.reinstate(leader, now, &mut pair.trace);
    assert_eq!(taken, Err(AdmitError::Taken));
    assert_eq!(pair.initiator.connections().len(), 1);
}

/// The unit's report of a reset by another initiator reaches the caller.
pub(crate) fn reports_a_reset(pair: &mut Pair) {
    let mut other = pair.beside("other", 12);
    manage(&mut other, TaskManagementFunction::LogicalUnitReset, 0);
    other.settle();
    pair.read(0, 1, 2);
    let done = pair.settle();
    let answer = done[0].outcome.as_ref().unwrap();
    let sense = Sense::parse(&answer.sense).unwrap();
    assert_eq!(sense.additional, AdditionalSense::BUS_DEVICE_RESET);
}

#[test]
fn what_a_unit_says_of_a_lost_session_is_not_the_callers_business_and_later_resets_are() {
    let mut pair = Pair::new(Wanted::default(), Wanted::default(), 16, 7);
    pair.read(0, 1, 0);
    let now = pair.now();
    pair.initiator.pump(now, &mut pair.trace);
    pair.reinstate();
    let done = pair.settle();
    assert_eq!(done[0].outcome.as_ref().unwrap().status, ScsiStatus::Good);
    reports_a_reset(&mut pair);
}

#[test]
fn a_unit_that_says_nothing_of_a_lost_session_is_heard_from_its_first_answer_on() {
    let mut pair = Pair::new(Wanted::default(), Wanted::default(), 16, 8);
    // The target has ended the session itself.
    pair.target = pair.beside("spare", 13).target;
    pair.reinstate();
    pair.read(0, 1, 0);
    pair.settle_good();
    reports_a_reset(&mut pair);
}

/// Commands in the replacement session have made the unit report that it is another session.
#[test]
fn a_unit_that_was_asked_before_the_lost_session_goes_on_is_heard_from_then_on() {
    let mut pair = Pair::new(Wanted::default(), Wanted::default(), 16, 9);
    pair.read(0, 1, 0);
    let now = pair.now();
    pair.initiator.pump(now, &mut pair.trace);
    let lost = pair.lead_instead(1);
    pair.read(8, 1, 1);
    pair.settle_good();
    pair.go_on_as_led(lost);
    let done = pair.settle();
    assert_eq!(done[0].outcome.as_ref().unwrap().status, ScsiStatus::Good);
    assert_eq!(done[0].user, 0);
    reports_a_reset(&mut pair);
}
