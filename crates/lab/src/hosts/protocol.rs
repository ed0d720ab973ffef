//! The protocol between the lab and its agent on a host, over one `ssh` connection: JSON, a message per line. The bytes
//! of a file follow the line that announces it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use wansan_schema::Machine;
use wansan_trace::Instant;
use wansan_trace::event::Role;

/// Longest message: the longest line of a program, with every byte escaped.
pub(super) const MAX_MESSAGE_BYTES: u64 = 8 << 20;
/// Prefix of the greeting, followed by the host's system and architecture.
pub(super) const GREETING: &str = "wansan-lab";
/// Timeout in seconds without input, after which an agent assumes that it has lost its lab and exits.
pub(super) const SILENCE_S: u64 = 30;

/// A request from the lab to an agent.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "snake_case")]
pub(super) enum Request {
    /// Read the clock.
    Clock { sent_ns: u64 },
    /// Report whether this is an address of the host.
    Address { address: std::net::Ipv4Addr },
    /// Prepare for a cell, as that host of the plan; record the programs' threads in this much memory, if at all.
    Begin {
        host: String,
        thread_memory_bytes: Option<u64>,
    },
    /// Start `wansan` with these arguments and settings. Its standard input stays open.
    Start {
        program: u64,
        arguments: Vec<String>,
        settings: String,
        watched: Option<Watched>,
    },
    /// Close a program's standard input.
    Release { program: u64 },
    /// Send SIGTERM to a program.
    Terminate { program: u64 },
    /// Kill a program.
    Kill { program: u64 },
    /// Send all records since the cell began, and delete them.
    Collect,
}

/// How a program's threads are recorded.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Watched {
    pub(crate) what: String,
    /// A [`Role`], by its name.
    role: String,
}

impl Watched {
    pub(crate) fn new(what: &str, role: Role) -> Watched {
        Watched {
            what: what.to_owned(),
            role: role.name().to_owned(),
        }
    }

    pub(super) fn role(&self) -> Option<Role> {
        Role::from_name(&self.role)
    }
}

/// A message from an agent.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "say", rename_all = "snake_case")]
pub(super) enum Reply {
    /// Its greeting; the first message.
    Hello(Box<Hello>),
    /// The answer to [`Request::Clock`].
    Clock { sent_ns: u64, read_ns: u64 },
    /// The answer to [`Request::Address`].
    Address { is_own: bool },
    /// A program printed a line.
    Line { program: u64, text: String },
    /// A program exited, with its wait(2) status, or could not be started.
    Ended {
        program: u64,
        status: Result<i32, String>,
        stderr: String,
    },
    /// A record file, whose bytes follow.
    File { name: String, bytes: u64 },
    /// All files were sent, or an error.
    Collected { problem: Option<String> },
}

/// Facts about an agent and its host.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Hello {
    /// The version and the commit of its `wansan`.
    pub(super) version: String,
    pub(super) commit: String,
    /// The SHA-256 of its program, in hexadecimal.
    pub(super) sha256: String,
    /// The folder of its programs' records.
    pub(super) records: PathBuf,
    /// Its user ID.
    pub(super) uid: u32,
    pub(super) machine: Machine,
    /// The kernel's TCP settings, by sysctl name.
    pub(super) settings: BTreeMap<String, String>,
}

/// A clock exchange: its start and end here, and the other clock's reading in between.
#[derive(Debug, Clone, Copy)]
pub(super) struct Exchange {
    pub(super) sent: Instant,
    pub(super) read: Instant,
    pub(super) received: Instant,
}
