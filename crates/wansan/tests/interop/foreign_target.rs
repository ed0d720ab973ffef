//! Our initiator against `tgtd`, and the two foreign programs against each other.

use std::path::Path;

use libtest_mimic::Trial;
use serde_json::Value;
use wansan_peers::perf::{self, Load, Pattern};
use wansan_peers::tgtd::Tgtd;
use wansan_peers::wansan::command;

use crate::stage::{LIMIT, Stop, WANSAN, empty_disk, folder, load, require};
use crate::trial;

const DISK_MIB: u64 = 64;
const SMALL_BYTES: u64 = 4 << 10;
/// A size for which tgt with its defaults (MaxBurstLength 256 KiB, one R2T at a time) would ask in
/// several rounds: it goes in parts.
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
        trial("tgtd::several_connections_share_a_session", || {
            several_connections("round-robin")
                .and_then(|()| several_connections("least-in-flight"))
                .and_then(|()| several_connections("least-bytes"))
                .and_then(|()| several_connections("earliest"))
        }),
        trial("tgtd::each_route_is_a_connection", routes),
        trial(
            "tgtd::the_connections_it_allows_are_named",
            too_many_connections,
        ),
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
        warmup_s: 0,
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

/// A `tgtd` that takes several connections in a session: by default it takes one.
fn with_connections(folder: &Path) -> Result<Tgtd, Stop> {
    let tgtd = Tgtd::start(&empty_disk(folder, "disk.img", DISK_MIB)?)?;
    tgtd.set_parameter("MaxConnections", "8")?;
    Ok(tgtd)
}

/// Fails unless at least `working` of `count` connections in `printed` did their part of the commands.
fn require_shares(printed: &Value, count: usize, working: usize) -> Result<(), Stop> {
    let connections = printed["connections"].as_array();
    let shares = connections.is_some_and(|connections| {
        let works = |connection: &Value| {
            let at_least = |key: &str, least: f64| connection[key].as_f64() >= Some(least);
            at_least("commands", 1.0) && at_least("in_flight_mean", 0.001)
        };
        let works = connections.iter().filter(|connection| works(connection));
        connections.len() == count && works.count() >= working
    });
    require(shares, || format!("not {working} shares: {printed}"))
}

/// Commands of one session on four connections, with large writes whose data must stay on the
/// connection of its command.
fn several_connections(schedule: &str) -> Result<(), Stop> {
    let folder = folder()?;
    let tgtd = with_connections(folder.path())?;
    let common = ["--connections", "4", "--schedule", schedule, "--verify"];
    let large = [
        "--op",
        "write",
        "--pattern",
        "sequential",
        "--block",
        "1MiB",
    ];
    // `earliest` leaves connections unused that add no throughput.
    let working = if schedule == "earliest" { 1 } else { 4 };
    let require_shares = |printed: &Value| require_shares(printed, 4, working);
    require_shares(&load(
        &tgtd.url(),
        DISK_MIB,
        &[&large[..], &common].concat(),
    )?)?;
    let small = ["--op", "mix", "--block", "4KiB"];
    require_shares(&load(&tgtd.url(), 5000, &[&small[..], &common].concat())?)
}

fn routes() -> Result<(), Stop> {
    let folder = folder()?;
    let tgtd = with_connections(folder.path())?;
    let url = tgtd.url();
    let portal = url.trim_start_matches("iscsi://").split('/').next();
    let portal = portal.unwrap_or_default();
    let arguments = [
        "--route",
        &format!("127.0.0.2→{portal}"),
        "--route",
        &format!("127.0.0.3:0->{portal}"),
        "--verify",
        "--op",
        "mix",
    ];
    require_shares(&load(&url, 2000, &arguments)?, 2, 2)
}

fn too_many_connections() -> Result<(), Stop> {
    let folder = folder()?;
    let tgtd = Tgtd::start(&empty_disk(folder.path(), "disk.img", DISK_MIB)?)?;
    let url = tgtd.url();
    let arguments = ["bench", &url, "--connections", "2"];
    let finished = command(Path::new(WANSAN), &arguments, LIMIT)?;
    let told = finished.stderr.contains("allows 1 connection per session");
    require(told && finished.status.code() == Some(2), || {
        finished.output()
    })
}
