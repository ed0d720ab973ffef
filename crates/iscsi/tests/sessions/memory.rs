//! The memory limit of all sessions of a target.

use std::sync::Arc;

use wansan_iscsi::initiator::Completion;
use wansan_iscsi::keys::Wanted;
use wansan_iscsi::target::Memory;
use wansan_iscsi::wire::ScsiStatus;

use super::pair::{BLOCK_BYTES, Pair};

const WINDOW: u32 = 64;

fn pair(memory: &Arc<Memory>, seed: u64) -> Pair {
    let wanted = Wanted::default();
    Pair::sharing(memory, wanted.clone(), wanted, WINDOW, seed)
}

fn status(completion: &Completion) -> ScsiStatus {
    completion.outcome.as_ref().unwrap().status
}

fn block_of(byte: u8, bytes: usize) -> Vec<u8> {
    vec![byte; bytes]
}

#[test]
fn writes_beyond_the_memory_of_all_sessions_are_told_to_come_again() {
    const WRITE_BYTES: usize = 128 << 10;
    let memory = Memory::new(1 << 20);
    let (mut one, mut other) = (pair(&memory, 1), pair(&memory, 2));
    one.hold_store = true;
    for n in 0..16 {
        one.write(n * 256, block_of(1, WRITE_BYTES), n);
    }
    let refused = one.settle_for_good();
    assert!(!one.held.is_empty() && !refused.is_empty());
    for completion in &refused {
        assert_eq!(status(completion), ScsiStatus::TaskSetFull);
    }
    other.write(0, block_of(2, WRITE_BYTES), 0);
    let refused = other.settle_for_good();
    assert_eq!(status(&refused[0]), ScsiStatus::Busy, "it is alone");
    assert!(one.held.len() * WRITE_BYTES <= 1 << 20);

    for work in std::mem::take(&mut one.held) {
        one.answer(work);
    }
    one.settle_good();
    one.target.rest();
    other.write(0, block_of(2, WRITE_BYTES), 1);
    other.settle_good();
    assert_eq!(other.store[WRITE_BYTES - 1], 2);
}

#[test]
fn data_that_is_asked_for_waits_or_is_refused_too() {
    const WRITE_BYTES: usize = 768 << 10;
    let memory = Memory::new(1 << 20);
    let wanted = Wanted {
        initial_r2t: true,
        immediate_data: false,
        ..Wanted::default()
    };
    let mut one = Pair::sharing(&memory, wanted.clone(), wanted.clone(), WINDOW, 3);
    let mut other = Pair::sharing(&memory, wanted.clone(), wanted, WINDOW, 4);
    one.hold_store = true;
    for n in 0..2 {
        one.write(n * 2048, block_of(1, WRITE_BYTES), n);
    }
    assert!(
        one.settle().is_empty(),
        "the second one waits for the first"
    );
    assert_eq!(one.held.len(), 1);
    other.write(0, block_of(2, WRITE_BYTES), 0);
    assert_eq!(status(&other.settle_for_good()[0]), ScsiStatus::Busy);
    let work = one.held.remove(0);
    one.answer(work);
    assert_eq!(one.settle_good().len(), 1);
    let work = one.held.remove(0);
    one.answer(work);
    assert_eq!(one.settle_good().len(), 1);
}

#[test]
fn reads_go_on_in_small_pieces_without_memory() {
    const READ_BLOCKS: u32 = 2048;
    let memory = Memory::new(1 << 20);
    let (mut hoarder, mut reader) = (pair(&memory, 5), pair(&memory, 6));
    hoarder.hold_store = true;
    for n in 0..15 {
        hoarder.write(n * 256, block_of(1, 128 << 10), n);
    }
    hoarder.settle();
    reader.hold_store = true;
    for n in 0..4 {
        reader.read(u64::from(READ_BLOCKS) * n, READ_BLOCKS, n);
    }
    let mut done = reader.settle();
    let mut pieces = 0;
    while !reader.held.is_empty() {
        assert_eq!(reader.held.len(), 1, "one piece after the other");
        let work = reader.held.remove(0);
        reader.answer(work);
        pieces += 1;
        done.extend(reader.settle_good());
    }
    assert_eq!(done.len(), 4);
    assert!(pieces >= 4 * READ_BLOCKS as usize * BLOCK_BYTES / (64 << 10));
}

#[test]
fn a_session_that_ends_gives_everything_back() {
    let memory = Memory::new(1 << 20);
    let (mut one, mut other) = (pair(&memory, 7), pair(&memory, 8));
    one.hold_store = true;
    for n in 0..8 {
        one.read(n * 256, 256, 100 + n);
        one.write(n * 256, block_of(1, 128 << 10), n);
    }
    one.settle();
    let all = || block_of(2, 768 << 10);
    other.write(0, all(), 0);
    assert_eq!(status(&other.settle_for_good()[0]), ScsiStatus::Busy);
    drop(one);
    other.write(0, all(), 1);
    other.settle_good();
}
