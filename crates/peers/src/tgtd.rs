//! `tgtd`, Debian's user-space target, started without root.

use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use tempfile::TempDir;

use crate::process::{PeerError, Running, free_address, run, wait_for_listener};
use crate::program::find;

/// The target name of every [`Tgtd`].
pub const TARGET_NAME: &str = "iqn.2026-11.net.example:tgt";
/// Attempts with another port if the chosen one has been taken.
const PORT_TRIES: usize = 5;
const START_LIMIT: Duration = Duration::from_secs(10);
const COMMAND_LIMIT: Duration = Duration::from_secs(10);

/// `tgtadm`'s message if a busy `tgtd` closed the connection before it had read the request, which may then be
/// repeated.
const NOT_HEARD: &str = "failed to send request hdr to tgt daemon";
const REQUEST_TRIES: usize = 5;
const BETWEEN_REQUESTS: Duration = Duration::from_millis(100);

/// How `tgtd` accesses its file (tgtadm(8), `--bstype`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BackingStore {
    /// `rdwr`: read(2) and write(2) through the page cache in a pool of threads. tgt's default.
    ReadWrite,
    /// `aio`: the kernel's asynchronous I/O, bypassing the page cache (`O_DIRECT`).
    Aio,
}

impl BackingStore {
    fn name(self) -> &'static str {
        match self {
            Self::ReadWrite => "rdwr",
            Self::Aio => "aio",
        }
    }
}

/// A running `tgtd` with one target and one logical unit, number 1 (tgt reserves 0), backed by a file. Dropping it
/// stops it and removes its files.
#[derive(Debug)]
pub struct Tgtd {
    // Stopped before its folder is removed: fields drop in order.
    process: Running,
    address: SocketAddr,
    folder: TempDir,
    admin: PathBuf,
}

impl Tgtd {
    /// Starts `tgtd` on a free loopback port, with `disk` as its unit.
    ///
    /// # Errors
    /// `tgtd` or `tgtadm` is missing, or `tgtd` does not come up.
    pub fn start(disk: &Path) -> Result<Self, PeerError> {
        Self::start_with(disk, BackingStore::ReadWrite)
    }

    /// See [`Tgtd::start`]; with a backing store of the given type.
    ///
    /// # Errors
    /// See [`Tgtd::start`]; also if this `tgtd` was built without that type.
    pub fn start_with(disk: &Path, store: BackingStore) -> Result<Self, PeerError> {
        let mut tried = 1;
        loop {
            let address = free_address().map_err(system)?;
            match Self::start_serving(disk, store, address) {
                Err(error) if tried == PORT_TRIES => return Err(error),
                Err(PeerError::TimedOut { .. }) => tried += 1,
                started => return started,
            }
        }
    }

    /// Starts `tgtd` at `address`, with `disk` as its unit.
    ///
    /// # Errors
    /// See [`Tgtd::start`].
    pub fn start_at(disk: &Path, address: SocketAddr) -> Result<Self, PeerError> {
        Self::start_serving(disk, BackingStore::ReadWrite, address)
    }

    fn start_serving(
        disk: &Path,
        store: BackingStore,
        address: SocketAddr,
    ) -> Result<Self, PeerError> {
        let daemon = find("tgtd")?;
        let admin = find("tgtadm")?;
        let folder = TempDir::with_prefix("wansan-tgtd-").map_err(system)?;
        let tgtd = Self {
            process: listen(&daemon, folder.path(), address)?,
            address,
            folder,
            admin,
        };
        tgtd.serve(disk, store)?;
        Ok(tgtd)
    }

    /// The URL of its logical unit, in libiscsi's syntax.
    pub fn url(&self) -> String {
        format!("iscsi://{}/{TARGET_NAME}/1", self.address)
    }

    /// Its portal.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The daemon's process ID.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Sets the target's value for the login key `name`, in tgt's spelling of keys (for example
    /// `MaxRecvDataSegmentLength`, `HeaderDigest`).
    ///
    /// # Errors
    /// `tgtadm` refuses.
    pub fn set_parameter(&self, name: &str, value: &str) -> Result<(), PeerError> {
        self.administer(&[
            "update", "--mode", "target", "--name", name, "--value", value,
        ])
    }

    /// Requires initiators to authenticate by CHAP as `user`.
    ///
    /// # Errors
    /// `tgtadm` refuses.
    pub fn demand_chap(&self, user: &str, secret: &str) -> Result<(), PeerError> {
        self.add_account(user, secret)?;
        self.administer(&["bind", "--mode", "account", "--user", user])
    }

    /// Makes the target authenticate by CHAP as `user` to initiators that require it.
    ///
    /// # Errors
    /// `tgtadm` refuses.
    pub fn prove_by_chap(&self, user: &str, secret: &str) -> Result<(), PeerError> {
        self.add_account(user, secret)?;
        self.administer(&["bind", "--mode", "account", "--user", user, "--outgoing"])
    }

    fn add_account(&self, user: &str, secret: &str) -> Result<(), PeerError> {
        let account = ["--user", user, "--password", secret];
        self.tgtadm(&[&["--op", "new", "--mode", "account"], &account[..]].concat())
    }

    /// Enables thin provisioning of its unit.
    ///
    /// # Errors
    /// `tgtadm` refuses.
    pub fn provision_thinly(&self) -> Result<(), PeerError> {
        let unit = ["update", "--mode", "logicalunit", "--lun", "1"];
        self.administer(&[&unit[..], &["--params", "thin_provisioning=1"]].concat())
    }

    fn serve(&self, disk: &Path, store: BackingStore) -> Result<(), PeerError> {
        self.administer(&["new", "--mode", "target", "-T", TARGET_NAME])?;
        let disk = disk.to_string_lossy();
        let unit = ["new", "--mode", "logicalunit", "--lun", "1"];
        let backing = ["--backing-store", &disk, "--bstype", store.name()];
        self.administer(&[&unit[..], &backing].concat())?;
        self.administer(&["bind", "--mode", "target", "-I", "ALL"])
    }

    /// Runs `tgtadm` on the target.
    fn administer(&self, operation: &[&str]) -> Result<(), PeerError> {
        self.tgtadm(&[&["--tid", "1", "--op"], operation].concat())
    }

    fn tgtadm(&self, arguments: &[&str]) -> Result<(), PeerError> {
        let mut tried = 1;
        loop {
            let mut command = Command::new(&self.admin);
            command.env("TGT_IPC_SOCKET", ipc_socket(self.folder.path()));
            command.args(["--lld", "iscsi"]).args(arguments);
            let finished = run(&mut command, COMMAND_LIMIT)?;
            if tried == REQUEST_TRIES || !finished.stderr.contains(NOT_HEARD) {
                return finished.success().map(drop);
            }
            tried += 1;
            thread::sleep(BETWEEN_REQUESTS);
        }
    }
}

/// The control socket that separates this daemon from any other on the machine.
fn ipc_socket(folder: &Path) -> PathBuf {
    folder.join("control")
}

fn system(source: std::io::Error) -> PeerError {
    PeerError::System {
        program: "tgtd".to_owned(),
        source,
    }
}

fn listen(daemon: &Path, folder: &Path, address: SocketAddr) -> Result<Running, PeerError> {
    let log = folder.join("log");
    let log_file = File::create(&log).map_err(system)?;
    let mut command = Command::new(daemon);
    command
        .env("TGT_IPC_SOCKET", ipc_socket(folder))
        .arg("-f")
        .args(["--iscsi", &format!("portal={address}")])
        .stdin(Stdio::null())
        .stdout(log_file.try_clone().map_err(system)?)
        .stderr(log_file);
    let mut process = Running::start(&mut command)?;
    if wait_for_listener(&mut process, address, START_LIMIT)? {
        return Ok(process);
    }
    Err(PeerError::TimedOut {
        program: "tgtd".to_owned(),
        awaited: "listening",
        limit: START_LIMIT,
        output: std::fs::read_to_string(log).unwrap_or_default(),
    })
}
