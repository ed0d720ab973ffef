//! No flush and no FUA write returns GOOD over lost data, whichever of several in parallel gets the kernel's error.

use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::{Arc, Barrier, Condvar, Mutex, MutexGuard};
use std::thread::{self, ThreadId};

use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use rustix::io::Errno;
use tempfile::TempDir;

use super::{shared, wait_for};
use crate::store::syncing::SyncCalls;
use crate::store::{FileStore, Lane, Operated, Operation, Pool, QueueBounds, Store, StoreError};

const SIZE_BYTES: u64 = 1 << 20;
const BLOCK: [u8; 512] = [7; 512];

/// A kernel that reports errors as Linux does: a failed write-back once to each open file description, a call's own
/// error to that call alone. Calls wait where the test wants them to.
#[derive(Debug, Default)]
struct Kernel {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Failed write-backs so far, and the last one's error.
    failures: u64,
    failure: Option<Errno>,
    /// How many of them were reported to each open file description, by descriptor.
    told: BTreeMap<i32, u64>,
    /// An error of the next synchronous write's own.
    refusal: Option<Errno>,
    /// Threads that checked for errors after there was one.
    too_late: HashSet<ThreadId>,
    entered: usize,
    returned: usize,
    gate: Gate,
}

/// Where calls wait.
#[derive(Debug, Default, Clone, Copy)]
enum Gate {
    #[default]
    Open,
    /// Every call until this many have entered, and one that gets an error until all others have returned.
    ErrorsLast(usize),
    /// Calls without an error to report, before they return.
    SuccessesHeld,
}

impl Kernel {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    fn set(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.lock());
        self.changed.notify_all();
    }

    /// Written data is lost with `errno`.
    fn fail_write_back(&self, errno: Errno) {
        self.set(|state| {
            state.failures += 1;
            state.failure = Some(errno);
        });
    }

    fn until(&self, holds: impl Fn(&State) -> bool) {
        drop(self.wait(self.lock(), holds));
    }

    fn wait<'a>(
        &self,
        state: MutexGuard<'a, State>,
        holds: impl Fn(&State) -> bool,
    ) -> MutexGuard<'a, State> {
        let waits = |state: &mut State| !holds(state);
        self.changed.wait_while(state, waits).unwrap()
    }

    /// A call on `file` that reports its own error, if any, or that of a write-back.
    fn call(&self, file: &File, own: Option<Errno>) -> Result<(), Errno> {
        let mut state = self.lock();
        state.entered += 1;
        self.changed.notify_all();
        if let Gate::ErrorsLast(calls) = state.gate {
            state = self.wait(state, |state| state.entered >= calls);
        }
        let failures = state.failures;
        if failures > 0 {
            state.too_late.insert(thread::current().id());
        }
        let told = state.told.insert(file.as_raw_fd(), failures).unwrap_or(0);
        let error = own.or(state.failure.filter(|_| told < failures));
        state = self.wait(state, |state| match state.gate {
            Gate::Open => true,
            Gate::ErrorsLast(calls) => error.is_none() || state.returned >= calls - 1,
            Gate::SuccessesHeld => error.is_some(),
        });
        state.returned += 1;
        self.changed.notify_all();
        error.map_or(Ok(()), Err)
    }
}

#[derive(Debug)]
struct Calls(Arc<Kernel>);

impl SyncCalls for Calls {
    fn write_synced(&self, file: &File, bytes: &[u8], offset: u64) -> Result<usize, Errno> {
        let refusal = self.0.lock().refusal.take();
        file.write_all_at(bytes, offset).expect("a plain file");
        self.0.call(file, refusal).map(|()| bytes.len())
    }

    fn sync(&self, file: &File) -> Result<(), Errno> {
        self.0.call(file, None)
    }
}

/// A store on a kernel controlled by the test.
fn store() -> (Arc<Kernel>, FileStore, TempDir) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path: PathBuf = folder.path().join("disk.img");
    File::create(&path)
        .and_then(|file| file.set_len(SIZE_BYTES))
        .expect("a new file");
    let kernel = Arc::new(Kernel::default());
    let calls = Box::new(Calls(Arc::clone(&kernel)));
    let store = FileStore::for_test(&path, SIZE_BYTES, calls);
    (kernel, store, folder)
}

/// Submits all `operations` at once, each on its own thread, and returns their results.
fn in_parallel(store: FileStore, operations: Vec<Operation>) -> Vec<Result<(), StoreError>> {
    let count = operations.len();
    let pool = Pool::start(count).expect("threads");
    let bounds = QueueBounds {
        operations: count,
        bytes: usize::MAX,
    };
    let mut queue_pair = pool.queue_pair(bounds).expect("a descriptor");
    let store = shared(store);
    for operation in operations {
        queue_pair
            .submit(0, &store, operation, &mut Lane::default())
            .expect("room");
    }
    wait_for(&mut queue_pair, count)
        .into_iter()
        .map(|completion| completion.result)
        .collect()
}

fn fua(offset: u64) -> Operation {
    Operation::Write {
        offset,
        buffer: BLOCK.to_vec(),
        fua: true,
    }
}

#[track_caller]
fn assert_none_good(results: &[Result<(), StoreError>]) {
    let good = results.iter().filter(|result| result.is_ok()).count();
    assert_eq!(good, 0, "answered GOOD over lost data");
}

/// One of them gets the error, after all others have returned from the kernel.
fn all_fail(operations: Vec<Operation>, errno: Errno) {
    let (kernel, store, _folder) = store();
    store.write_at(0, &BLOCK, false).expect("cached");
    kernel.fail_write_back(errno);
    let count = operations.len();
    kernel.set(|state| state.gate = Gate::ErrorsLast(count));
    assert_none_good(&in_parallel(store, operations));
}

#[test]
fn of_flushes_in_parallel_none_is_good_when_one_takes_the_error() {
    all_fail((0..16).map(|_| Operation::Flush).collect(), Errno::IO);
}

#[test]
fn of_fua_writes_in_parallel_none_is_good_when_one_takes_the_error() {
    all_fail((0..16).map(|n| fua(n * 512)).collect(), Errno::IO);
}

#[test]
fn neither_flush_nor_fua_write_is_good_when_the_other_takes_the_error() {
    let mixed = |n: u64| match n % 2 {
        0 => fua(n * 512),
        _ => Operation::Flush,
    };
    all_fail((0..16).map(mixed).collect(), Errno::IO);
}

#[test]
fn a_flush_that_began_before_a_failing_one_and_ends_after_it_fails() {
    for earlier in [Operation::Flush, fua(512)] {
        let (kernel, store, _folder) = store();
        kernel.set(|state| state.gate = Gate::SuccessesHeld);
        thread::scope(|scope| {
            let earlier = scope.spawn(|| match earlier {
                Operation::Flush => store.flush(),
                _ => store.write_at(512, &BLOCK, true),
            });
            // It has seen no error, and is still in the kernel.
            kernel.until(|state| state.entered == 1);
            kernel.fail_write_back(Errno::IO);
            assert_none_good(&[store.flush()]);
            kernel.set(|state| state.gate = Gate::Open);
            let result = earlier.join().expect("no panic");
            assert!(matches!(result, Err(StoreError::Lost)), "{result:?}");
        });
    }
}

#[test]
fn enospc_of_an_earlier_write_told_to_a_fua_write_is_a_loss() {
    for errno in [Errno::NOSPC, Errno::DQUOT] {
        let (kernel, store, _folder) = store();
        store.write_at(0, &BLOCK, false).expect("cached");
        kernel.fail_write_back(errno);
        let written = store.write_at(4096, &BLOCK, true);
        assert!(
            matches!(
                written,
                Err(StoreError::Machine {
                    operated: Operated::Write,
                    ..
                })
            ),
            "{written:?}"
        );
        for later in [
            store.flush(),
            store.write_at(0, &BLOCK, false),
            store.write_at(0, &BLOCK, true),
        ] {
            assert!(matches!(later, Err(StoreError::Lost)), "{later:?}");
        }
    }
}

#[test]
fn enospc_of_earlier_writes_told_to_parallel_fua_writes_is_a_loss() {
    for errno in [Errno::NOSPC, Errno::DQUOT] {
        let (kernel, store, _folder) = store();
        kernel.fail_write_back(errno);
        let results = in_parallel(store, (0..8).map(|n| fua(n * 512)).collect());
        assert_none_good(&results);
    }
}

#[test]
fn enospc_of_a_fua_write_itself_loses_nothing() {
    for errno in [Errno::NOSPC, Errno::DQUOT] {
        let (kernel, store, _folder) = store();
        store.write_at(0, &BLOCK, false).expect("cached");
        kernel.set(|state| state.refusal = Some(errno));
        let refused = store.write_at(4096, &BLOCK, true);
        assert!(
            matches!(refused, Err(StoreError::NoSpace { .. })),
            "{refused:?}"
        );
        store.flush().expect("all that was acknowledged is there");
        store.write_at(4096, &BLOCK, true).expect("there is room");
    }
}

#[test]
fn enospc_of_a_flush_is_a_loss() {
    for errno in [Errno::NOSPC, Errno::DQUOT] {
        let (kernel, store, _folder) = store();
        kernel.fail_write_back(errno);
        let flushed = store.flush();
        assert!(
            matches!(
                flushed,
                Err(StoreError::Machine {
                    operated: Operated::Flush,
                    ..
                })
            ),
            "{flushed:?}"
        );
        assert!(matches!(store.flush(), Err(StoreError::Lost)));
    }
}

/// Threads flush and write at random while a write-back fails at a random moment: operations that the kernel had not
/// completed by then must not return GOOD.
#[test]
fn no_interleaving_answers_good_over_lost_data() {
    const ROUNDS: u64 = 400;
    const THREADS: u64 = 6;
    const OPERATIONS: u64 = 8;
    for seed in 0..ROUNDS {
        let (kernel, store, _folder) = store();
        let start = Barrier::new(THREADS as usize + 1);
        let fails_after = Pcg64Mcg::seed_from_u64(seed).next_u32() as usize % 40;
        thread::scope(|scope| {
            for thread in 0..THREADS {
                let (kernel, store, start) = (&kernel, &store, &start);
                let mut random = Pcg64Mcg::seed_from_u64(seed * THREADS + thread);
                scope.spawn(move || {
                    start.wait();
                    for _ in 0..OPERATIONS {
                        let result = match random.next_u32() % 3 {
                            0 => store.write_at(thread * 512, &BLOCK, true),
                            _ => store.flush(),
                        };
                        let too_late = kernel.lock().too_late.contains(&thread::current().id());
                        assert!(!(too_late && result.is_ok()), "seed {seed}");
                    }
                });
            }
            start.wait();
            kernel.until(|state| state.returned >= fails_after);
            kernel.fail_write_back(Errno::IO);
        });
        assert_none_good(&[store.flush()]);
    }
}
