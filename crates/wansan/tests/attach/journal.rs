//! The file of a journal, as the file system has it.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use libtest_mimic::Trial;
use rustix::fs::{FallocateFlags, SeekFrom, fallocate, seek};
use wansan_nbd::client::Command;
use wansan_peers::trial::{Stop, require, trial};

use crate::program::Program;
use crate::stage::{Stage, pattern};

pub(crate) fn trials() -> Vec<Trial> {
    vec![trial(
        "blocks of a new journal are written ahead of its records",
        written_ahead,
    )]
}

const BLOCK_BYTES: u64 = 4096;
/// What is written ahead in one go.
const AHEAD_BYTES: u64 = 4 << 20;

/// How long the first stretch is that has been written.
fn written_bytes(path: &Path) -> Result<u64, Stop> {
    let file = File::open(path)?;
    let seek = |to| seek(&file, to).map_err(|errno| Stop::Failed(format!("a hole: {errno}")));
    // One of two superblocks comes later.
    let data = seek(SeekFrom::Data(0))?;
    Ok(seek(SeekFrom::Hole(data))? - data)
}

/// The file system has to tell blocks that were written from those that only have room.
fn must_tell(folder: &Path) -> Result<(), Stop> {
    let path = folder.join("room");
    let file = File::create(&path)?;
    if fallocate(&file, FallocateFlags::empty(), 0, AHEAD_BYTES).is_err() {
        file.set_len(AHEAD_BYTES)?;
    }
    file.write_all_at(&[7; BLOCK_BYTES as usize], 0)?;
    match written_bytes(&path) {
        Ok(BLOCK_BYTES) => Ok(()),
        _ => Err(Stop::NotRun(format!(
            "the file system of {} does not tell which blocks were written",
            folder.display()
        ))),
    }
}

fn written_ahead() -> Result<(), Stop> {
    let stage = Stage::new()?;
    must_tell(stage.folder.path())?;
    let journal = stage.path("journal");
    let path = journal.display().to_string();
    let attach = stage.attach(&["--journal", &path, "--journal-size", "64MiB"])?;
    let mut program = Program::connect(attach.socket())?;
    let data = pattern(256 << 10, 3);
    let mut asked_bytes = 0;
    for (block, bytes) in [(0, BLOCK_BYTES as usize), (1, data.len())] {
        // The longer ones get to what the first go has not written.
        let count = AHEAD_BYTES / bytes as u64 * block + 1;
        for number in 0..count {
            let write = Command::Write {
                offset_bytes: number * bytes as u64,
                data: &data[..bytes],
                fua: true,
            };
            program.submit(write, number)?;
            program.answer()?;
            asked_bytes += bytes as u64;
        }
        let written_bytes = written_bytes(&journal)?;
        let expected_bytes = (asked_bytes + 1).next_multiple_of(AHEAD_BYTES);
        require(written_bytes >= expected_bytes, || {
            format!("{written_bytes} bytes are written for {asked_bytes} bytes of data")
        })?;
    }
    require(attach.stop()?.success(), || "attach failed".to_owned())
}
