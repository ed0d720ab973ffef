//! What requests wait for, as reported by a cache and a journal.

use std::time::Duration;

use wansan_cache::{
    Action, Answer, Cache, CacheConfig, Failure, Identity, Journal, JournalConfig, JournalFile,
    Range,
};
use wansan_trace::Instant;
use wansan_trace::event::RequestWait::{
    self, Backlog, Disk, Journal as File, JournalRoom, Merge, ReadAhead, WriteBehind,
};

const BLOCK: u64 = 4096;

fn config(write_behind_bytes: u64) -> CacheConfig {
    CacheConfig {
        size_bytes: 1 << 20,
        writes_behind: write_behind_bytes > 0,
        write_bytes: write_behind_bytes,
        read_ahead_bytes: 1 << 20,
        burst_bytes: 64 << 10,
        unflushed_changes: 64,
        merge_time: Duration::ZERO,
        writes_in_flight: 4,
        is_volatile: false,
        marks: true,
    }
}

fn read(block: u64) -> Action {
    Action::Read {
        range: Range::new(block * BLOCK, BLOCK),
    }
}

fn write(block: u64, blocks: u64) -> Action {
    Action::Write {
        offset_bytes: block * BLOCK,
        data: vec![1; (blocks * BLOCK) as usize],
        fua: false,
    }
}

/// A cache, the time, and the marks so far.
struct World {
    cache: Cache,
    now: Instant,
    requests: u64,
}

impl World {
    fn new(write_behind_bytes: u64) -> World {
        World {
            cache: Cache::new(config(write_behind_bytes)),
            now: Instant::from_ns(1_000_000),
            requests: 0,
        }
    }

    fn submit(&mut self, action: Action) -> u64 {
        self.now += Duration::from_micros(1);
        self.requests += 1;
        self.cache.submit(self.requests, action, self.now);
        self.requests
    }

    /// The disk executes all its operations; returns which request each one answered.
    fn work(&mut self) -> Vec<(u64, Option<u64>)> {
        self.now += Duration::from_millis(1);
        let mut answered = Vec::new();
        while let Some(operation) = self.cache.poll_operation(self.now) {
            let answer = match &operation.action {
                Action::Read { range } => Answer::Data(vec![0; range.bytes() as usize]),
                _ => Answer::Done,
            };
            self.cache.completed(operation.tag, Ok(answer), self.now);
            while let Some(done) = self.cache.poll_done() {
                answered.push((done.request, done.operation));
            }
        }
        while let Some(done) = self.cache.poll_done() {
            answered.push((done.request, done.operation));
        }
        answered
    }

    fn waits(&mut self, request: u64) -> Vec<RequestWait> {
        let marks = std::iter::from_fn(|| self.cache.poll_mark());
        let of_request = marks.filter(|mark| mark.request == request);
        of_request.map(|mark| mark.waits_for).collect()
    }
}

#[test]
fn reads_wait_for_the_disk_or_for_what_is_on_its_way() {
    let mut world = World::new(0);
    let first = world.submit(read(0));
    assert_eq!(world.waits(first), [Disk]);
    assert_eq!(world.work(), [(first, Some(0))]);
    // The third read of a sequence starts read-ahead; the next one finds its data outstanding.
    world.submit(read(1));
    world.submit(read(2));
    let awaiting = world.submit(read(3));
    assert_eq!(world.waits(awaiting), [ReadAhead]);
    let answered = world.work();
    assert!(
        answered
            .iter()
            .any(|(request, by)| *request == awaiting && by.is_some())
    );
    let hit = world.submit(read(4));
    assert_eq!(world.waits(hit), []);
    assert_eq!(world.work(), [(hit, None)]);
}

#[test]
fn writes_wait_to_merge_or_for_memory_and_flushes_for_writes() {
    let mut world = World::new(0);
    let through = world.submit(write(0, 1));
    assert_eq!(world.work().len(), 1);
    assert_eq!(world.waits(through), [Merge, Disk]);

    let mut world = World::new(2 * BLOCK);
    let early = world.submit(write(0, 2));
    let held = world.submit(write(8, 1));
    let flush = world.submit(Action::Flush);
    let answered = world.work();
    assert!(
        answered.contains(&(early, None)) && answered.contains(&(held, None)),
        "{answered:?}"
    );
    let marks: Vec<_> = std::iter::from_fn(|| world.cache.poll_mark()).collect();
    let waits = |request| {
        let of_request = marks.iter().filter(|mark| mark.request == request);
        of_request.map(|mark| mark.waits_for).collect::<Vec<_>>()
    };
    assert_eq!(waits(early), []);
    assert_eq!(waits(held), [WriteBehind]);
    assert_eq!(waits(flush), [Backlog, Disk]);
}

/// An in-memory file.
#[derive(Debug, Default)]
struct InMemory(Vec<u8>);

impl JournalFile for InMemory {
    fn write_at(&mut self, place: u64, data: &[u8]) -> Result<(), Failure> {
        let end = place as usize + data.len();
        self.0.resize(self.0.len().max(end), 0);
        self.0[place as usize..end].copy_from_slice(data);
        Ok(())
    }

    fn read_at(&mut self, place: u64, into: &mut [u8]) -> Result<(), Failure> {
        let place = place as usize;
        let from = self.0.get(place..place + into.len()).ok_or(Failure::Io)?;
        into.copy_from_slice(from);
        Ok(())
    }

    fn sync(&mut self) -> Result<(), Failure> {
        Ok(())
    }
}

#[test]
fn writes_wait_for_room_in_a_journal_and_flushes_for_its_file() {
    let identity: Identity = [7; 32];
    let config = JournalConfig {
        identity,
        ring_bytes: 8 * BLOCK,
        burst_bytes: 64 << 10,
        operations: 1,
        marks: true,
    };
    let mut journal = Journal::create(InMemory::default(), config).expect("an empty file");
    let mut now = Instant::from_ns(1_000_000);
    let requests = [
        (1, write(0, 2)),
        (2, Action::Flush),
        (3, write(4, 2)),
        (4, write(8, 2)),
        (6, write(12, 2)),
    ];
    for (request, action) in requests {
        now += Duration::from_micros(1);
        journal.submit(request, action, now);
    }
    let read = (
        5,
        Action::Read {
            range: Range::new(20 * BLOCK, BLOCK),
        },
    );
    journal.submit(read.0, read.1, now);
    let operation = std::iter::from_fn(|| journal.poll_operation(now))
        .find(|operation| matches!(operation.action, Action::Read { .. }))
        .expect("it has no such data");
    assert_eq!(journal.request_of(operation.tag), Some(5));
    let marks: Vec<_> = std::iter::from_fn(|| journal.poll_mark()).collect();
    let waits = |request| {
        let of_request = marks.iter().filter(|mark| mark.request == request);
        of_request.map(|mark| mark.waits_for).collect::<Vec<_>>()
    };
    assert_eq!(waits(1), []);
    assert_eq!(waits(2), [File]);
    assert_eq!(waits(6), [JournalRoom]);
    let done: Vec<u64> = std::iter::from_fn(|| journal.poll_done())
        .map(|done| done.request)
        .collect();
    assert!(
        done.contains(&1) && !done.contains(&2) && !done.contains(&6),
        "{done:?}"
    );
}
