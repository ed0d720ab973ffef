//! Our initiator against our target, as two processes that a user starts.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use libtest_mimic::Trial;
use serde_json::Value;
use tempfile::TempDir;
use wansan_peers::process::{Running, run};
use wansan_peers::wansan::Target;

use crate::stage::{
    BLOCK_BYTES, LIMIT, Stop, WANSAN, empty_disk, folder, load, own_target, require, text,
};
use crate::trial;

/// How often is looked whether a load has begun.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial("pair::what_is_written_is_read_back_from_memory", || {
            read_back("memory:64MiB")
        }),
        trial(
            "pair::what_is_written_is_read_back_from_a_file",
            read_back_from_a_file,
        ),
        trial(
            "pair::what_is_written_is_read_back_from_a_file_without_page_cache",
            read_back_from_a_file_directly,
        ),
        trial(
            "pair::every_block_size_from_one_block_to_4_mib",
            block_sizes,
        ),
        trial(
            "pair::a_block_that_changed_underneath_is_found",
            changed_underneath,
        ),
        trial(
            "pair::several_initiators_share_a_target",
            several_initiators,
        ),
        trial("pair::several_connections_share_a_session", || {
            several_connections("memory:64MiB")
        }),
        trial(
            "pair::several_connections_share_a_session_on_a_file",
            several_connections_on_a_file,
        ),
        trial("pair::units_are_kept_apart", units_are_kept_apart),
        trial("pair::a_narrow_command_window_is_kept_to", narrow_window),
        trial("pair::the_rate_asked_for_is_kept_to", paced),
        trial("pair::records_are_left_by_both_ends", records),
        trial(
            "pair::a_target_that_goes_away_ends_the_load",
            target_goes_away,
        ),
        trial(
            "pair::the_target_ends_by_signal_with_status_0",
            ends_by_signal,
        ),
    ]
}

/// Writes a unit of 64 MiB from end to end and reads it back in another order, all verified.
fn read_back(unit: &str) -> Result<(), Stop> {
    let target = own_target(&[unit])?;
    fill_and_verify(&target, 0)
}

/// One session whose connections are accepted by several threads of the target, with writes that
/// wait for each other's commands and reads of what they wrote.
fn several_connections(unit: &str) -> Result<(), Stop> {
    let arguments = ["--lun", unit, "--threads", "4", "--max-connections", "8"];
    let target = Target::start(Path::new(WANSAN), &arguments)?;
    let common = ["--connections", "8", "--verify", "--parallel", "64"];
    let large = [
        "--op",
        "write",
        "--pattern",
        "sequential",
        "--block",
        "1MiB",
    ];
    load(&target.url(0), 64, &[&large[..], &common].concat())?;
    let small = ["--op", "mix", "--block", "4KiB"];
    let printed = load(&target.url(0), 5000, &[&small[..], &common].concat())?;
    let connections = printed["connections"].as_array().map(Vec::len);
    require(connections == Some(8), || {
        format!("not 8 connections: {printed}")
    })
}

fn several_connections_on_a_file() -> Result<(), Stop> {
    let folder = folder()?;
    let path = empty_disk(folder.path(), "disk.img", 64)?;
    several_connections(&format!("file:{}", path.display()))
}

fn fill_and_verify(target: &Target, lun: u64) -> Result<(), Stop> {
    let url = target.url(lun);
    let whole = [
        "--pattern",
        "sequential",
        "--block",
        "64KiB",
        "--parallel",
        "32",
        "--verify",
    ];
    load(&url, 1024, &[&["--op", "write"], &whole[..]].concat())?;
    load(&url, 1024, &[&["--op", "read"], &whole[..]].concat())?;
    let random = [
        "--pattern",
        "random",
        "--block",
        "4KiB",
        "--parallel",
        "32",
        "--verify",
    ];
    load(&url, 4000, &[&["--op", "read"], &random[..]].concat())?;
    load(&url, 4000, &[&["--op", "mix"], &random[..]].concat())?;
    Ok(())
}

fn read_back_from_a_file() -> Result<(), Stop> {
    let folder = folder()?;
    let disk = empty_disk(folder.path(), "disk.img", 64)?;
    read_back(&format!("file:{}", text(&disk)))
}

/// Direct I/O has no meaning for memory, which the folder of temporary files may be.
fn read_back_from_a_file_directly() -> Result<(), Stop> {
    let folder = TempDir::with_prefix_in("wansan-test-", env!("CARGO_TARGET_TMPDIR"))?;
    let disk = empty_disk(folder.path(), "disk.img", 64)?;
    read_back(&format!("file:{},direct", text(&disk)))
}

fn block_sizes() -> Result<(), Stop> {
    let target = own_target(&["memory:64MiB"])?;
    let mut block_bytes = BLOCK_BYTES;
    while block_bytes <= 4 << 20 {
        let block = format!("{block_bytes}B");
        let arguments = [
            "--pattern",
            "sequential",
            "--block",
            &block,
            "--parallel",
            "8",
        ];
        for op in ["write", "read"] {
            load(
                &target.url(0),
                16,
                &[&["--op", op, "--verify"], &arguments[..]].concat(),
            )?;
        }
        block_bytes *= 8;
    }
    Ok(())
}

/// What `--verify` is worth: one flipped bit in the file, and the load says so and fails.
fn changed_underneath() -> Result<(), Stop> {
    let folder = folder()?;
    let disk = empty_disk(folder.path(), "disk.img", 1)?;
    let unit = format!("file:{}", text(&disk));
    let whole = [
        "--pattern",
        "sequential",
        "--block",
        "4KiB",
        "--count",
        "256",
        "--verify",
    ];
    let target = own_target(&[&unit])?;
    load(
        &target.url(0),
        256,
        &[&["--op", "write"], &whole[..4], &["--verify"]].concat(),
    )?;
    target.stop()?;
    let mut bytes = std::fs::read(&disk)?;
    bytes[123_456] ^= 1;
    std::fs::write(&disk, bytes)?;
    let target = own_target(&[&unit])?;
    let url = target.url(0);
    let arguments = [&["bench", &url, "--json", "--op", "read"], &whole[..]].concat();
    let finished = run(Command::new(WANSAN).args(arguments), LIMIT)?;
    let printed: Value = serde_json::from_str(&finished.stdout).unwrap_or_default();
    let found = printed["corrupt"] == 1 && finished.status.code() == Some(1);
    require(found, || {
        format!("{}, {}", finished.status, finished.output())
    })
}

fn several_initiators() -> Result<(), Stop> {
    let target = own_target(&["memory:64MiB", "memory:64MiB", "memory:64MiB"])?;
    std::thread::scope(|scope| {
        let loads = [0, 1, 2].map(|lun| {
            let target = &target;
            scope.spawn(move || fill_and_verify(target, lun))
        });
        loads.into_iter().try_for_each(|load| {
            load.join()
                .unwrap_or_else(|_| Err(Stop::Failed("a load panicked".to_owned())))
        })
    })
}

fn units_are_kept_apart() -> Result<(), Stop> {
    let folder = folder()?;
    let disks = ["a.img", "b.img"].map(|name| empty_disk(folder.path(), name, 1));
    let [a, b] = disks;
    let (a, b) = (a?, b?);
    let units = [format!("file:{}", text(&a)), format!("file:{}", text(&b))];
    let target = own_target(&[&units[0], &units[1]])?;
    let write = [
        "--op",
        "write",
        "--pattern",
        "sequential",
        "--block",
        "4KiB",
        "--parallel",
        "8",
    ];
    load(&target.url(1), 256, &write)?;
    target.stop()?;
    let only_zeros = |path: &Path| -> Result<bool, Stop> {
        Ok(std::fs::read(path)?.iter().all(|byte| *byte == 0))
    };
    require(only_zeros(&a)?, || {
        "a write to unit 1 reached unit 0".to_owned()
    })?;
    require(!only_zeros(&b)?, || {
        "a write to unit 1 did not reach its file".to_owned()
    })
}

fn narrow_window() -> Result<(), Stop> {
    let arguments = ["--lun", "memory:64MiB", "--command-window", "2"];
    let target = Target::start(Path::new(WANSAN), &arguments)?;
    fill_and_verify(&target, 0)
}

/// An open loop cannot be faster than its rate, however fast the machine is.
fn paced() -> Result<(), Stop> {
    let target = own_target(&["memory:64MiB"])?;
    let arguments = [
        "--op",
        "read",
        "--pattern",
        "random",
        "--block",
        "4KiB",
        "--parallel",
        "8",
    ];
    let printed = load(
        &target.url(0),
        200,
        &[&arguments[..], &["--rate", "200"]].concat(),
    )?;
    let elapsed_s = printed["elapsed_s"].as_f64().unwrap_or_default();
    require(elapsed_s > 0.9, || {
        format!("200 I/Os at 200 per second took {elapsed_s} s")
    })
}

fn records() -> Result<(), Stop> {
    let folder = folder()?;
    let path = text(folder.path());
    let record = |host| ["--record", path, "--host", host];
    let arguments = [&["--lun", "memory:64MiB"][..], &record("target")].concat();
    let target = Target::start(Path::new(WANSAN), &arguments)?;
    let arguments = [
        "--op",
        "read",
        "--pattern",
        "random",
        "--block",
        "4KiB",
        "--parallel",
        "8",
    ];
    load(
        &target.url(0),
        100,
        &[&arguments[..], &record("initiator")].concat(),
    )?;
    target.stop()?;
    for part in ["io.target", "io.initiator", "pdu.target", "pdu.initiator"] {
        let file = folder.path().join(format!("{part}.part.parquet"));
        let bytes = file.metadata().map(|meta| meta.len()).unwrap_or_default();
        require(bytes > 0, || format!("{} was not written", file.display()))?;
    }
    Ok(())
}

/// A load whose target dies ends soon, says why in one line, and does not wait for ever.
fn target_goes_away() -> Result<(), Stop> {
    let folder = folder()?;
    let disk = empty_disk(folder.path(), "disk.img", 64)?;
    let target = own_target(&[&format!("file:{}", text(&disk))])?;
    let mut command = Command::new(WANSAN);
    command.args([
        "bench",
        &target.url(0),
        "--op",
        "write",
        "--pattern",
        "random",
    ]);
    command.args(["--block", "4KiB", "--parallel", "8", "--time", "600s"]);
    command.args(["--replacement-timeout", "500ms"]);
    let log = folder.path().join("stderr");
    command
        .stdout(Stdio::null())
        .stderr(std::fs::File::create(&log)?);
    let mut running = Running::start(&mut command)?;
    let begun = Instant::now();
    // The file is sparse until the load writes.
    while disk.metadata()?.blocks() == 0 {
        let ended = running.wait(LOOK_AGAIN)?;
        require(ended.is_none() && begun.elapsed() < LIMIT, || {
            format!("the load has not begun: {ended:?}")
        })?;
    }
    drop(target);
    let since = Instant::now();
    let status = running.wait(LIMIT)?;
    let printed = std::fs::read_to_string(&log)?;
    let status = status.ok_or_else(|| Stop::Failed("the load never ended".to_owned()))?;
    require(!status.success(), || {
        format!("the load ended well after {:?}", since.elapsed())
    })?;
    let words = ["was lost (", "not recovered within 0.5 s", "last attempt"];
    require(
        words.iter().all(|words| printed.contains(words)) && printed.trim().lines().count() == 1,
        || format!("the load did not say why it ended: '{printed}'"),
    )
}

fn ends_by_signal() -> Result<(), Stop> {
    let target = own_target(&["memory:64MiB"])?;
    let status = target.stop()?;
    require(status.success(), || format!("it ended with {status}"))
}
