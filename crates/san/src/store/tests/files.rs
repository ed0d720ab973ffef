//! Files that are missing, malformed, truncated or full.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::{shared, wait_for};
use crate::store::{FileStore, Lane, OpenError, Operation, Pool, QueueBounds, Store, StoreError};

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

fn file_of(path: &Path, size_bytes: u64) {
    File::create(path)
        .and_then(|file| file.set_len(size_bytes))
        .expect("a new file");
}

#[test]
fn a_file_must_exist_or_be_given_a_size() {
    let folder = folder();
    let path = folder.path().join("disk.img");
    let error = FileStore::open(&path, 512).expect_err("there is none");
    let message = error.to_string();
    assert!(message.contains("disk.img,size=1GiB"), "{message}");
    assert!(!path.exists());

    let store = FileStore::open_or_create(&path, 1 << 30, 512).expect("a new file");
    assert_eq!(store.size_bytes(), 1 << 30);
    let metadata = fs::metadata(&path).expect("it is there");
    assert_eq!(metadata.size(), 1 << 30);
    assert!(metadata.blocks() * 512 < 1 << 20, "it is sparse");
}

#[test]
fn a_file_has_one_user_at_a_time() {
    let folder = folder();
    let path = folder.path().join("disk.img");
    let store = FileStore::open_or_create(&path, 4096, 512).expect("a new file");
    for second in [
        FileStore::open(&path, 512),
        FileStore::open_or_create(&path, 4096, 512),
    ] {
        let message = second.expect_err("it is in use").to_string();
        assert!(message.contains("disk.img is in use"), "{message}");
    }
    drop(store);
    assert!(FileStore::open(&path, 512).is_ok());
}

#[test]
fn an_existing_file_is_used_as_it_is() {
    let folder = folder();
    let path = folder.path().join("disk.img");
    fs::write(&path, [7; 8192]).expect("a new file");
    let ways: [&dyn Fn() -> Result<FileStore, OpenError>; 2] =
        [&|| FileStore::open(&path, 4096), &|| {
            FileStore::open_or_create(&path, 8192, 4096)
        }];
    for open in ways {
        let store = open().expect("a good file");
        let mut dst = [0; 8192];
        store.read_at(0, &mut dst).expect("read");
        assert_eq!(dst, [7; 8192]);
    }
    let error = FileStore::open_or_create(&path, 4096, 4096).expect_err("another size");
    assert!(matches!(
        error,
        OpenError::OtherSize {
            size_bytes: 8192,
            asked_bytes: 4096,
            ..
        }
    ));
    assert_eq!(fs::read(&path).expect("untouched").len(), 8192);
}

#[test]
fn a_file_holds_whole_blocks() {
    let folder = folder();
    let path = folder.path().join("disk.img");
    for (size_bytes, block_bytes) in [(0, 512), (100, 512), (512, 4096), (6144, 4096)] {
        file_of(&path, size_bytes);
        let error = FileStore::open(&path, block_bytes).expect_err("no whole blocks");
        let message = error.to_string();
        assert!(
            message.contains(&format!("has {size_bytes} bytes")),
            "{message}"
        );
        assert!(
            message.contains(&format!("{block_bytes}-byte blocks")),
            "{message}"
        );
    }
    let other = folder.path().join("other.img");
    for size_bytes in [0, 1000] {
        let error = FileStore::open_or_create(&other, size_bytes, 512).expect_err("no blocks");
        assert!(matches!(error, OpenError::Blocks { .. }));
        assert!(!other.exists());
    }
}

#[test]
fn what_cannot_be_made_is_not_left_half_made() {
    let folder = folder();
    let path = folder.path().join("disk.img");
    // No file can have 2^63 bytes.
    let error = FileStore::open_or_create(&path, 1 << 63, 512).expect_err("too large");
    assert!(matches!(error, OpenError::Machine { .. }));
    assert!(!path.exists());

    let nowhere = folder.path().join("no/such/folder/disk.img");
    let error = FileStore::open_or_create(&nowhere, 512, 512).expect_err("no folder");
    assert!(error.to_string().contains("no/such/folder/disk.img"));
}

#[test]
fn only_files_and_block_devices_are_stores() {
    let folder = folder();
    for path in [folder.path(), Path::new("/dev/null")] {
        let error = FileStore::open(path, 512).expect_err("no file");
        assert!(matches!(error, OpenError::NotAFile { .. }), "{error}");
    }
}

#[test]
fn a_file_that_was_cut_is_an_error_and_no_data() {
    let folder = folder();
    let path = folder.path().join("disk.img");
    let store = FileStore::open_or_create(&path, 64 << 10, 512).expect("a new file");
    File::options()
        .write(true)
        .open(&path)
        .and_then(|file| file.set_len(6000))
        .expect("cut");
    let mut dst = [0; 4096];
    store.read_at(0, &mut dst).expect("what is left");
    let error = store.read_at(4096, &mut dst).expect_err("the rest is gone");
    assert!(matches!(error, StoreError::Short { end: 8192 }), "{error}");
    assert_eq!(error.sense().fixed()[2], 0x03, "MEDIUM ERROR");

    // The direct read is either undecided or fails; a worker detects it.
    assert!(!matches!(store.try_read_now(4096, &mut dst), Some(Ok(()))));
    let pool = Pool::start(1).expect("a thread");
    let bounds = QueueBounds {
        operations: 1,
        bytes: 4096,
    };
    let mut queue_pair = pool.queue_pair(bounds).expect("a descriptor");
    let read = Operation::Read {
        offset: 4096,
        buffer: vec![0; 4096],
    };
    queue_pair
        .submit(9, &shared(store), read, &mut Lane::default())
        .expect("room");
    let completion = wait_for(&mut queue_pair, 1).remove(0);
    assert!(matches!(completion.result, Err(StoreError::Short { .. })));
}

#[test]
fn a_file_that_was_removed_still_serves() {
    let folder = folder();
    let path = folder.path().join("disk.img");
    let store = FileStore::open_or_create(&path, 4096, 512).expect("a new file");
    fs::remove_file(&path).expect("removed");
    store.write_at(0, &[3; 4096], true).expect("written");
    let mut dst = [0; 4096];
    store.read_at(0, &mut dst).expect("read");
    assert_eq!(dst, [3; 4096]);
}
