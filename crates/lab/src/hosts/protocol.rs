//! What the lab and its agent on a host say to each other, over one connection of `ssh`: JSON, a message on each
//! line. The bytes of a file follow the line that announces it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use wansan_schema::Machine;
use wansan_trace::Instant;
use wansan_trace::event::Role;

/// The longest message: the longest line of a program, each byte of it escaped.
pub(super) const MAX_MESSAGE_BYTES: u64 = 8 << 20;
/// Begins the line that says that a host has been reached, and what it is: system and architecture follow.
pub(super) const GREETING: &str = "wansan-lab";
/// An agent that hears nothing for so many seconds has lost its lab, and ends.
pub(super) const SILENCE_S: u64 = 30;

/// What the lab asks an agent to do.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "snake_case")]
pub(super) enum Request {
    /// To read its clock.
    Clock { sent_ns: u64 },
    /// To say whether that address is one of its host.
    Address { address: std::net::Ipv4Addr },
    /// To get ready for a cell, as that host of the plan; to record its programs' threads in so much memory, if at all.
    Begin {
        host: String,
        thread_memory_bytes: Option<u64>,
    },
    /// To start `wansan` with these arguments, and hand it settings. Its standard input stays open.
    Start {
        program: u64,
        arguments: Vec<String>,
        settings: String,
        watched: Option<Watched>,
    },
    /// To end a program's standard input.
    Release { program: u64 },
    /// To send a program SIGTERM.
    Terminate { program: u64 },
    /// To kill a program.
    Kill { program: u64 },
    /// To hand over what was recorded since it began, and forget it.
    Collect,
}

/// As what the threads of a program are recorded.
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

/// What an agent says.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "say", rename_all = "snake_case")]
pub(super) enum Reply {
    /// Who it is; the first message.
    Hello(Box<Hello>),
    /// The answer to [`Request::Clock`].
    Clock { sent_ns: u64, read_ns: u64 },
    /// The answer to [`Request::Address`].
    Address { is_own: bool },
    /// A program printed a line.
    Line { program: u64, text: String },
    /// A program ended, with this status of wait(2), or could not be started.
    Ended {
        program: u64,
        status: Result<i32, String>,
        stderr: String,
    },
    /// A file of records, whose bytes follow.
    File { name: String, bytes: u64 },
    /// All files have been sent, or why they could not be.
    Collected { problem: Option<String> },
}

/// What an agent is, and where.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Hello {
    /// The version and the commit of its `wansan`.
    pub(super) version: String,
    pub(super) commit: String,
    /// The SHA-256 of its program, in hexadecimal.
    pub(super) sha256: String,
    /// Where its programs record.
    pub(super) records: PathBuf,
    /// The user that it runs as.
    pub(super) uid: u32,
    pub(super) machine: Machine,
    /// Its kernel's settings of TCP, by sysctl name.
    pub(super) settings: BTreeMap<String, String>,
}

/// When an exchange of clocks began and ended here, and what the other clock showed meanwhile.
#[derive(Debug, Clone, Copy)]
pub(super) struct Exchange {
    pub(super) sent: Instant,
    pub(super) read: Instant,
    pub(super) received: Instant,
}
