//! Debian's HAProxy as a TCP proxy.

use std::fs::File;
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use crate::process::{PeerError, Running, free_address, wait_for_listener};
use crate::program::find;

const START_LIMIT: Duration = Duration::from_secs(20);

/// Size of its read buffers and pipes: the same as `wansan relay`'s. Its defaults are 16 KiB, and the kernel's default
/// of 64 KiB.
const BUFFER_BYTES: usize = 64 << 10;
const PIPE_BYTES: usize = 256 << 10;

/// When it splices instead of copying (HAProxy's configuration manual, §4.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Splicing {
    /// `option splice-auto`: where its heuristics expect a gain.
    Auto,
    /// `option splice-request` and `option splice-response`: whatever can be spliced.
    Always,
}

impl Splicing {
    fn options(self) -> &'static str {
        match self {
            Self::Auto => "option splice-auto",
            Self::Always => "option splice-request\n  option splice-response",
        }
    }
}

/// A running HAProxy with one frontend and one server. Dropping it stops it and removes its files.
#[derive(Debug)]
pub struct Haproxy {
    // Stopped before its folder is removed: fields drop in order.
    process: Running,
    address: SocketAddr,
    _folder: TempDir,
}

impl Haproxy {
    /// Starts it on a free port of loopback in front of `to`, in TCP mode, with `threads` threads.
    ///
    /// # Errors
    /// It is not installed, or does not come up.
    pub fn start(to: SocketAddr, threads: usize, splicing: Splicing) -> Result<Self, PeerError> {
        let program = find("haproxy")?;
        let system = |source| PeerError::System {
            program: "haproxy".to_owned(),
            source,
        };
        let folder = TempDir::with_prefix("wansan-haproxy-").map_err(system)?;
        let address = free_address().map_err(system)?;
        let settings = format!(
            "global\n  nbthread {threads}\n  maxconn 4000\n  \
             tune.bufsize {BUFFER_BYTES}\n  tune.pipesize {PIPE_BYTES}\n\
             defaults\n  mode tcp\n  {}\n  timeout connect 10s\n  \
             timeout client 1h\n  timeout server 1h\n\
             frontend clients\n  bind {address}\n  default_backend targets\n\
             backend targets\n  server target {to}\n",
            splicing.options(),
        );
        let path = folder.path().join("haproxy.cfg");
        std::fs::write(&path, settings).map_err(system)?;
        let log = folder.path().join("log");
        let mut process = Running::start(
            Command::new(program)
                .arg("-db")
                .arg("-f")
                .arg(&path)
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(File::create(&log).map_err(system)?),
        )?;
        if wait_for_listener(&mut process, address, START_LIMIT)? {
            return Ok(Haproxy {
                process,
                address,
                _folder: folder,
            });
        }
        Err(PeerError::TimedOut {
            program: "haproxy".to_owned(),
            awaited: "listening",
            limit: START_LIMIT,
            output: std::fs::read_to_string(log).unwrap_or_default(),
        })
    }

    /// The listening address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The process id.
    pub fn id(&self) -> u32 {
        self.process.id()
    }
}
