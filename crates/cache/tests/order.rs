//! Ordering in a cache, and which flush reports a lost write.

use std::time::Duration;

use wansan_cache::{Action, Answer, Cache, CacheConfig, Failure, Operation, Outcome, Range};
use wansan_trace::Instant;

const BLOCK: u64 = 4096;

struct World {
    cache: Cache,
    now: Instant,
    requests: u64,
}

impl World {
    fn new(writes_behind: bool, write_bytes: u64) -> World {
        World::with(writes_behind, write_bytes, 1024)
    }

    fn with(writes_behind: bool, write_bytes: u64, unflushed_changes: usize) -> World {
        let cache = Cache::new(CacheConfig {
            size_bytes: 1 << 20,
            writes_behind,
            write_bytes,
            read_ahead_bytes: 0,
            burst_bytes: 64 << 10,
            unflushed_changes,
            merge_time: Duration::ZERO,
            writes_in_flight: 4,
            is_volatile: true,
            marks: false,
        });
        World {
            cache,
            now: Instant::from_ns(1_000_000_000),
            requests: 0,
        }
    }

    fn submit(&mut self, action: Action) -> u64 {
        self.requests += 1;
        self.cache.submit(self.requests, action, self.now);
        self.requests
    }

    /// Takes the operations issued now.
    fn given(&mut self) -> Vec<Operation> {
        self.now += Duration::from_millis(1);
        std::iter::from_fn(|| self.cache.poll_operation(self.now)).collect()
    }

    /// Takes the only operation issued now.
    fn only(&mut self) -> Operation {
        let mut given = self.given();
        assert_eq!(given.len(), 1);
        given.remove(0)
    }

    fn complete(&mut self, operation: &Operation, outcome: Outcome) {
        self.cache.completed(operation.tag, outcome, self.now);
    }

    fn done(&mut self) -> Vec<(u64, Outcome)> {
        let done = std::iter::from_fn(|| self.cache.poll_done());
        done.map(|done| (done.request, done.outcome)).collect()
    }
}

fn write(block: u64) -> Action {
    Action::Write {
        offset_bytes: block * BLOCK,
        data: vec![1; BLOCK as usize],
        fua: false,
    }
}

fn zero(block: u64) -> Action {
    Action::Zero {
        range: Range::new(block * BLOCK, BLOCK),
        fua: false,
        may_unmap: false,
        fast: false,
    }
}

fn trim(block: u64) -> Action {
    Action::Trim {
        range: Range::new(block * BLOCK, BLOCK),
        fua: false,
    }
}

fn status(block: u64) -> Action {
    Action::Status {
        range: Range::new(block * BLOCK, BLOCK),
        one: false,
    }
}

#[test]
fn each_flush_that_covers_a_part_of_a_lost_burst_says_so() {
    let mut world = World::new(true, 1 << 20);
    let early = world.submit(write(0));
    let first = world.submit(Action::Flush);
    let late = world.submit(write(1));
    let second = world.submit(Action::Flush);
    let burst = world.only();
    assert_eq!(burst.action.range().bytes(), 2 * BLOCK);
    world.complete(&burst, Err(Failure::Io));
    let flush = world.only();
    world.complete(&flush, Ok(Answer::Done));
    let done = Ok(Answer::Done);
    assert_eq!(
        world.done(),
        [
            (early, done.clone()),
            (late, done.clone()),
            (first, Err(Failure::Io)),
            (second, Err(Failure::Io)),
        ]
    );
    // Once each.
    let third = world.submit(Action::Flush);
    let flush = world.only();
    world.complete(&flush, done.clone());
    assert_eq!(world.done(), [(third, done)]);
}

#[test]
fn a_write_waits_for_zeros_that_came_before_it() {
    let mut world = World::new(true, 1 << 20);
    world.submit(write(0));
    let old = world.only();
    world.submit(zero(0));
    world.submit(write(0));
    world.complete(&old, Ok(Answer::Done));
    for expected in [zero(0), write(0)] {
        let next = world.only();
        assert_eq!(next.action, expected);
        world.complete(&next, Ok(Answer::Done));
    }
}

#[test]
fn a_trim_that_the_disk_lost_is_sent_again_and_not_what_it_replaced() {
    let mut world = World::new(true, 1 << 20);
    for action in [write(0), write(1), trim(0)] {
        world.submit(action.clone());
        let sent = world.only();
        assert_eq!(sent.action, action);
        world.complete(&sent, Ok(Answer::Done));
    }
    world.done();
    world.cache.again(world.now);
    // Meanwhile the disk may hold anything there; the program reads the zeros that it was promised.
    let range = Range::new(0, 2 * BLOCK);
    let read = world.submit(Action::Read { range });
    let data = [vec![0; BLOCK as usize], vec![1; BLOCK as usize]].concat();
    assert_eq!(world.done(), [(read, Ok(Answer::Data(data)))]);
    let flush = world.submit(Action::Flush);
    let sent = world.given();
    let actions: Vec<&Action> = sent.iter().map(|sent| &sent.action).collect();
    assert_eq!(actions, [&trim(0), &write(1)]);
    world.complete(&sent[0], Ok(Answer::Done));
    world.complete(&sent[1], Ok(Answer::Done));
    assert_eq!(world.done(), []);
    let flushed = world.only();
    assert_eq!(flushed.action, Action::Flush);
    world.complete(&flushed, Ok(Answer::Done));
    assert_eq!(world.done(), [(flush, Ok(Answer::Done))]);
    world.cache.again(world.now);
    assert_eq!(world.given(), []);
}

#[test]
fn a_status_that_was_under_way_when_the_disk_lost_power_is_asked_for_again() {
    let mut world = World::new(true, 1 << 20);
    world.submit(write(0));
    let written = world.only();
    world.complete(&written, Ok(Answer::Done));
    world.done();
    let asked = world.submit(status(0));
    let hole = world.only();
    world.cache.again(world.now);
    world.complete(&hole, Ok(Answer::Status(Vec::new())));
    assert_eq!(world.done(), []);
    let again = world.only();
    assert_eq!(again.action, write(0));
    world.complete(&again, Ok(Answer::Done));
    let data = world.only();
    assert_eq!(data.action, status(0));
    world.complete(&data, Ok(Answer::Status(Vec::new())));
    assert_eq!(world.done(), [(asked, Ok(Answer::Status(Vec::new())))]);
}

#[test]
fn steady_writes_do_not_hold_up_a_status() {
    let mut world = World::new(true, 1 << 20);
    world.submit(write(0));
    let old = world.only();
    let asked = world.submit(status(0));
    world.submit(write(0));
    assert_eq!(world.given(), []);
    world.complete(&old, Ok(Answer::Done));
    let given = world.given();
    let status = given
        .iter()
        .find(|operation| matches!(operation.action, Action::Status { .. }));
    let status = status.expect("older writes are at the disk");
    world.complete(status, Ok(Answer::Status(Vec::new())));
    let answered = world.done();
    assert!(answered.contains(&(asked, Ok(Answer::Status(Vec::new())))));
}

#[test]
fn a_flush_that_nobody_asked_for_and_that_fails_is_told_and_not_repeated() {
    let mut world = World::new(false, 0);
    world.submit(write(0));
    let written = world.only();
    world.complete(&written, Ok(Answer::Done));
    let flush = world.only();
    assert_eq!(flush.action, Action::Flush);
    world.complete(&flush, Err(Failure::Io));
    assert_eq!(world.given(), []);
    world.done();
    let asked = world.submit(Action::Flush);
    let flush = world.only();
    world.complete(&flush, Ok(Answer::Done));
    assert_eq!(world.done(), [(asked, Err(Failure::Io))]);
}

#[test]
fn what_others_may_overwrite_is_not_written_again() {
    let mut world = World::new(false, 0);
    world.cache.share(true);
    world.submit(write(0));
    let written = world.only();
    assert!(matches!(written.action, Action::Write { fua: true, .. }));
    world.complete(&written, Ok(Answer::Done));
    world.cache.again(world.now);
    assert_eq!(world.given(), []);
    assert_eq!(world.cache.behind_bytes(), 0);
}

#[test]
fn what_was_under_way_when_the_disk_lost_power_is_sent_again() {
    let mut world = World::new(false, 0);
    let asked = world.submit(write(0));
    let first = world.only();
    world.cache.again(world.now);
    world.complete(&first, Ok(Answer::Done));
    assert_eq!(world.done(), []);
    let second = world.only();
    assert_eq!(second.action, first.action);
    world.complete(&second, Ok(Answer::Done));
    assert_eq!(world.done(), [(asked, Ok(Answer::Done))]);
}

#[test]
fn writes_through_are_flushed_unasked_from_a_bound_on() {
    let mut world = World::new(false, 4 * BLOCK);
    for block in 0..2 {
        world.submit(write(block));
        let sent = world.only();
        assert_eq!(sent.action, write(block));
        world.complete(&sent, Ok(Answer::Done));
        assert_eq!(world.given(), []);
    }
    // More than half of the memory is in use.
    world.submit(write(2));
    let sent = world.only();
    world.complete(&sent, Ok(Answer::Done));
    let unasked = world.only();
    assert_eq!(unasked.action, Action::Flush);
    // While the disk flushes slowly, the rest of the memory is used, but no more.
    let last = world.submit(write(3));
    let held = world.submit(write(4));
    let sent = world.only();
    assert_eq!(sent.action, write(3));
    world.complete(&sent, Ok(Answer::Done));
    assert_eq!(world.given(), []);
    assert_eq!(world.done().last(), Some(&(last, Ok(Answer::Done))));
    world.complete(&unasked, Ok(Answer::Done));
    let sent = world.only();
    assert_eq!(sent.action, write(4));
    world.complete(&sent, Ok(Answer::Done));
    assert_eq!(world.done(), [(held, Ok(Answer::Done))]);
    assert_eq!(world.cache.behind_bytes(), 2 * BLOCK);
}

#[test]
fn trims_and_zeros_wait_while_the_disk_has_many_to_flush() {
    let mut world = World::with(true, 1 << 20, 4);
    let carry_out = |world: &mut World, action: &Action| {
        let asked = world.submit(action.clone());
        let sent = world.only();
        assert_eq!(sent.action, *action);
        world.complete(&sent, Ok(Answer::Done));
        assert_eq!(world.done(), [(asked, Ok(Answer::Done))]);
    };
    carry_out(&mut world, &trim(0));
    carry_out(&mut world, &zero(1));
    let third = world.submit(trim(2));
    let sent = world.only();
    world.complete(&sent, Ok(Answer::Done));
    assert_eq!(world.done(), [(third, Ok(Answer::Done))]);
    // More than half of what may be unflushed.
    let unasked = world.only();
    assert_eq!(unasked.action, Action::Flush);
    carry_out(&mut world, &zero(3));
    let later = [trim(4), zero(5)];
    let held = later.clone().map(|action| world.submit(action));
    let durable = world.submit(Action::Trim {
        range: Range::new(6 * BLOCK, BLOCK),
        fua: true,
    });
    let write_behind_it = world.submit(write(4));
    let flush = world.submit(Action::Flush);
    assert_eq!(world.given(), []);
    assert_eq!(world.done(), []);
    world.complete(&unasked, Ok(Answer::Done));
    let sent = world.given();
    let actions: Vec<&Action> = sent.iter().map(|sent| &sent.action).collect();
    let fua = Action::Trim {
        range: Range::new(6 * BLOCK, BLOCK),
        fua: true,
    };
    // The flush covers what was answered before it was submitted.
    assert_eq!(actions, [&later[0], &later[1], &fua, &Action::Flush]);
    world.complete(&sent[3], Ok(Answer::Done));
    assert_eq!(world.done(), [(flush, Ok(Answer::Done))]);
    for sent in &sent[..2] {
        world.complete(sent, Ok(Answer::Done));
    }
    let done = world.done();
    assert_eq!(done, held.map(|held| (held, Ok(Answer::Done))));
    assert_eq!(world.only().action, write(4));
    assert_eq!(world.done(), [(write_behind_it, Ok(Answer::Done))]);
    world.complete(&sent[2], Ok(Answer::Done));
    let last = world.only();
    assert_eq!(last.action, Action::Flush);
    world.complete(&last, Ok(Answer::Done));
    assert_eq!(world.done(), [(durable, Ok(Answer::Done))]);
}

#[test]
fn trims_that_the_disk_will_not_lose_do_not_wait() {
    let mut world = World::with(true, 1 << 20, 1);
    world.submit(trim(0));
    let sent = world.only();
    world.complete(&sent, Ok(Answer::Done));
    assert_eq!(world.only().action, Action::Flush);
    let fua = Action::Zero {
        range: Range::new(BLOCK, BLOCK),
        fua: true,
        may_unmap: true,
        fast: false,
    };
    world.submit(fua.clone());
    assert_eq!(world.only().action, fua);
}

#[test]
fn a_flush_that_nobody_asked_for_answers_those_that_come_meanwhile_if_it_covers_their_writes() {
    let mut world = World::new(false, BLOCK);
    world.submit(write(0));
    let sent = world.only();
    world.complete(&sent, Ok(Answer::Done));
    let unasked = world.only();
    assert_eq!(unasked.action, Action::Flush);
    world.done();
    let covered = world.submit(Action::Flush);
    assert_eq!(world.given(), []);
    world.submit(Action::Trim {
        range: Range::new(4 * BLOCK, BLOCK),
        fua: false,
    });
    let trimmed = world.only();
    world.complete(&trimmed, Ok(Answer::Done));
    world.done();
    // The trim was answered after the flush was sent.
    let later = world.submit(Action::Flush);
    assert_eq!(world.given(), []);
    world.complete(&unasked, Ok(Answer::Done));
    assert_eq!(world.done(), [(covered, Ok(Answer::Done))]);
    let flush = world.only();
    assert_eq!(flush.action, Action::Flush);
    world.complete(&flush, Ok(Answer::Done));
    assert_eq!(world.done(), [(later, Ok(Answer::Done))]);
}

#[test]
fn a_flush_that_was_answered_by_one_that_failed_says_so() {
    let mut world = World::new(false, BLOCK);
    world.submit(write(0));
    let sent = world.only();
    world.complete(&sent, Ok(Answer::Done));
    let unasked = world.only();
    let asked = world.submit(Action::Flush);
    assert_eq!(world.given(), []);
    world.done();
    world.complete(&unasked, Err(Failure::Io));
    assert_eq!(world.done(), [(asked, Err(Failure::Io))]);
    // It is rewritten.
    assert_eq!(world.only().action, write(0));
}
