//! Every store behaves like a vector of bytes.

use std::os::fd::AsFd;
use std::path::Path;
use std::thread;
use std::time::Duration;

use proptest::prelude::*;

use super::{shared, wait_for};
use crate::store::{
    FileStore, Lane, MemoryStore, Operation, Pool, QueueBounds, ServiceTime, ServiceTimeStore,
    Store, StoreError,
};

/// More than two extents of a memory store, and not a whole number of them.
const SIZE_BYTES: usize = (2 << 20) + 4096;

#[derive(Debug, Clone)]
enum Step {
    Read {
        offset: u64,
        bytes: usize,
    },
    Write {
        offset: u64,
        bytes: usize,
        fill: u8,
        fua: bool,
    },
    Flush,
}

fn any_step() -> impl Strategy<Value = Step> {
    // Near the boundaries of extents and the end of the store, and a little past it.
    let offset = prop_oneof![
        0..SIZE_BYTES as u64 + 100,
        (1u64 << 20) - 3000..(1 << 20) + 100,
        SIZE_BYTES as u64 - 3000..SIZE_BYTES as u64 + 1,
        Just(u64::MAX - 1),
    ];
    let bytes = prop_oneof![0..5000usize, Just(4096), Just(1 << 20)];
    (offset, bytes, any::<u8>(), any::<bool>(), 0..10u8).prop_map(
        |(offset, bytes, fill, fua, kind)| match kind {
            0 => Step::Flush,
            1..=5 => Step::Write {
                offset,
                bytes,
                fill,
                fua,
            },
            _ => Step::Read { offset, bytes },
        },
    )
}

/// The access path of a store.
#[derive(Debug, Clone, Copy)]
enum Access {
    Blocking,
    AtOnceIfPossible,
}

fn check(store: &dyn Store, steps: &[Step], access: Access) -> Result<(), TestCaseError> {
    let mut model = vec![0; SIZE_BYTES];
    prop_assert_eq!(store.size_bytes(), SIZE_BYTES as u64);
    for step in steps {
        match *step {
            Step::Flush => {
                let at_once = matches!(access, Access::AtOnceIfPossible)
                    .then(|| store.try_flush_now())
                    .flatten();
                prop_assert!(at_once.unwrap_or_else(|| store.flush()).is_ok());
            }
            Step::Write {
                offset,
                bytes,
                fill,
                fua,
            } => {
                let src = vec![fill; bytes];
                let at_once = matches!(access, Access::AtOnceIfPossible)
                    .then(|| store.try_write_now(offset, &src, fua))
                    .flatten();
                let result = at_once.unwrap_or_else(|| store.write_at(offset, &src, fua));
                match part(&mut model, offset, bytes) {
                    Some(part) => {
                        prop_assert!(result.is_ok());
                        part.copy_from_slice(&src);
                    }
                    None => prop_assert!(out_of_range(&result), "{:?}", result),
                }
            }
            Step::Read { offset, bytes } => {
                let mut dst = vec![0xa5; bytes];
                let at_once = matches!(access, Access::AtOnceIfPossible)
                    .then(|| store.try_read_now(offset, &mut dst))
                    .flatten();
                let result = at_once.unwrap_or_else(|| store.read_at(offset, &mut dst));
                match part(&mut model, offset, bytes) {
                    Some(part) => {
                        prop_assert!(result.is_ok());
                        prop_assert!(dst == part, "other bytes at {} + {}", offset, bytes);
                    }
                    None => prop_assert!(out_of_range(&result), "{:?}", result),
                }
            }
        }
    }
    Ok(())
}

fn out_of_range(result: &Result<(), StoreError>) -> bool {
    matches!(result, Err(StoreError::OutOfRange { .. }))
}

fn part(model: &mut [u8], offset: u64, bytes: usize) -> Option<&mut [u8]> {
    let start = usize::try_from(offset).ok()?;
    model.get_mut(start..start.checked_add(bytes)?)
}

fn file_in(folder: &Path) -> FileStore {
    FileStore::open_or_create(&folder.join("disk.img"), SIZE_BYTES as u64, 512).expect("a new file")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn stores_are_vectors(
        steps in proptest::collection::vec(any_step(), 1..40),
        access in prop_oneof![Just(Access::Blocking), Just(Access::AtOnceIfPossible)],
    ) {
        check(&MemoryStore::new(SIZE_BYTES as u64), &steps, access)?;

        let folder = tempfile::tempdir().expect("a temporary folder");
        check(&file_in(folder.path()), &steps, access)?;

        let slow = ServiceTime { time: Duration::from_secs(1), servers: 1 };
        let inner = shared(MemoryStore::new(SIZE_BYTES as u64));
        check(&ServiceTimeStore::new(inner, slow), &steps, access)?;
    }
}

#[test]
fn a_file_on_a_tmpfs_is_memory() {
    let folder = tempfile::tempdir_in("/dev/shm").expect("the tmpfs that every Linux has");
    let store = file_in(folder.path());
    assert!(store.is_memory());
    let mut dst = [1; 4096];
    assert!(matches!(
        store.try_write_now(4096, &[7; 4096], true),
        Some(Ok(()))
    ));
    assert!(matches!(store.try_read_now(4096, &mut dst), Some(Ok(()))));
    assert_eq!(dst, [7; 4096]);
    assert!(matches!(store.try_flush_now(), Some(Ok(()))));
}

#[test]
fn a_service_time_is_never_memory() {
    let slow = ServiceTime {
        time: Duration::from_millis(1),
        servers: 1,
    };
    let store = ServiceTimeStore::new(shared(MemoryStore::new(4096)), slow);
    assert!(store.try_read_now(0, &mut [0; 512]).is_none());
    assert!(store.try_write_now(0, &[0; 512], false).is_none());
    assert!(store.try_flush_now().is_none());
}

/// Eight threads, each with its own 4 KiB of every 32 KiB, so that all of them use all extents at once.
fn interleaved_writers(store: &dyn Store) {
    const THREADS: u64 = 8;
    const PIECE: u64 = 4096;
    let pieces =
        |thread: u64| (0..SIZE_BYTES as u64 / PIECE).filter(move |piece| piece % THREADS == thread);
    let pattern = |thread: u64, round: u64, piece: u64| {
        (thread << 40 | round << 32 | piece)
            .to_le_bytes()
            .repeat(PIECE as usize / 8)
    };
    thread::scope(|scope| {
        for thread in 0..THREADS {
            scope.spawn(move || {
                let mut dst = vec![0; PIECE as usize];
                for round in 0..4 {
                    for piece in pieces(thread) {
                        let src = pattern(thread, round, piece);
                        store.write_at(piece * PIECE, &src, false).expect("write");
                    }
                    for piece in pieces(thread) {
                        store.read_at(piece * PIECE, &mut dst).expect("read");
                        assert!(dst == pattern(thread, round, piece), "piece {piece}");
                    }
                }
            });
        }
    });
    let mut dst = vec![0; PIECE as usize];
    for thread in 0..THREADS {
        for piece in pieces(thread) {
            store.read_at(piece * PIECE, &mut dst).expect("read");
            assert!(dst == pattern(thread, 3, piece), "piece {piece}");
        }
    }
}

#[test]
fn threads_share_memory() {
    interleaved_writers(&MemoryStore::new(SIZE_BYTES as u64));
}

#[test]
fn threads_share_a_file() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    interleaved_writers(&file_in(folder.path()));
}

#[test]
fn what_a_pool_writes_is_there() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let store = shared(file_in(folder.path()));
    let pool = Pool::start(3).expect("threads");
    let bounds = QueueBounds {
        operations: 64,
        bytes: 1 << 20,
    };
    let mut queue_pair = pool.queue_pair(bounds).expect("a descriptor");
    assert!(queue_pair.as_fd().try_clone_to_owned().is_ok());

    for token in 0..64u64 {
        let write = Operation::Write {
            offset: token * 4096,
            buffer: vec![token as u8; 4096],
            fua: token == 63,
        };
        queue_pair
            .submit(token, &store, write, &mut Lane::default())
            .expect("room");
    }
    for completion in wait_for(&mut queue_pair, 64) {
        completion.result.expect("written");
    }
    for token in 0..64u64 {
        let read = Operation::Read {
            offset: token * 4096,
            buffer: vec![0xff; 4096],
        };
        queue_pair
            .submit(token, &store, read, &mut Lane::default())
            .expect("room");
    }
    for completion in wait_for(&mut queue_pair, 64) {
        completion.result.expect("read");
        let expected = Operation::Read {
            offset: completion.token * 4096,
            buffer: vec![completion.token as u8; 4096],
        };
        assert_eq!(completion.operation, expected);
        assert!(completion.queued <= completion.began);
        assert!(completion.began <= completion.finished);
    }
    queue_pair
        .submit(0, &store, Operation::Flush, &mut Lane::default())
        .expect("room");
    assert!(wait_for(&mut queue_pair, 1)[0].result.is_ok());
}
