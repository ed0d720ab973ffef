//! SCSI operations on stores other than reading and writing, for all stores alike.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use wansan_iscsi::scsi::{CopyJob, CopyProgress, CopySegment, MediumOperation};

use super::shared;
use crate::store::{Extent, FileStore, MediumJob, MemoryStore, Store, StoreError};

const SIZE_BYTES: u64 = 4 << 20;

fn stores_in(folder: &Path) -> [Arc<dyn Store>; 2] {
    let file = FileStore::open_or_create(&folder.join("disk.img"), SIZE_BYTES, 512);
    [
        shared(MemoryStore::new(SIZE_BYTES)),
        shared(file.expect("a new file")),
    ]
}

fn run(store: &Arc<dyn Store>, operation: MediumOperation) -> Result<Vec<u8>, StoreError> {
    let stores = Arc::from([Arc::clone(store)]);
    let mut job = MediumJob::new(Box::new(operation), &stores, 0, false);
    job.run().map(|()| job.into_output())
}

fn bytes_at(store: &Arc<dyn Store>, offset: u64, bytes: usize) -> Vec<u8> {
    let mut read = vec![0xa5; bytes];
    store.read_at(offset, &mut read).expect("read");
    read
}

#[test]
fn deallocated_blocks_read_as_zeros_and_say_so() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for store in stores_in(folder.path()) {
        store.write_at(0, &[7; 3 << 20], false).expect("written");
        // A part of a page, whole pages, and a whole extent.
        let ranges = vec![(1000, 100), (8192, 8192), (1 << 20, 1 << 20)];
        run(&store, MediumOperation::Deallocate { ranges }).expect("done");
        let mut expected = vec![7; 3 << 20];
        for range in [1000..1100, 8192..16384, 1 << 20..2 << 20] {
            expected[range].fill(0);
        }
        assert!(bytes_at(&store, 0, 3 << 20) == expected);
        let status = MediumOperation::Status {
            offset_bytes: 4096,
            block_bytes: 512,
            max_runs: 3,
        };
        let data = run(&store, status).expect("runs");
        let runs: Vec<(u8, u8)> = data[8..].chunks(16).map(|run| (run[11], run[12])).collect();
        // 8 blocks mapped, 16 unmapped, then mapped up to the deallocated extent.
        assert_eq!(runs[..2], [(8, 0), (16, 1)]);
        assert_eq!(runs[2].1, 0);
    }
}

#[test]
fn differences_are_found_where_they_are() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for store in stores_in(folder.path()) {
        store.write_at(0, &[1; 8192], false).expect("written");
        store.write_at(5000, &[2], false).expect("written");
        let compare = |len_bytes, data| MediumOperation::Compare {
            offset_bytes: 0,
            len_bytes,
            data,
        };
        assert!(run(&store, compare(4096, vec![1; 512])).is_ok());
        let differs = run(&store, compare(8192, vec![1; 512]));
        assert!(matches!(
            differs,
            Err(StoreError::Miscompare {
                offset: 5000,
                at: 392
            })
        ));
        let sense = differs.map_err(|error| error.sense());
        assert_eq!(
            sense.map(drop).map_err(|sense| sense.information),
            Err(Some(392))
        );

        let mut data = vec![1; 512];
        data.extend([9; 512]);
        let swap = |offset_bytes| MediumOperation::CompareAndWrite {
            offset_bytes,
            data: data.clone(),
            fua: true,
        };
        assert!(run(&store, swap(512)).is_ok());
        assert_eq!(bytes_at(&store, 512, 512), [9; 512]);
        assert!(matches!(
            run(&store, swap(512)),
            Err(StoreError::Miscompare { at: 0, .. })
        ));
        assert_eq!(bytes_at(&store, 512, 512), [9; 512]);
    }
}

#[test]
fn one_block_is_written_again_and_again() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for store in stores_in(folder.path()) {
        let block: Vec<u8> = (0..=255).cycle().take(512).collect();
        let same = MediumOperation::WriteSame {
            offset_bytes: 512,
            len_bytes: (2 << 20) + 512,
            block: block.clone(),
        };
        run(&store, same).expect("written");
        let read = bytes_at(&store, 0, (2 << 20) + 1536);
        assert_eq!(read[..512], [0; 512]);
        assert!(
            read[512..][..(2 << 20) + 512]
                .chunks(512)
                .all(|one| one == block)
        );
        assert_eq!(read[(2 << 20) + 1024..], [0; 512]);
    }
}

/// A store that counts its flushes.
struct Counting(MemoryStore, AtomicUsize);

impl Store for Counting {
    fn size_bytes(&self) -> u64 {
        self.0.size_bytes()
    }

    fn read_at(&self, offset: u64, dst: &mut [u8]) -> Result<(), StoreError> {
        self.0.read_at(offset, dst)
    }

    fn write_at(&self, offset: u64, src: &[u8], fua: bool) -> Result<(), StoreError> {
        self.0.write_at(offset, src, fua)
    }

    fn flush(&self) -> Result<(), StoreError> {
        self.1.fetch_add(1, Ordering::Relaxed);
        self.0.flush()
    }

    fn update(
        &self,
        offset: u64,
        len: usize,
        fua: bool,
        change: &mut dyn FnMut(&mut [u8]) -> bool,
    ) -> Result<(), StoreError> {
        self.0.update(offset, len, fua, change)
    }

    fn deallocate(&self, offset: u64, len: u64) -> Result<(), StoreError> {
        self.0.deallocate(offset, len)
    }

    fn extent_at(&self, offset: u64) -> Result<Extent, StoreError> {
        self.0.extent_at(offset)
    }

    fn is_memory(&self) -> bool {
        false
    }
}

#[test]
fn with_fua_every_unit_that_is_written_is_flushed() {
    let units: [Arc<Counting>; 2] = std::array::from_fn(|_| {
        Arc::new(Counting(MemoryStore::new(SIZE_BYTES), AtomicUsize::new(0)))
    });
    let stores: Arc<[Arc<dyn Store>]> = units.iter().map(|unit| Arc::clone(unit) as _).collect();
    let flushes = |operation: MediumOperation, fua| {
        let before = units.each_ref().map(|unit| unit.1.load(Ordering::Relaxed));
        let mut job = MediumJob::new(Box::new(operation), &stores, 0, fua);
        job.run().expect("carried out");
        let after = units.each_ref().map(|unit| unit.1.load(Ordering::Relaxed));
        [after[0] - before[0], after[1] - before[1]]
    };
    let zeros = || MediumOperation::Deallocate {
        ranges: vec![(0, 4096)],
    };
    let read = || MediumOperation::Verify {
        offset_bytes: 0,
        len_bytes: 4096,
    };
    let copy = || {
        let segment = CopySegment {
            from_unit: 0,
            from_bytes: 0,
            to_unit: 1,
            to_bytes: 0,
            len_bytes: 4096,
        };
        MediumOperation::Copy(CopyJob {
            segments: vec![segment, segment],
            progress: Arc::new(CopyProgress::default()),
        })
    };
    assert_eq!(flushes(zeros(), false), [0, 0]);
    assert_eq!(flushes(zeros(), true), [1, 0]);
    assert_eq!(flushes(read(), true), [0, 0]);
    assert_eq!(flushes(copy(), false), [0, 0]);
    assert_eq!(flushes(copy(), true), [0, 1]);
}

/// From unit to unit, and within one, with source and destination overlapping either way.
#[test]
fn copies_keep_what_they_copy() {
    const LEN: usize = (2 << 20) + 512;
    let folder = tempfile::tempdir().expect("a temporary folder");
    let stores: Arc<[Arc<dyn Store>]> = Arc::from(stores_in(folder.path()));
    let data: Vec<u8> = (0..LEN).map(|at| (at / 512 + at) as u8).collect();
    stores[0].write_at(512, &data, false).expect("written");
    // The successive locations of the data.
    let ways = [(0, 512), (1, 4096), (1, 8192), (1, 512), (0, 1 << 20)];
    for ((from_unit, from), (to_unit, to)) in ways.into_iter().zip(ways.into_iter().skip(1)) {
        let segment = CopySegment {
            from_unit,
            from_bytes: from,
            to_unit,
            to_bytes: to,
            len_bytes: LEN as u64,
        };
        let copy = MediumOperation::Copy(CopyJob {
            segments: vec![segment],
            progress: Arc::new(CopyProgress::default()),
        });
        MediumJob::new(Box::new(copy), &stores, 0, false)
            .run()
            .expect("copied");
        assert!(bytes_at(&stores[to_unit], to, LEN) == data, "{segment:?}");
    }
}

/// Four threads increment one number, by COMPARE AND WRITE of the block that all four share, across the boundary of two
/// extents. No increment is lost.
#[test]
fn compare_and_write_is_one_step() {
    const ROUNDS: u64 = 300;
    let folder = tempfile::tempdir().expect("a temporary folder");
    for store in stores_in(folder.path()) {
        let offset = (1 << 20) - 256;
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let mut done = 0;
                    while done < ROUNDS {
                        let before = bytes_at(&store, offset, 512);
                        let mut after = before.clone();
                        // Its first and its last bytes are in two extents.
                        for place in [0, 504] {
                            let number = &mut after[place..place + 8];
                            let count = u64::from_be_bytes(number.try_into().expect("8 bytes"));
                            number.copy_from_slice(&(count + 1).to_be_bytes());
                        }
                        let swap = MediumOperation::CompareAndWrite {
                            offset_bytes: offset,
                            data: [before, after].concat(),
                            fua: false,
                        };
                        match run(&store, swap) {
                            Ok(_) => done += 1,
                            Err(StoreError::Miscompare { .. }) => {}
                            Err(error) => panic!("{error}"),
                        }
                    }
                });
            }
        });
        let end = bytes_at(&store, offset, 512);
        for place in [0, 504] {
            assert_eq!(end[place..place + 8], (4 * ROUNDS).to_be_bytes());
        }
    }
}
