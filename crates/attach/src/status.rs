//! Status of an attached disk.

use serde::{Deserialize, Serialize};
use wansan_cache::Counters;

/// State of the path to the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Default)]
#[serde(rename_all = "kebab-case")]
pub enum Standing {
    /// The session is up.
    #[default]
    Connected,
    /// No connection is up and the session is being recovered: requests wait.
    Recovering,
    /// The session is lost: requests fail until a new one is up.
    Lost,
    /// Another host has taken the disk over: requests fail until it is attached again.
    Preempted,
    /// The target has not been reachable yet: the disk is not served.
    Waiting,
}

impl Standing {
    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Standing::Connected => "connected",
            Standing::Recovering => "recovering",
            Standing::Lost => "lost",
            Standing::Preempted => "preempted",
            Standing::Waiting => "waiting",
        }
    }
}

/// Evidence that others may write to a disk at any time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sharing {
    /// Another initiator has registered a key for persistent reservations.
    Registered,
    /// Another initiator holds a legacy reservation (RESERVE of SPC-2).
    Reserved,
}

impl Sharing {
    /// Describes the other initiator's action and its effect, for a disk with or without a journal.
    #[must_use]
    pub fn words(self, has_journal: bool) -> String {
        let done = match self {
            Sharing::Registered => "has registered with the disk",
            Sharing::Reserved => "has reserved the disk",
        };
        let write_behind = match has_journal {
            true => "; it sees what the journal has only when that has reached the disk",
            false => " and no write-behind",
        };
        format!("another initiator {done}: no read-ahead{write_behind}")
    }
}

/// Snapshot of an attached disk's status.
#[derive(Debug, Clone, Default)]
pub struct Status {
    /// State of the path to it.
    pub standing: Standing,
    /// Target connections up, and configured; one per session with multipath.
    pub connections: (usize, usize),
    /// Connected programs.
    pub clients: usize,
    /// Their unanswered requests.
    pub open_requests: usize,
    /// Acknowledged bytes that may not be on the disk's medium yet.
    pub behind_bytes: u64,
    /// Age of the oldest such byte, in ns.
    pub behind_ns: u64,
    /// Memory used by read-ahead data, in bytes.
    pub ahead_bytes: u64,
    /// Evidence that others use the disk: read-ahead and early write acknowledgement are then off.
    pub sharing: Option<Sharing>,
    /// Whether a journal still acknowledges writes early.
    pub has_journal: bool,
    /// The cache's counters.
    pub counters: Counters,
    /// Session recoveries and new sessions.
    pub recoveries: u64,
    /// Failed requests.
    pub failed_requests: u64,
}
