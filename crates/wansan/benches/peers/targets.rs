//! Our target beside tgtd under the same client: rate, and processor time of the server.

use wansan_peers::compare::{Bound, Comparison, Side, in_turns};
use wansan_peers::cpu;
use wansan_peers::perf::{self, Load, Pattern};
use wansan_peers::process::PeerError;
use wansan_peers::qemu::Operation;
use wansan_peers::tgtd::BackingStore;

use crate::disks::{Disk, build_file_system, build_folder, memory_folder};
use crate::loads::{LARGE_SEQUENTIAL, SMALL_RANDOM, TURNS, our_iops};

/// What is promised of one load.
struct Promise {
    operation: Operation,
    load: Load,
    rate: Bound,
    /// Of the processor time for each I/O.
    cost: Bound,
}

/// On files in memory, 4 KiB random reads.
pub(crate) fn random_in_memory() -> Result<Vec<Comparison>, PeerError> {
    let promise = Promise {
        operation: Operation::Read,
        load: SMALL_RANDOM,
        rate: Bound::AtLeast(1.2),
        cost: Bound::AtMost(0.7),
    };
    compare("memory", &promise, &disks_in_memory()?)
}

/// On files in memory, 256 KiB sequential reads.
pub(crate) fn sequential_in_memory() -> Result<Vec<Comparison>, PeerError> {
    let promise = Promise {
        operation: Operation::Read,
        load: LARGE_SEQUENTIAL,
        rate: Bound::AtLeast(1.2),
        cost: Bound::AtMost(1.0),
    };
    compare("memory", &promise, &disks_in_memory()?)
}

fn disks_in_memory() -> Result<[Disk; 2], PeerError> {
    Ok([
        Disk::ours(memory_folder()?)?,
        Disk::tgtd(memory_folder()?, BackingStore::ReadWrite)?,
    ])
}

/// On files of the file system that the build is on, in the page cache but for tgtd's `aio`.
pub(crate) fn on_a_file_system() -> Result<Vec<Comparison>, PeerError> {
    on_files(
        &build_file_system()?,
        &[
            Disk::ours(build_folder()?)?,
            Disk::tgtd(build_folder()?, BackingStore::ReadWrite)?,
            Disk::tgtd(build_folder()?, BackingStore::Aio)?,
        ],
    )
}

/// On files of the file system that the build is on, which both bypass the page cache.
pub(crate) fn without_page_cache() -> Result<Vec<Comparison>, PeerError> {
    on_files(
        &format!("{}, O_DIRECT", build_file_system()?),
        &[
            Disk::ours_directly(build_folder()?)?,
            Disk::tgtd(build_folder()?, BackingStore::Aio)?,
        ],
    )
}

/// Reads and writes of both sizes on files; the first disk is ours.
fn on_files<const DISKS: usize>(
    medium: &str,
    disks: &[Disk; DISKS],
) -> Result<Vec<Comparison>, PeerError> {
    let promise = |operation, load| Promise {
        operation,
        load,
        rate: Bound::AtLeast(1.0),
        cost: Bound::AtMost(1.0),
    };
    let promises = [
        promise(Operation::Read, SMALL_RANDOM),
        promise(Operation::Write, SMALL_RANDOM),
        promise(Operation::Read, LARGE_SEQUENTIAL),
        promise(Operation::Write, LARGE_SEQUENTIAL),
    ];
    let mut comparisons = Vec::new();
    for promise in &promises {
        comparisons.extend(compare(medium, promise, disks)?);
    }
    Ok(comparisons)
}

/// Measures all `disks` with one load; the first of them is ours.
fn compare<const DISKS: usize>(
    medium: &str,
    promise: &Promise,
    disks: &[Disk; DISKS],
) -> Result<Vec<Comparison>, PeerError> {
    let mut sides = disks
        .each_ref()
        .map(|disk| || Sample::take(disk, promise.operation, promise.load));
    let samples = in_turns(
        TURNS,
        sides.each_mut().map(|side| side as &mut dyn FnMut() -> _),
    )?;
    let load = promise.text();
    let compared = |question, unit, bound, value: fn(&Sample) -> f64| {
        let mut all = disks.iter().zip(&samples).map(|(disk, samples)| Side {
            name: disk.name,
            samples: samples.iter().map(value).collect(),
        });
        Comparison {
            question,
            unit,
            ours: all.next().expect("the first is ours"),
            others: all.collect(),
            bound,
        }
    };
    Ok(vec![
        compared(
            format!("target on {medium}: {load}"),
            "I/O/s",
            promise.rate,
            |sample| sample.iops,
        ),
        compared(
            format!("target on {medium}: processor time of the server, {load}"),
            "µs/I/O",
            promise.cost,
            |sample| sample.cpu_us_per_io,
        ),
    ])
}

impl Promise {
    /// The load and its client.
    fn text(&self) -> String {
        let pattern = match self.load.pattern {
            Pattern::Random => "random",
            Pattern::Sequential => "sequential",
        };
        let (operations, client) = match self.operation {
            Operation::Read => ("reads", "iscsi-perf"),
            Operation::Write => ("writes", "wansan bench"),
        };
        format!(
            "{} KiB {pattern} {operations} by {client}, {} in flight, one connection",
            self.load.block_bytes >> 10,
            self.load.parallel,
        )
    }
}

/// What a load reached, and what the server spent on it.
struct Sample {
    iops: f64,
    cpu_us_per_io: f64,
}

impl Sample {
    /// `iscsi-perf` only reads, so ours is the client that writes, to all alike.
    fn take(disk: &Disk, operation: Operation, load: Load) -> Result<Self, PeerError> {
        let time_used = || {
            cpu::time_used(disk.id).map_err(|source| PeerError::System {
                program: disk.name.to_owned(),
                source,
            })
        };
        let before = time_used()?;
        let iops = match operation {
            Operation::Read => perf::read(&disk.url, load)?.iops,
            Operation::Write => our_iops(&disk.url, operation, load, &[])?,
        };
        let used = time_used()? - before;
        // Without a warm-up the rate is that of the whole load.
        let ios = iops * load.time_s as f64;
        Ok(Self {
            iops,
            cpu_us_per_io: used.as_secs_f64() * 1e6 / ios,
        })
    }
}
