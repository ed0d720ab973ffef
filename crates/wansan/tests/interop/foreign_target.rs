//! Our initiator against `tgtd`, and the two foreign programs against each other.

use std::path::Path;

use libtest_mimic::Trial;
use wansan_peers::perf::{self, Load, Pattern};
use wansan_peers::tgtd::Tgtd;
use wansan_peers::wansan::command;

use crate::stage::{LIMIT, Stop, WANSAN, empty_disk, folder, load, require};
use crate::trial;

const DISK_MIB: u64 = 64;
const SMALL_BYTES: u64 = 4 << 10;
/// A size that tgt's default FirstBurstLength (64 KiB) and MaxBurstLength (256 KiB) split into
/// unsolicited data and several R2Ts.
const LARGE_BYTES: u64 = 1 << 20;

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial("tgtd::serves_iscsi_perf", serves_iscsi_perf),
        trial("tgtd::small_writes_are_read_back", || {
            written_and_read(SMALL_BYTES, 32, &[])
        }),
        trial("tgtd::large_writes_are_read_back", || {
            written_and_read(LARGE_BYTES, 8, &[])
        }),
        trial("tgtd::one_at_a_time", || {
            written_and_read(LARGE_BYTES / 4, 1, &[])
        }),
        trial("tgtd::luns_that_are_there_are_named", luns_are_named),
        trial("tgtd::a_mix_of_reads_and_writes_is_verified", mix),
        trial("tgtd::digests_that_it_asks_for_are_used", || {
            written_and_read(
                LARGE_BYTES,
                8,
                &[("HeaderDigest", "CRC32C"), ("DataDigest", "CRC32C")],
            )
        }),
        trial("tgtd::short_segments_and_bursts_are_kept_to", || {
            let short = [
                ("MaxRecvDataSegmentLength", "1024"),
                ("FirstBurstLength", "4096"),
                ("MaxBurstLength", "8192"),
            ];
            written_and_read(LARGE_BYTES, 8, &short)
        }),
    ]
}

/// Both are foreign: what fails here is the harness or the machine, not wansan.
fn serves_iscsi_perf() -> Result<(), Stop> {
    let folder = folder()?;
    let tgtd = Tgtd::start(&empty_disk(folder.path(), "disk.img", DISK_MIB)?)?;
    let load = Load {
        pattern: Pattern::Random,
        block_bytes: 4096,
        parallel: 32,
        time_s: 1,
    };
    let reached = perf::read(&tgtd.url(), load)?;
    require(reached.iops > 0.0, || format!("{reached:?}"))
}

/// `tgtd` lists no LUNs to who asks at one that is not there.
fn luns_are_named() -> Result<(), Stop> {
    let folder = folder()?;
    let tgtd = Tgtd::start(&empty_disk(folder.path(), "disk.img", DISK_MIB)?)?;
    let url = tgtd.url();
    let missing = format!("{}/7", url.trim_end_matches("/1"));
    let finished = command(Path::new(WANSAN), &["bench", &missing], LIMIT)?;
    let told = finished.stderr.contains("no LUN 7: the target has 0, 1");
    require(told && finished.status.code() == Some(2), || {
        finished.output()
    })
}

/// Writes a whole unit and reads it back, both verified, from a `tgtd` with `parameters` set.
fn written_and_read(
    block_bytes: u64,
    parallel: u32,
    parameters: &[(&str, &str)],
) -> Result<(), Stop> {
    let folder = folder()?;
    let tgtd = Tgtd::start(&empty_disk(folder.path(), "disk.img", DISK_MIB)?)?;
    for (key, value) in parameters {
        tgtd.set_parameter(key, value)?;
    }
    let (block, parallel) = (format!("{block_bytes}B"), parallel.to_string());
    let count = (DISK_MIB << 20) / block_bytes;
    let arguments = [
        "--pattern",
        "sequential",
        "--block",
        &block,
        "--parallel",
        &parallel,
    ];
    for op in ["write", "read"] {
        load(
            &tgtd.url(),
            count,
            &[&["--op", op, "--verify"], &arguments[..]].concat(),
        )?;
    }
    Ok(())
}

fn mix() -> Result<(), Stop> {
    let folder = folder()?;
    let tgtd = Tgtd::start(&empty_disk(folder.path(), "disk.img", DISK_MIB)?)?;
    let arguments = [
        "--op",
        "mix",
        "--pattern",
        "random",
        "--block",
        "16KiB",
        "--parallel",
        "32",
    ];
    load(&tgtd.url(), 5000, &[&arguments[..], &["--verify"]].concat())?;
    Ok(())
}
