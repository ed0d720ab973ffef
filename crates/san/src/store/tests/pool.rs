//! Queue pairs are bounded, and service times are exact.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use wansan_trace::Instant;

use super::{shared, wait, wait_for};
use crate::store::{
    Lane, MemoryStore, Operation, Pool, QueueBounds, QueuePair, ServiceTime, ServiceTimeStore,
    Store,
};

const BOUNDS: QueueBounds = QueueBounds {
    operations: 1000,
    bytes: 1 << 24,
};

fn read(bytes: usize) -> Operation {
    Operation::Read {
        offset: 0,
        buffer: vec![0xff; bytes],
    }
}

fn slow(time: Duration, servers: u32) -> Arc<dyn Store> {
    let inner = shared(MemoryStore::new(1 << 20));
    shared(ServiceTimeStore::new(inner, ServiceTime { time, servers }))
}

fn readable(queue_pair: &QueuePair) -> bool {
    let mut fds = [PollFd::new(queue_pair, PollFlags::IN)];
    poll(&mut fds, Some(&Timespec::default())).expect("poll") == 1
}

#[test]
fn a_full_queue_pair_gives_the_operation_back() {
    // Nothing completes by itself within this test.
    let store = slow(Duration::from_secs(1000), 1);
    let pool = Pool::start(1).expect("a thread");
    let bounds = QueueBounds {
        operations: 3,
        bytes: 1000,
    };
    let mut queue_pair = pool.queue_pair(bounds).expect("a descriptor");

    queue_pair
        .submit(0, &store, read(5000), &mut Lane::default())
        .expect("one alone always fits");
    assert_eq!(
        queue_pair.submit(1, &store, read(1), &mut Lane::default()),
        Err(read(1)),
        "bytes"
    );

    let mut other = pool.queue_pair(bounds).expect("a descriptor");
    for token in 0..3 {
        other
            .submit(token, &store, read(300), &mut Lane::default())
            .expect("room");
    }
    assert_eq!(
        other.submit(3, &store, Operation::Flush, &mut Lane::default()),
        Err(Operation::Flush),
        "operations"
    );
    assert_eq!((other.load().operations, other.load().bytes), (3, 900));
    assert_eq!(other.completions().count(), 0);

    drop(pool);
    assert_eq!(
        other.submit(4, &store, read(1), &mut Lane::default()),
        Err(read(1)),
        "no workers"
    );
}

#[test]
fn room_comes_back_with_completions() {
    let store = shared(MemoryStore::new(1 << 20));
    let pool = Pool::start(2).expect("threads");
    let bounds = QueueBounds {
        operations: 4,
        bytes: 1 << 20,
    };
    let mut queue_pair = pool.queue_pair(bounds).expect("a descriptor");
    let (mut submitted, mut completed) = (0, Vec::new());
    while completed.len() < 1000 {
        while submitted < 1000
            && queue_pair
                .submit(submitted, &store, read(512), &mut Lane::default())
                .is_ok()
        {
            submitted += 1;
            assert!(queue_pair.load().operations <= 4);
        }
        completed.extend(
            wait(&mut queue_pair)
                .iter()
                .map(|completion| completion.token),
        );
    }
    completed.sort_unstable();
    assert!(completed.iter().copied().eq(0..1000), "each exactly once");
    assert_eq!(queue_pair.load().operations, 0);
    assert_eq!(queue_pair.load().bytes, 0);
}

#[test]
fn the_descriptor_is_readable_while_completions_wait() {
    let store = shared(MemoryStore::new(1 << 20));
    let pool = Pool::start(1).expect("a thread");
    let mut queue_pair = pool.queue_pair(BOUNDS).expect("a descriptor");
    assert!(!readable(&queue_pair));
    queue_pair
        .submit(1, &store, read(512), &mut Lane::default())
        .expect("room");
    let mut fds = [PollFd::new(&queue_pair, PollFlags::IN)];
    poll(&mut fds, None).expect("poll");
    assert!(readable(&queue_pair), "until they are drained");
    assert_eq!(queue_pair.completions().count(), 1);
    assert!(!readable(&queue_pair));
}

#[test]
fn each_queue_pair_gets_its_own_completions() {
    let store = shared(MemoryStore::new(1 << 20));
    let pool = Pool::start(2).expect("threads");
    thread::scope(|scope| {
        for reactor in 0..4u64 {
            let mut queue_pair = pool.queue_pair(BOUNDS).expect("a descriptor");
            let store = &store;
            scope.spawn(move || {
                for number in 0..200 {
                    let token = reactor << 32 | number;
                    queue_pair
                        .submit(token, store, read(512), &mut Lane::default())
                        .expect("room");
                }
                let mut tokens: Vec<_> = wait_for(&mut queue_pair, 200)
                    .iter()
                    .map(|completion| completion.token)
                    .collect();
                tokens.sort_unstable();
                assert!(tokens.into_iter().eq((0..200).map(|n| reactor << 32 | n)));
            });
        }
    });
}

#[test]
fn visits_are_first_come_first_served() {
    let time = Duration::from_nanos(10);
    let store = slow(time, 2);
    let at = |ns| {
        let visit = store
            .book(Instant::from_ns(ns))
            .expect("it has a service time");
        assert_eq!(visit.finished - visit.began, time);
        visit.began.ns()
    };
    assert_eq!(at(100), 100, "both servers are free");
    assert_eq!(at(103), 103);
    assert_eq!(at(104), 110, "the first is free first");
    assert_eq!(at(104), 113);
    assert_eq!(at(105), 120);
    assert_eq!(at(500), 500, "an idle server begins at once");
}

#[test]
fn a_slow_store_keeps_its_rate() {
    const OPERATIONS: u64 = 12;
    for servers in [1, 3] {
        let time = Duration::from_millis(2);
        let store = slow(time, servers);
        let pool = Pool::start(2).expect("threads");
        let mut queue_pair = pool.queue_pair(BOUNDS).expect("a descriptor");
        for token in 0..OPERATIONS {
            queue_pair
                .submit(token, &store, read(512), &mut Lane::default())
                .expect("room");
        }
        let mut completions = wait_for(&mut queue_pair, OPERATIONS as usize);
        completions.sort_by_key(|completion| completion.token);
        for completion in &completions {
            assert!(completion.result.is_ok());
            assert!(
                completion.finished - completion.began >= time,
                "a whole service"
            );
            assert!(completion.began >= completion.queued);
        }
        // With k servers, an operation begins no sooner than the one k places before it has ended.
        let servers = servers as usize;
        for (earlier, later) in completions.iter().zip(&completions[servers..]) {
            assert!(later.began - earlier.began >= time);
        }
    }
}

#[test]
fn slow_operations_do_not_hold_up_others() {
    let never = slow(Duration::from_secs(1000), 1);
    let soon = slow(Duration::from_millis(1), 1);
    let memory = shared(MemoryStore::new(1 << 20));
    let pool = Pool::start(1).expect("a thread");
    let mut queue_pair = pool.queue_pair(BOUNDS).expect("a descriptor");
    // The only worker sleeps until the first is due when the others arrive.
    for (token, store) in [&never, &soon, &memory].into_iter().enumerate() {
        queue_pair
            .submit(token as u64, store, read(512), &mut Lane::default())
            .expect("room");
    }
    let mut tokens: Vec<_> = wait_for(&mut queue_pair, 2)
        .iter()
        .map(|completion| completion.token)
        .collect();
    tokens.sort_unstable();
    assert_eq!(tokens, [1, 2]);
    assert_eq!(queue_pair.load().operations, 1);
}

/// A store that counts its concurrent reads, and blocks each until all workers are in one. It panics on a read at any
/// other offset than 0.
struct Gate {
    inside: AtomicUsize,
    most: AtomicUsize,
    workers: usize,
}

impl Store for Gate {
    fn size_bytes(&self) -> u64 {
        1 << 20
    }

    fn read_at(&self, offset: u64, _: &mut [u8]) -> Result<(), crate::store::StoreError> {
        assert_eq!(offset, 0, "this test has a store panic");
        let inside = self.inside.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(inside, Ordering::SeqCst);
        while self.most.load(Ordering::SeqCst) < self.workers {
            thread::yield_now();
        }
        self.inside.fetch_sub(1, Ordering::SeqCst);
        Ok(())
    }

    fn write_at(&self, _: u64, _: &[u8], _: bool) -> Result<(), crate::store::StoreError> {
        Ok(())
    }

    fn flush(&self) -> Result<(), crate::store::StoreError> {
        Ok(())
    }

    fn update(
        &self,
        _: u64,
        _: usize,
        _: bool,
        _: &mut dyn FnMut(&mut [u8]) -> bool,
    ) -> Result<(), crate::store::StoreError> {
        Ok(())
    }

    fn deallocate(&self, _: u64, _: u64) -> Result<(), crate::store::StoreError> {
        Ok(())
    }

    fn extent_at(&self, _: u64) -> Result<crate::store::Extent, crate::store::StoreError> {
        Ok(crate::store::Extent {
            allocated: true,
            end: self.size_bytes(),
        })
    }

    fn is_memory(&self) -> bool {
        false
    }
}

#[test]
fn all_workers_work_at_once_and_no_more() {
    let gate = gate(3);
    let store: Arc<dyn Store> = gate.clone();
    let pool = Pool::start(3).expect("threads");
    let mut queue_pair = pool.queue_pair(BOUNDS).expect("a descriptor");
    for token in 0..30 {
        queue_pair
            .submit(token, &store, read(1), &mut Lane::default())
            .expect("room");
    }
    wait_for(&mut queue_pair, 30);
    assert_eq!(gate.most.load(Ordering::SeqCst), 3);
}

fn gate(workers: usize) -> Arc<Gate> {
    Arc::new(Gate {
        inside: AtomicUsize::new(0),
        most: AtomicUsize::new(0),
        workers,
    })
}

#[test]
fn a_queue_pair_that_is_gone_has_nothing_at_its_stores() {
    let gate = gate(2);
    let store: Arc<dyn Store> = gate.clone();
    // The only worker stays in the first read until this test opens the gate.
    let pool = Pool::start(1).expect("a thread");
    let mut other = pool.queue_pair(BOUNDS).expect("a descriptor");
    let mut queue_pair = pool.queue_pair(BOUNDS).expect("a descriptor");
    queue_pair
        .submit(0, &store, read(1), &mut Lane::default())
        .expect("room");
    queue_pair
        .submit(1, &store, read(1), &mut Lane::default())
        .expect("room");
    other
        .submit(2, &store, read(1), &mut Lane::default())
        .expect("room");
    while gate.inside.load(Ordering::SeqCst) == 0 {
        thread::yield_now();
    }
    let (gone, is_gone) = mpsc::channel();
    let dropping = thread::spawn(move || {
        drop(queue_pair);
        let _ = gone.send(());
    });
    let early = is_gone.recv_timeout(Duration::from_millis(100));
    // Before any assertion can fail, as the pool waits for its worker.
    gate.most.fetch_max(2, Ordering::SeqCst);
    assert_eq!(early, Err(mpsc::RecvTimeoutError::Timeout));
    is_gone.recv().expect("gone in the end");
    dropping.join().expect("no panic");
    // Queued operations were dropped, and those of the other queue pair are done.
    assert_eq!(wait_for(&mut other, 1)[0].token, 2);
    drop((other, pool));
    assert_eq!(Arc::strong_count(&store), 2, "the gate and the store");
}

#[test]
fn a_worker_that_panics_holds_no_queue_pair_up() {
    let gate = gate(1);
    let store: Arc<dyn Store> = gate.clone();
    let pool = Pool::start(2).expect("threads");
    let mut queue_pair = pool.queue_pair(BOUNDS).expect("a descriptor");
    let buffer = vec![0];
    let mistake = Operation::Read { offset: 1, buffer };
    queue_pair
        .submit(0, &store, mistake, &mut Lane::default())
        .expect("room");
    queue_pair
        .submit(1, &store, read(1), &mut Lane::default())
        .expect("room");
    wait_for(&mut queue_pair, 1);
    drop(queue_pair);
}

#[test]
fn those_who_ask_for_little_do_not_wait_for_one_who_asks_for_much() {
    let gate = gate(2);
    let store: Arc<dyn Store> = gate.clone();
    // The only worker stays in the first read until this test opens the gate.
    let pool = Pool::start(1).expect("a thread");
    let mut queue_pair = pool.queue_pair(BOUNDS).expect("a descriptor");
    let (mut much, mut little) = (Lane::default(), Lane::default());
    let mut submit = |token, lane: &mut Lane| {
        let submitted = queue_pair.submit(token, &store, read(1), lane);
        submitted.expect("room");
    };
    (0..100).for_each(|token| submit(token, &mut much));
    while gate.inside.load(Ordering::SeqCst) == 0 {
        thread::yield_now();
    }
    (100..104).for_each(|token| submit(token, &mut little));
    gate.most.fetch_max(2, Ordering::SeqCst);
    let tokens: Vec<u64> = wait_for(&mut queue_pair, 104)
        .iter()
        .map(|completion| completion.token)
        .collect();
    let (of_little, of_much): (Vec<u64>, Vec<u64>) =
        tokens.iter().partition(|token| **token >= 100);
    assert!(of_little.is_sorted() && of_much.is_sorted(), "{tokens:?}");
    let last = tokens.iter().position(|token| *token == 103);
    assert!(last.is_some_and(|last| last < 10), "{tokens:?}");
}
