//! `qemu-nbd`, QEMU's NBD server.

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::process::{PeerError, Running, free_address, wait_for_listener};
use crate::program::find;

const START_LIMIT: Duration = Duration::from_secs(10);

/// A running `qemu-nbd` with a file as its default export, accessed with io_uring through the page cache (its default
/// cache mode). Dropping it stops it.
#[derive(Debug)]
pub struct QemuNbd {
    process: Running,
    address: SocketAddr,
}

impl QemuNbd {
    /// Starts it on a free loopback port, with `disk` as its export.
    ///
    /// # Errors
    /// `qemu-nbd` is missing, was built without io_uring, or does not come up.
    pub fn start(disk: &Path) -> Result<Self, PeerError> {
        let address = free_address().map_err(|source| PeerError::System {
            program: "qemu-nbd".to_owned(),
            source,
        })?;
        let mut command = Command::new(find("qemu-nbd")?);
        command
            .args([
                "--persistent",
                "--shared=0",
                "--format=raw",
                "--aio=io_uring",
            ])
            .arg(format!("--bind={}", address.ip()))
            .arg(format!("--port={}", address.port()))
            .arg(disk)
            .stdin(Stdio::null());
        let mut process = Running::start(&mut command)?;
        if wait_for_listener(&mut process, address, START_LIMIT)? {
            return Ok(Self { process, address });
        }
        Err(PeerError::TimedOut {
            program: "qemu-nbd".to_owned(),
            awaited: "listening",
            limit: START_LIMIT,
            output: String::new(),
        })
    }

    /// The listening address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its process ID.
    pub fn id(&self) -> u32 {
        self.process.id()
    }
}
