//! The cost of tracing each I/O with tracepoints: direct reads of a loop device, as many as one thread can issue,
//! alternately with and without the programs attached. The bounds are those of `wansan diagnose`: 2 % of the IOPS, and
//! 5 % of a core at 50,000 IOPS.
//!
//! The share of a core is the programs' run time as counted by the kernel (BPF_ENABLE_STATS) plus this process's time
//! to drain the ring. The two SCSI programs have no disks here: each is charged as much as the most expensive of those
//! that run.

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use wansan_diagnose::tracepoints::{BlockTracing, device_number};
use wansan_peers::machine::Machine;
use wansan_peers::process::run;
use wansan_peers::program::find;
use wansan_peers::verdict::Verdict;

const BLOCK_BYTES: usize = 4096;
const BLOCKS: u64 = 4096;
/// Rounds with and without the programs.
const ROUNDS: usize = 15;
const ROUND: Duration = Duration::from_millis(400);
/// How often `wansan diagnose` drains the ring.
const INTERVAL: Duration = Duration::from_millis(20);
const IOPS: f64 = 50_000.0;
const RATIO_BOUND: f64 = 0.98;
const CORE_BOUND: f64 = 0.05;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn main() -> ExitCode {
    match measure() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            Verdict::NotRun(error.to_string()).record("tracepoints of the block layer", "none");
            eprintln!("tracepoints: {error}");
            ExitCode::from(2)
        }
    }
}

/// A buffer aligned for direct I/O.
#[repr(C, align(4096))]
struct Aligned([u8; BLOCK_BYTES]);

/// Reads for a while and returns the reads per second. Calls `now_and_then` once per interval.
fn load(disk: &File, mut now_and_then: impl FnMut()) -> Result<f64> {
    let mut memory = Aligned([0; BLOCK_BYTES]);
    let (began, mut next, mut reads) = (Instant::now(), INTERVAL, 0_u64);
    loop {
        // In a scattered order, so that no requests are merged.
        let block = reads * 1009 % BLOCKS;
        disk.read_exact_at(&mut memory.0, block * BLOCK_BYTES as u64)?;
        reads += 1;
        let passed = began.elapsed();
        if passed >= next {
            now_and_then();
            next = passed + INTERVAL;
        }
        if passed >= ROUND {
            return Ok(reads as f64 / began.elapsed().as_secs_f64());
        }
    }
}

fn cpu() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// The kernel's statistics for each of the programs: nanoseconds per run.
#[cfg(feature = "ebpf")]
fn programs() -> Vec<(String, f64)> {
    // The kernel truncates names to 15 bytes.
    const NAMES: [&str; 3] = ["bio_submitted", "request_issued", "request_complet"];
    let all = libbpf_rs::query::ProgInfoIter::default();
    let named = all.map(|info| {
        let run_ns = info.run_time_ns as f64 / info.run_cnt.max(1) as f64;
        (info.name.to_string_lossy().into_owned(), run_ns)
    });
    named
        .filter(|(name, _)| NAMES.contains(&name.as_str()))
        .collect()
}

#[cfg(not(feature = "ebpf"))]
fn programs() -> Vec<(String, f64)> {
    Vec::new()
}

/// Enables the kernel's statistics of program run time, which cost time themselves.
struct Counting(String);

impl Counting {
    const SETTING: &str = "/proc/sys/kernel/bpf_stats_enabled";

    fn begin() -> Result<Counting> {
        let before = std::fs::read_to_string(Self::SETTING)?;
        std::fs::write(Self::SETTING, "1")?;
        Ok(Counting(before))
    }
}

impl Drop for Counting {
    fn drop(&mut self) {
        let _ = std::fs::write(Self::SETTING, &self.0);
    }
}

fn measure() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("disk");
    File::create(&file)?.set_len(BLOCKS * BLOCK_BYTES as u64)?;
    let mut losetup = Command::new(find("losetup")?);
    losetup.args(["--find", "--show"]).arg(&file);
    let made = run(&mut losetup, Duration::from_secs(60))?.success()?;
    let device = PathBuf::from(made.stdout.trim());
    let outcome = rounds(&device);
    let _ = Command::new("losetup").arg("-d").arg(&device).status();
    outcome
}

fn rounds(device: &Path) -> Result<()> {
    let mut options = OpenOptions::new();
    let disk = options
        .read(true)
        .custom_flags(libc::O_DIRECT)
        .open(device)?;
    let number = device.metadata()?.rdev();
    let disks = BTreeSet::from([device_number(libc::major(number), libc::minor(number))]);
    let machine = Machine::watch();
    let traced = |disk: &File| -> Result<f64> {
        let mut tracing = BlockTracing::open(&disks)?;
        load(disk, || tracing.drain())
    };
    let (mut ratios, mut iops) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        // Alternate the order, as the machine's speed may drift.
        let (with, without) = match round % 2 {
            0 => (traced(&disk)?, load(&disk, || {})?),
            _ => {
                let without = load(&disk, || {})?;
                (traced(&disk)?, without)
            }
        };
        ratios.push(with / without);
        iops.push(without);
    }
    let disturbance = machine.disturbance();
    let ratio = median(&mut ratios);
    let figure = format!(
        "{ratio:.4} of {:.0} IOPS, bound {RATIO_BOUND}",
        median(&mut iops)
    );
    say(
        "IOPS with the tracepoints of the block layer",
        &figure,
        &Verdict::of(ratio >= RATIO_BOUND, disturbance.as_deref()),
    );

    let counting = Counting::begin()?;
    let mut tracing = BlockTracing::open(&disks)?;
    let mut emptying = Duration::ZERO;
    load(&disk, || {
        let before = cpu();
        tracing.drain();
        emptying += cpu() - before;
    })?;
    let programs = programs();
    drop(counting);
    let (ios, lost) = tracing.take();
    if lost > 0 {
        return Err(format!("{lost} I/Os found no room").into());
    }
    let emptying_ns = emptying.as_nanos() as f64 / ios.len().max(1) as f64;
    let dearest_ns = programs.iter().fold(0.0_f64, |most, (_, ns)| most.max(*ns));
    let here_ns: f64 = programs.iter().map(|(_, ns)| ns).sum();
    let all_ns = here_ns + 2.0 * dearest_ns + emptying_ns;
    let share = all_ns * IOPS / 1e9;
    let figure = format!(
        "{:.2} % of a core ({here_ns:.0} ns an I/O here, 2 × {dearest_ns:.0} ns for SCSI, {emptying_ns:.0} ns to empty the ring), \
         bound {:.0} %",
        share * 100.0,
        CORE_BOUND * 100.0
    );
    say(
        "processor time of tracepoints at 50,000 IOPS",
        &figure,
        &Verdict::of(share <= CORE_BOUND, disturbance.as_deref()),
    );
    Ok(())
}

fn say(question: &str, figure: &str, verdict: &Verdict) {
    println!("{question}: {figure}: {verdict}");
    verdict.record(question, figure);
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
