//! The block layer's tracepoint programs in the running kernel: they record each I/O of a loop device. Those of SCSI
//! and LIO are tested with real disks in virtual machines (`crates/wansan/tests/interop/kernels/diagnose.rs`). Needs
//! root, and a build with eBPF.

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::Duration;

use wansan_diagnose::tracepoints::{BlockIo, BlockTracing, device_number};
use wansan_peers::process::run;
use wansan_peers::program::find;
use wansan_peers::trial::{self, Stop, require, trial};
use wansan_trace::clock;

const BLOCK_BYTES: usize = 4096;
const BLOCKS: u64 = 256;

fn main() -> ExitCode {
    trial::run(vec![
        trial("each I/O of a disk is reported once", each_io),
        trial("other disks are left out", other_disks),
    ])
}

/// A loop device over a file; detached on drop.
struct Loop {
    device: PathBuf,
    number: u32,
    _folder: tempfile::TempDir,
}

impl Loop {
    fn new() -> Result<Loop, Stop> {
        if !rustix::process::geteuid().is_root() {
            return Err(Stop::NotRun("a loop device needs root".to_owned()));
        }
        let folder = tempfile::tempdir()?;
        let file = folder.path().join("disk");
        File::create(&file)?.set_len(BLOCKS * BLOCK_BYTES as u64)?;
        let mut losetup = Command::new(find("losetup")?);
        losetup
            .args(["--find", "--show", "--direct-io=off"])
            .arg(&file);
        let made = run(&mut losetup, Duration::from_secs(60))?.success();
        let made = made.map_err(|error| Stop::NotRun(format!("no loop devices: {error}")))?;
        let device = PathBuf::from(made.stdout.trim());
        let number = device.metadata()?.rdev();
        let number = device_number(libc::major(number), libc::minor(number));
        Ok(Loop {
            device,
            number,
            _folder: folder,
        })
    }

    /// Opens it for direct reads.
    fn direct(&self) -> Result<File, Stop> {
        let mut options = OpenOptions::new();
        Ok(options
            .read(true)
            .custom_flags(libc::O_DIRECT)
            .open(&self.device)?)
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").arg("-d").arg(&self.device).status();
    }
}

fn tracing(disks: &[u32]) -> Result<BlockTracing, Stop> {
    let disks: BTreeSet<u32> = disks.iter().copied().collect();
    BlockTracing::open(&disks).map_err(|error| match error.to_string() {
        refused if refused.contains("refuses") => Stop::Failed(refused),
        lacking => Stop::NotRun(lacking),
    })
}

/// A buffer aligned for direct I/O.
#[repr(C, align(4096))]
struct Aligned([u8; BLOCK_BYTES]);

fn read(disk: &File, block: u64) -> Result<(), Stop> {
    let mut memory = Aligned([0; BLOCK_BYTES]);
    disk.read_exact_at(&mut memory.0, block * BLOCK_BYTES as u64)?;
    Ok(())
}

fn each_io() -> Result<(), Stop> {
    let device = Loop::new()?;
    let disk = device.direct()?;
    let mut tracing = tracing(&[device.number])?;
    let began_ns = clock::now().ns();
    // In a scattered order, so that no requests are merged.
    let blocks: Vec<u64> = (0..BLOCKS).map(|place| place * 97 % BLOCKS).collect();
    for (place, block) in blocks.iter().enumerate() {
        read(&disk, *block)?;
        if place == blocks.len() / 2 {
            tracing.drain();
        }
    }
    let (ios, lost) = tracing.take();
    let ended_ns = clock::now().ns();
    let told = || format!("{lost} lost, {ios:?}");
    let sectors: Vec<u64> = ios.iter().map(|io| io.sector).collect();
    let expected: Vec<u64> = blocks.iter().map(|block| block * 8).collect();
    require(sectors == expected && lost == 0, told)?;
    let is_whole = |io: &BlockIo| {
        let times = [
            Some(began_ns),
            io.submitted_ns,
            Some(io.allocated_ns),
            Some(io.issued_ns),
            Some(io.completed_ns),
            Some(ended_ns),
        ];
        times.is_sorted() && io.submitted_ns.is_some() && io.bytes == BLOCK_BYTES as u32
    };
    require(ios.iter().all(is_whole), told)?;
    // A loop device is not a SCSI disk.
    require(ios.iter().all(|io| io.dispatched_ns.is_none()), told)
}

fn other_disks() -> Result<(), Stop> {
    let (one, other) = (Loop::new()?, Loop::new()?);
    let disks = [one.direct()?, other.direct()?];
    let mut tracing = tracing(&[other.number])?;
    for block in 0..BLOCKS / 2 {
        for disk in &disks {
            read(disk, block)?;
        }
    }
    let (ios, lost) = tracing.take();
    let is_other = ios.iter().all(|io| io.disk == other.number);
    require(
        is_other && ios.len() as u64 == BLOCKS / 2 && lost == 0,
        || format!("{} I/Os, {lost} lost", ios.len()),
    )
}
