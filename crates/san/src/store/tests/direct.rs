//! Files that bypass the page cache.

use std::fs::OpenOptions;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::{shared, wait_for};
use crate::store::{
    Completion, FileStore, Lane, OpenError, Operation, Pool, QueueBounds, QueuePair, ServiceTime,
    ServiceTimeStore, Store, StoreError,
};

const SIZE_BYTES: usize = 8 << 20;
const BLOCK_BYTES: u32 = 512;

/// A folder on the file system of the build: that of temporary files may be memory.
fn folder() -> tempfile::TempDir {
    let program = std::env::current_exe().expect("this program's path");
    tempfile::tempdir_in(program.parent().expect("its folder")).expect("a temporary folder")
}

/// Bytes that differ everywhere.
fn content() -> Vec<u8> {
    let words = 0..SIZE_BYTES as u32 / 4;
    words
        .flat_map(|word| word.wrapping_mul(2_654_435_761).to_le_bytes())
        .collect()
}

/// A file with that content, accessed directly.
fn store_in(folder: &Path) -> Arc<dyn Store> {
    let path = folder.join("disk.img");
    std::fs::write(&path, content()).expect("a new file");
    let store = FileStore::open(&path, BLOCK_BYTES).expect("a file");
    shared(
        store
            .direct(&path, BLOCK_BYTES)
            .expect("a file system with direct I/O"),
    )
}

fn queue_pair(pool: &Pool) -> QueuePair {
    let bounds = QueueBounds {
        operations: 1 << 10,
        bytes: 1 << 30,
    };
    pool.queue_pair(bounds).expect("a descriptor")
}

/// More reads than the ring holds, from part of a block to more than a piece.
fn reads() -> Vec<(u64, usize)> {
    let block = u64::from(BLOCK_BYTES);
    let places = (0..400).map(|place: u64| (place * 7919 * block) % (SIZE_BYTES as u64 / 2));
    let lengths = [
        200,
        512,
        4096,
        4608,
        256 << 10,
        (1 << 20) + 512,
        700,
        2 << 20,
    ];
    let within_a_block = (100, 300);
    let rest = places.zip(lengths.into_iter().cycle());
    [within_a_block].into_iter().chain(rest).collect()
}

fn submit(queue_pair: &mut QueuePair, store: &Arc<dyn Store>, token: usize, at: (u64, usize)) {
    let read = Operation::Read {
        offset: at.0,
        buffer: vec![0xa5; at.1],
    };
    let submitted = queue_pair.submit(token as u64, store, read, &mut Lane::default());
    submitted.expect("room");
}

/// Reads everything at once, and checks what comes back.
fn check_reads(queue_pair: &mut QueuePair, store: &Arc<dyn Store>) {
    let (content, reads) = (content(), reads());
    for (token, &at) in reads.iter().enumerate() {
        submit(queue_pair, store, token, at);
    }
    let mut seen = vec![false; reads.len()];
    for completion in wait_for(queue_pair, reads.len()) {
        let token = completion.token as usize;
        completion.result.expect("read");
        assert!(
            !std::mem::replace(&mut seen[token], true),
            "read {token} ended twice"
        );
        assert!(completion.queued <= completion.began && completion.began <= completion.finished);
        let (offset, bytes) = reads[token];
        let wanted = &content[offset as usize..][..bytes];
        let Operation::Read { buffer, .. } = completion.operation else {
            panic!("another operation came back");
        };
        assert!(
            buffer == wanted,
            "read {token} of {bytes} bytes at {offset}"
        );
    }
    assert_eq!(queue_pair.load().operations, 0);
}

#[test]
fn reads_return_the_files_data_with_io_uring_and_without() {
    let folder = folder();
    let store = store_in(folder.path());
    let pool = Pool::start(3).expect("threads");
    let mut without = queue_pair(&pool);
    without.without_ring();
    check_reads(&mut without, &store);
    // Where it is not available, this is the same again.
    check_reads(&mut queue_pair(&pool), &store);
}

fn write(queue_pair: &mut QueuePair, store: &Arc<dyn Store>, token: u64, write: Operation) {
    let submitted = queue_pair.submit(token, store, write, &mut Lane::default());
    submitted.expect("room");
}

/// Writes more than the ring holds at once, from one block to more than a piece, some of it to the medium.
fn check_writes(queue_pair: &mut QueuePair, folder: &Path) {
    let store = store_in(folder);
    let mut model = content();
    let lengths = [512, 4096, 4608, 64 << 10, (1 << 20) + 512, 1024];
    let mut offset = 0;
    let mut writes = 0;
    for (number, length) in lengths.into_iter().cycle().enumerate() {
        if offset + length > SIZE_BYTES || number == 400 {
            break;
        }
        let byte = number as u8;
        model[offset..offset + length].fill(byte);
        let operation = Operation::Write {
            offset: offset as u64,
            buffer: vec![byte; length],
            fua: number.is_multiple_of(7),
        };
        write(queue_pair, &store, number as u64, operation);
        offset += length + 512;
        writes += 1;
    }
    for completion in wait_for(queue_pair, writes) {
        completion.result.expect("written");
        assert!(completion.queued <= completion.began && completion.began <= completion.finished);
    }
    let file = std::fs::read(folder.join("disk.img")).expect("the file");
    assert!(file == model);
    // The writes are over: an update need not wait.
    let same = store.update(0, 512, false, &mut |_| false);
    same.expect("nothing to change");
}

#[test]
fn writes_change_the_file_with_io_uring_and_without() {
    let folders = [folder(), folder()];
    let pool = Pool::start(3).expect("threads");
    let mut without = queue_pair(&pool);
    without.without_ring();
    check_writes(&mut without, folders[0].path());
    // Where it is not available, this is the same again.
    check_writes(&mut queue_pair(&pool), folders[1].path());
}

#[test]
fn an_update_sees_no_part_of_a_write() {
    const BYTES: usize = 2 << 20;
    let folder = folder();
    let store = store_in(folder.path());
    let uniform = |bytes: &[u8]| bytes.iter().all(|byte| *byte == bytes[0]);
    store.write_at(0, &vec![0; BYTES], false).expect("written");
    let pool = Pool::start(2).expect("threads");
    let mut queue_pair = queue_pair(&pool);
    std::thread::scope(|scope| {
        let updater = scope.spawn(|| {
            for _ in 0..50 {
                let updated = store.update(0, BYTES, false, &mut |bytes| {
                    assert!(uniform(bytes));
                    let next = bytes[0].wrapping_add(1);
                    bytes.fill(next);
                    true
                });
                updated.expect("changed");
            }
        });
        let mut number = 0_u8;
        while !updater.is_finished() {
            number = number.wrapping_add(3);
            let operation = Operation::Write {
                offset: 0,
                buffer: vec![number; BYTES],
                fua: false,
            };
            write(&mut queue_pair, &store, 0, operation);
            let completion = wait_for(&mut queue_pair, 1).remove(0);
            completion.result.expect("written");
        }
    });
    let mut bytes = vec![0; BYTES];
    store.read_at(0, &mut bytes).expect("read");
    assert!(uniform(&bytes));
}

#[test]
fn a_session_with_many_reads_does_not_delay_another() {
    let folder = folder();
    let store = store_in(folder.path());
    let pool = Pool::start(1).expect("a thread");
    let mut queue_pair = queue_pair(&pool);
    let (mut busy, mut other) = (Lane::default(), Lane::default());
    const READS: u64 = 1000;
    for token in 0..READS {
        let read = Operation::Read {
            offset: token * 4096,
            buffer: vec![0; 4096],
        };
        let lane = if token < READS - 4 {
            &mut busy
        } else {
            &mut other
        };
        queue_pair.submit(token, &store, read, lane).expect("room");
    }
    // The device may complete them in any order, so what counts is when each began.
    let completions = wait_for(&mut queue_pair, READS as usize);
    let is_other = |completion: &&Completion| completion.token >= READS - 4;
    let others = || completions.iter().filter(is_other);
    let asked = others().map(|it| it.queued).min();
    let served = others().map(|it| it.began).max();
    let mut busy: Vec<_> = completions.iter().filter(|it| !is_other(it)).collect();
    let meanwhile = |it: &&&Completion| Some(it.began) > asked && Some(it.began) < served;
    let overtaken = busy.iter().filter(meanwhile).count();
    assert!(
        overtaken <= 16,
        "{overtaken} of the busy session's reads began meanwhile"
    );
    // Those of one lane begin in order.
    busy.sort_by_key(|completion| completion.token);
    assert!(busy.is_sorted_by_key(|completion| completion.began));
}

#[test]
fn a_new_file_is_probed_and_reads_as_zeros() {
    let folder = folder();
    for block_bytes in [512, 4096] {
        let path = folder.path().join(block_bytes.to_string());
        let store = FileStore::open_or_create(&path, 1 << 20, block_bytes).expect("a new file");
        let store = store.direct(&path, block_bytes).expect("direct I/O");
        let mut data = vec![1; 1 << 20];
        store.read_at(0, &mut data).expect("read");
        assert!(data.iter().all(|byte| *byte == 0));
        let blocks = std::fs::metadata(&path).expect("the file").blocks();
        assert!(blocks > 0, "it was written");
    }
}

#[test]
fn an_old_file_without_data_is_not_written() {
    let folder = folder();
    let path = folder.path().join("disk.img");
    let made = std::fs::File::create(&path).and_then(|file| file.set_len(1 << 20));
    made.expect("a sparse file");
    let store = FileStore::open(&path, BLOCK_BYTES).expect("a file");
    store.direct(&path, BLOCK_BYTES).expect("direct I/O");
    let blocks = std::fs::metadata(&path).expect("the file").blocks();
    assert_eq!(blocks, 0);
}

#[test]
fn a_set_service_time_lasts_for_direct_reads_too() {
    let folder = folder();
    let time = Duration::from_millis(20);
    let service = ServiceTime { time, servers: 1 };
    let store = shared(ServiceTimeStore::new(store_in(folder.path()), service));
    let pool = Pool::start(1).expect("a thread");
    let mut queue_pair = queue_pair(&pool);
    submit(&mut queue_pair, &store, 0, (0, 4096));
    let completion = &wait_for(&mut queue_pair, 1)[0];
    assert!(completion.finished - completion.began >= time);
}

#[test]
fn what_is_written_is_read_back_beside_and_through_the_page_cache() {
    let folder = folder();
    let store = store_in(folder.path());
    for (offset, bytes, fua) in [
        (0, 512, false),
        (512, 3 << 20, true),
        (SIZE_BYTES - 512, 512, true),
    ] {
        let data: Vec<u8> = (0..bytes).map(|place| (place % 251) as u8).collect();
        store.write_at(offset as u64, &data, fua).expect("written");
        let mut back = vec![0; bytes];
        store.read_at(offset as u64, &mut back).expect("read");
        assert!(back == data);
        let file = std::fs::read(folder.path().join("disk.img")).expect("the file");
        assert!(file[offset..offset + bytes] == data);
    }
    let change = |bytes: &mut [u8]| {
        bytes.fill(9);
        true
    };
    store
        .update(1024, 1024, true, &mut { change })
        .expect("changed");
    store.flush().expect("flushed");
    let mut back = vec![0; 1024];
    store.read_at(1024, &mut back).expect("read");
    assert_eq!(back, [9; 1024]);
    assert_eq!(
        store.try_read_now(1024, &mut back).map(|_| ()),
        None,
        "it may block"
    );
}

#[test]
fn a_read_that_fails_says_why_and_the_others_go_on() {
    let folder = folder();
    let store = store_in(folder.path());
    let file = OpenOptions::new()
        .write(true)
        .open(folder.path().join("disk.img"));
    file.and_then(|file| file.set_len(4096))
        .expect("a shorter file");
    let pool = Pool::start(1).expect("a thread");
    let mut queue_pair = queue_pair(&pool);
    for (token, at) in [(0, 4096), (0, 8192), (1 << 20, 4096)]
        .into_iter()
        .enumerate()
    {
        submit(&mut queue_pair, &store, token, at);
    }
    let mut completions = wait_for(&mut queue_pair, 3);
    completions.sort_by_key(|completion| completion.token);
    let [whole, cut, beyond] = &completions[..] else {
        panic!("three completions");
    };
    assert!(whole.result.is_ok());
    for short in [cut, beyond] {
        assert!(
            matches!(short.result, Err(StoreError::Short { .. })),
            "{:?}",
            short.result
        );
    }
}

#[test]
fn a_queue_pair_may_go_while_reads_and_writes_are_in_progress() {
    let folder = folder();
    let store = store_in(folder.path());
    let pool = Pool::start(1).expect("a thread");
    for _ in 0..20 {
        let mut queue_pair = queue_pair(&pool);
        for (token, at) in reads().into_iter().enumerate() {
            submit(&mut queue_pair, &store, token, at);
            let operation = Operation::Write {
                offset: token as u64 * 512,
                buffer: vec![0; 512],
                fua: false,
            };
            write(&mut queue_pair, &store, token as u64, operation);
        }
        drop(queue_pair);
        assert_eq!(
            Arc::strong_count(&store),
            1,
            "nothing works for it any more"
        );
        // No write holds back an update.
        store
            .update(0, 512, false, &mut |_| false)
            .expect("nothing to change");
    }
}

#[test]
fn what_cannot_be_accessed_directly_is_named() {
    // The kernel has no direct I/O for this device.
    let path = Path::new("/dev/zero");
    let calls = Box::new(super::super::syncing::Linux);
    let store = FileStore::for_test(path, 1 << 20, calls);
    let error = store.direct(path, BLOCK_BYTES).expect_err("no direct I/O");
    assert!(matches!(error, OpenError::Direct { .. }), "{error:?}");
    let message = error.to_string();
    for part in ["/dev/zero", "512 bytes", "omit `direct`"] {
        assert!(message.contains(part), "{message}");
    }
}
