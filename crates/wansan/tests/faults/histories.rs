//! Histories of many initiators, as `wansan-consistency` generates and judges them, against `wansan target`
//! with its units in files.
//!
//! What a history sets that this target cannot be given is left out: its stores do not fail, its files keep
//! reservations whenever initiators ask for it, and only those on a tmpfs are without a volatile cache.

use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use wansan_consistency::history::Setup;
use wansan_consistency::{Ending, FailureRates, History, Served};
use wansan_peers::wansan::{TARGET_NAME, Target};

use crate::round::Outcome;
use crate::world::{WANSAN, portal};

const BLOCK_BYTES: u64 = 512;

/// What Linux has as a file system in memory.
const MEMORY: &str = "/dev/shm";

/// `f_type` of a tmpfs (linux/magic.h).
const TMPFS_MAGIC: i128 = 0x0102_1994;

/// Runs the history of `seed`.
pub(crate) fn run(seed: u64) -> Result<Outcome, String> {
    let mut history = History::of_seed(seed);
    let mut process = Process::start(&mut history.setup, portal(seed))?;
    let said = |failure: String, process: &Process| {
        format!("{failure}\n  the target said: {}", process.said.trim_end())
    };
    let outcome = match history.run_against(&mut process) {
        Ok((outcome, _)) => outcome,
        Err(failure) => return Err(said(failure, &process)),
    };
    match outcome.violation {
        None => Ok(Outcome {
            done: outcome.commands,
            faults: process.restarts,
        }),
        Some(violation) => {
            let failure = format!(
                "{:?}: {}\n{}\n  with {:?}",
                violation.rule,
                violation.what,
                outcome.log.join("\n"),
                history.setup
            );
            Err(said(failure, &process))
        }
    }
}

/// The target, with its units.
struct Process {
    arguments: Vec<String>,
    /// The files of the units.
    paths: Vec<PathBuf>,
    address: SocketAddr,
    restarts: u64,
    /// What processes that have ended have said.
    said: String,
    target: Option<Target>,
    // Go last, with the units in them.
    _folders: [TempDir; 2],
}

impl Process {
    /// Starts one at `portal` that serves `setup`, which is made to say what is served.
    fn start(setup: &mut Setup, portal: SocketAddr) -> Result<Process, String> {
        let failed = |error: std::io::Error| error.to_string();
        let prefix = "wansan-faults-";
        let disk = TempDir::with_prefix(prefix).map_err(failed)?;
        let memory = match Path::new(MEMORY).is_dir() {
            true => TempDir::with_prefix_in(prefix, MEMORY),
            false => TempDir::with_prefix(prefix),
        };
        let folders = [memory.map_err(failed)?, disk];
        setup.failures = FailureRates::default();
        let is_slow = setup.is_slow();
        let mut paths = Vec::new();
        for (number, unit) in setup.units.iter_mut().enumerate() {
            let folder = folders[usize::from(unit.write_cache)].path();
            // A memory that takes its time counts as a disk.
            unit.write_cache = is_slow && number == 0 || !is_tmpfs(folder)?;
            unit.keeps_reservations = true;
            let path = folder.join(format!("unit-{number}"));
            let size_bytes = u64::from(unit.blocks) * BLOCK_BYTES;
            let file = File::create(&path).map_err(failed)?;
            file.set_len(size_bytes).map_err(failed)?;
            paths.push(path);
        }
        let mut arguments = setup.arguments();
        for (place, path) in paths.iter().enumerate() {
            arguments.push(setup.lun(place, &path.display().to_string()));
        }
        let mut process = Process {
            arguments,
            paths,
            address: portal,
            restarts: 0,
            said: String::new(),
            target: None,
            _folders: folders,
        };
        process.begin()?;
        Ok(process)
    }

    fn begin(&mut self) -> Result<(), String> {
        let arguments: Vec<&str> = self.arguments.iter().map(String::as_str).collect();
        let target = Target::start_at(Path::new(WANSAN), &self.address.to_string(), &arguments)
            .map_err(|error| error.to_string())?;
        let address = target.address().parse();
        self.address = address.map_err(|_| "the target does not say where it listens")?;
        self.target = Some(target);
        Ok(())
    }
}

impl Served for Process {
    fn name(&self) -> &str {
        TARGET_NAME
    }

    fn address(&self) -> SocketAddr {
        self.address
    }

    fn stop(&mut self, ending: Ending) -> Result<(), String> {
        let Some(target) = self.target.take() else {
            return Ok(());
        };
        self.said.push_str(&target.log());
        match ending {
            Ending::Terminated => {
                let ended = target.stop().map_err(|error| error.to_string())?;
                match ended.success() {
                    true => Ok(()),
                    false => Err(format!("the target ended with {ended}")),
                }
            }
            Ending::Killed => {
                drop(target);
                Ok(())
            }
        }
    }

    fn start(&mut self) -> Result<(), String> {
        self.restarts += 1;
        self.begin()
    }

    fn content(&mut self, unit: usize) -> Result<Vec<u8>, String> {
        let path = &self.paths[unit];
        std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))
    }
}

fn is_tmpfs(folder: &Path) -> Result<bool, String> {
    let found = rustix::fs::statfs(folder).map_err(|error| error.to_string())?;
    Ok(i128::from(found.f_type) == TMPFS_MAGIC)
}
