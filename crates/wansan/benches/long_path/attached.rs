//! An attached disk, beside `qemu-nbd` with libiscsi and beside a bare TCP stream.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use tempfile::TempDir;
use wansan_peers::compare::{Bound, in_turns};
use wansan_peers::process::Running;
use wansan_peers::program::find;
use wansan_peers::wansan::Attach;

use crate::answer::Answer;
use crate::client::{Use, bytes_per_s};
use crate::disk::WANSAN;
use crate::questions::{LONG_TURNS, SAMPLE, Stage, WARMUP};
use crate::stream::{self, Protocol};

const PEER: &str = "qemu-nbd + libiscsi";

/// What programs do that ask for one thing at a time.
const SEQUENCES: [(&str, bool, usize); 4] = [
    (
        "attached, sequential reads of 4 KiB, one in flight, beside one TCP stream",
        false,
        4 << 10,
    ),
    (
        "attached, sequential reads of 128 KiB, one in flight, beside one TCP stream",
        false,
        128 << 10,
    ),
    (
        "attached, sequential writes of 4 KiB, one in flight, beside one TCP stream",
        true,
        4 << 10,
    ),
    (
        "attached, sequential writes of 128 KiB, one in flight, beside one TCP stream",
        true,
        128 << 10,
    ),
];

pub(crate) fn measure(stage: &Stage) -> Result<Vec<Answer>> {
    let mut answers = Vec::new();
    for (question, writes, block_bytes) in SEQUENCES {
        answers.push(sequence(stage, question, writes, block_bytes)?);
    }
    answers.push(random_reads(stage)?);
    answers.push(random_writes(stage)?);
    answers.push(flushes(stage)?);
    Ok(answers)
}

fn ours(stage: &Stage, arguments: &'static [&'static str]) -> Result<Attach> {
    let url = stage.disks.our_url();
    stage.on_client(move || Attach::start(Path::new(WANSAN), &url, arguments))
}

/// `qemu-nbd` of a disk, at a socket.
struct QemuNbd {
    // Ends before its folder goes: fields drop in order.
    _process: Running,
    socket: PathBuf,
    _folder: TempDir,
}

impl QemuNbd {
    fn start(stage: &Stage, disk: String) -> Result<QemuNbd> {
        const LIMIT: Duration = Duration::from_secs(20);
        let folder = TempDir::with_prefix("wansan-bench-nbd-")?;
        let socket = folder.path().join("disk");
        let at = socket.clone();
        let process = stage.on_client(move || {
            let mut command = Command::new(find("qemu-nbd")?);
            command.args([
                "--persistent",
                "--shared=4",
                "--format=raw",
                "--cache=writeback",
                "--socket",
            ]);
            command.arg(at).arg(disk).stdout(Stdio::null());
            Running::start(&mut command)
        })?;
        let began = Instant::now();
        while !socket.exists() {
            anyhow::ensure!(began.elapsed() < LIMIT, "qemu-nbd does not serve");
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(QemuNbd {
            _process: process,
            socket,
            _folder: folder,
        })
    }
}

fn sequence(
    stage: &Stage,
    question: &'static str,
    writes: bool,
    block_bytes: usize,
) -> Result<Answer> {
    let (client, storage) = (stage.path.client(), stage.path.storage());
    let (from, to) = if writes {
        (client, storage)
    } else {
        (storage, client)
    };
    let used = Use {
        writes,
        random: false,
        block_bytes,
        flush_every: None,
        warmup: WARMUP,
        time: SAMPLE,
    };
    let [streams, ours, peers] = in_turns(
        LONG_TURNS,
        [
            &mut || stream::bytes_per_s(Protocol::Tcp, from, to, WARMUP, SAMPLE),
            &mut || {
                let attach = ours(stage, &[])?;
                bytes_per_s(Path::new(attach.socket()), used)
            },
            &mut || {
                let nbd = QemuNbd::start(stage, stage.disks.tgtd_url()?)?;
                bytes_per_s(&nbd.socket, used)
            },
        ],
    )?;
    let of_streams = |rates: Vec<f64>| {
        let turns = rates.iter().zip(&streams);
        turns.map(|(rate, stream)| rate / stream).collect()
    };
    Ok(Answer {
        question,
        unit: "of the stream",
        bound: Bound::AtLeast(0.9),
        got: of_streams(ours),
        other: Some((PEER, of_streams(peers))),
    })
}

fn random_reads(stage: &Stage) -> Result<Answer> {
    let used = Use {
        writes: false,
        random: true,
        block_bytes: 4 << 10,
        flush_every: None,
        warmup: Duration::ZERO,
        time: SAMPLE,
    };
    let [with, without] = in_turns(
        LONG_TURNS,
        [
            &mut || bytes_per_s(Path::new(ours(stage, &[])?.socket()), used),
            &mut || {
                bytes_per_s(
                    Path::new(ours(stage, &["--read-ahead", "0B"])?.socket()),
                    used,
                )
            },
        ],
    )?;
    let ratios = with
        .iter()
        .zip(&without)
        .map(|(with, without)| with / without);
    Ok(Answer {
        question: "attached, random reads of 4 KiB, one in flight, beside the same without read-ahead",
        unit: "of it",
        bound: Bound::AtLeast(0.98),
        got: ratios.collect(),
        other: None,
    })
}

/// As many as fit into memory, beside a disk in this host's memory.
fn random_writes(stage: &Stage) -> Result<Answer> {
    let used = Use {
        writes: true,
        random: true,
        block_bytes: 4 << 10,
        flush_every: None,
        warmup: Duration::ZERO,
        time: Duration::from_millis(200),
    };
    let folder = TempDir::with_prefix_in("wansan-bench-", "/dev/shm")?;
    let local = folder.path().join("local");
    std::fs::File::create(&local)?.set_len(crate::disk::DISK_BYTES as u64)?;
    let local = local.to_str().context("a name in /dev/shm")?.to_owned();
    let [ours, local] = in_turns(
        LONG_TURNS,
        [
            &mut || {
                bytes_per_s(
                    Path::new(ours(stage, &["--write-behind", "1GiB"])?.socket()),
                    used,
                )
            },
            &mut || {
                let nbd = QemuNbd::start(stage, local.clone())?;
                bytes_per_s(&nbd.socket, used)
            },
        ],
    )?;
    let ratios = ours.iter().zip(&local).map(|(ours, local)| ours / local);
    Ok(Answer {
        question: "attached, random writes of 4 KiB without a flush, beside qemu-nbd on a file in local memory",
        unit: "of it",
        bound: Bound::AtLeast(1.0),
        got: ratios.collect(),
        other: None,
    })
}

/// A program that flushes often, with a journal on this host and without.
fn flushes(stage: &Stage) -> Result<Answer> {
    let used = Use {
        writes: true,
        random: true,
        block_bytes: 4 << 10,
        flush_every: Some(16),
        warmup: Duration::ZERO,
        time: SAMPLE,
    };
    let folder = TempDir::with_prefix("wansan-bench-")?;
    let journal = folder.path().join("journal");
    let arguments = ["--journal".to_owned(), journal.display().to_string()];
    let [with, without] = in_turns(
        LONG_TURNS,
        [
            &mut || {
                // What is left of the last turn would be written first.
                if journal.exists() {
                    std::fs::remove_file(&journal)?;
                }
                let (url, arguments) = (stage.disks.our_url(), arguments.clone());
                let attach = stage.on_client(move || {
                    Attach::start(
                        Path::new(WANSAN),
                        &url,
                        &arguments.each_ref().map(String::as_str),
                    )
                })?;
                bytes_per_s(Path::new(attach.socket()), used)
            },
            &mut || bytes_per_s(Path::new(ours(stage, &[])?.socket()), used),
        ],
    )?;
    let ratios = with
        .iter()
        .zip(&without)
        .map(|(with, without)| with / without);
    Ok(Answer {
        question: "attached, random writes of 4 KiB, a flush after every 16, with a journal beside without",
        unit: "of it",
        bound: Bound::AtLeast(50.0),
        got: ratios.collect(),
        other: None,
    })
}
