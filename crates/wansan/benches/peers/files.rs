//! A file on a real file system, served by our target, by tgtd and by qemu-nbd.

use wansan_peers::compare::{Bound, Comparison, Side, in_turns};
use wansan_peers::perf::{Load, Pattern};
use wansan_peers::process::PeerError;
use wansan_peers::qemu::Operation;
use wansan_peers::qemu_nbd::QemuNbd;
use wansan_peers::tgtd::BackingStore;

use crate::disks::{Disk, build_file_system, build_folder, filled};
use crate::loads::{LARGE_BYTES, PARALLEL, SMALL_BYTES, SMALL_RANDOM, TURNS, our_iops};
use crate::nbd;

/// What is promised beside tgtd where its device has most to do at once.
const TIMES_TGTD: f64 = 2.0;

/// Small and large, reads and writes, at random and in order, one by one and many at once.
pub(crate) fn beside_tgtd_and_qemu() -> Result<Vec<Comparison>, PeerError> {
    let ours = Disk::ours(build_folder()?)?;
    let tgtd = Disk::tgtd(build_folder()?, BackingStore::Aio)?;
    let folder = build_folder()?;
    let qemu = QemuNbd::start(&filled(folder.path())?)?;
    let file_system = build_file_system()?;
    let mut comparisons = Vec::new();
    for (operation, load) in loads() {
        let [own, tgt, nbd] = in_turns(
            TURNS,
            [
                &mut || our_iops(&ours.url, operation, load, &[]),
                &mut || our_iops(&tgtd.url, operation, load, &[]),
                &mut || nbd::iops(qemu.address(), operation, load),
            ],
        )?;
        let compared = |others, bound| Comparison {
            question: format!("file on {file_system}: {}", text(operation, load)),
            unit: "I/O/s",
            ours: Side {
                name: ours.name,
                samples: own.clone(),
            },
            others,
            bound: Bound::AtLeast(bound),
        };
        let tgtd = Side {
            name: tgtd.name,
            samples: tgt,
        };
        let qemu = Side {
            name: "qemu-nbd, io_uring (page cache)",
            samples: nbd,
        };
        if load.block_bytes == SMALL_BYTES
            && load.pattern == Pattern::Random
            && load.parallel == PARALLEL
        {
            comparisons.push(compared(vec![tgtd], TIMES_TGTD));
            comparisons.push(compared(vec![qemu], 1.0));
        } else {
            comparisons.push(compared(vec![tgtd, qemu], 1.0));
        }
    }
    Ok(comparisons)
}

fn loads() -> Vec<(Operation, Load)> {
    let mut loads = Vec::new();
    for operation in [Operation::Read, Operation::Write] {
        for block_bytes in [SMALL_BYTES, LARGE_BYTES] {
            for pattern in [Pattern::Random, Pattern::Sequential] {
                loads.extend([1, PARALLEL].map(|parallel| {
                    let load = Load {
                        pattern,
                        block_bytes,
                        parallel,
                        ..SMALL_RANDOM
                    };
                    (operation, load)
                }));
            }
        }
    }
    loads
}

fn text(operation: Operation, load: Load) -> String {
    let operations = match operation {
        Operation::Read => "reads",
        Operation::Write => "writes",
    };
    let pattern = match load.pattern {
        Pattern::Random => "random",
        Pattern::Sequential => "sequential",
    };
    format!(
        "{} KiB {pattern} {operations}, {} in flight, one connection",
        load.block_bytes >> 10,
        load.parallel
    )
}
