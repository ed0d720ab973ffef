//! What the tests share: a target with a disk in a file, and what is in it.

use std::fs::{self, File};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;
use wansan_peers::process::{Finished, Running, free_address, run};
use wansan_peers::program::find;
use wansan_peers::trial::{Stop, require};
use wansan_peers::wansan::{Attach, Target, command};

pub(crate) const WANSAN: &str = env!("CARGO_BIN_EXE_wansan");
pub(crate) const LIMIT: Duration = Duration::from_secs(120);
pub(crate) const DISK_BYTES: u64 = 64 << 20;

/// A target with one disk, thin, in a file.
pub(crate) struct Stage {
    pub(crate) target: Target,
    pub(crate) folder: TempDir,
}

impl Stage {
    pub(crate) fn new() -> Result<Stage, Stop> {
        let folder = TempDir::with_prefix("wansan-test-attach-")?;
        File::create(folder.path().join("disk.img"))?.set_len(DISK_BYTES)?;
        // A port that nobody is given while the target is away.
        let target = Self::serve(folder.path(), &free_address()?.to_string())?;
        Ok(Stage { target, folder })
    }

    pub(crate) fn serve(folder: &Path, portal: &str) -> Result<Target, Stop> {
        let lun = format!("file:{},thin", folder.join("disk.img").display());
        Ok(Target::start_at(
            Path::new(WANSAN),
            portal,
            &["--lun", &lun],
        )?)
    }

    pub(crate) fn attach(&self, arguments: &[&str]) -> Result<Attach, Stop> {
        Ok(Attach::start(
            Path::new(WANSAN),
            &self.target.url(0),
            arguments,
        )?)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// What the target has in its file.
    pub(crate) fn disk(&self) -> Result<Vec<u8>, Stop> {
        Ok(fs::read(self.path("disk.img"))?)
    }
}

/// A relay that listens at `way`, and is another route to a target.
pub(crate) fn relay(way: &str, target: &str) -> Result<Running, Stop> {
    let mut command = Command::new(WANSAN);
    command.args(["relay", "--listen", way, "--to", target]);
    let relay = Running::start(command.stdout(Stdio::null()).stderr(Stdio::null()))?;
    let began = Instant::now();
    while TcpStream::connect(way).is_err() {
        require(began.elapsed() < LIMIT, || {
            "the relay does not listen".to_owned()
        })?;
        thread::sleep(Duration::from_millis(10));
    }
    Ok(relay)
}

/// Runs `wansan`.
pub(crate) fn wansan(arguments: &[&str]) -> Result<Finished, Stop> {
    Ok(command(Path::new(WANSAN), arguments, LIMIT)?)
}

/// What `wansan attach list` says of the disks at that target.
pub(crate) fn list(target: &Target) -> Result<Vec<Value>, Stop> {
    let listed = wansan(&["attach", "list", "--json"])?.success()?;
    let disks = listed.stdout.lines().map(serde_json::from_str);
    let disks = disks.collect::<Result<Vec<Value>, _>>();
    let mut disks = disks.map_err(|error| Stop::Failed(error.to_string()))?;
    // Other tests attach disks as well.
    disks.retain(|disk| {
        disk["url"]
            .as_str()
            .is_some_and(|url| url.contains(target.address()))
    });
    Ok(disks)
}

/// Runs a program of others, which has to succeed.
pub(crate) fn peer(program: &str, arguments: &[&str]) -> Result<String, Stop> {
    let program = find(program)?;
    let finished = run(Command::new(program).args(arguments), LIMIT)?;
    Ok(finished.success()?.output())
}

/// Bytes that say where they belong: no two blocks of 512 are alike.
pub(crate) fn pattern(bytes: u64, seed: u64) -> Vec<u8> {
    let word = |at: u64| {
        (at ^ seed << 32)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .to_le_bytes()
    };
    (0..bytes / 8).flat_map(word).collect()
}
