//! How an attached disk stands.

use serde::{Deserialize, Serialize};
use wansan_cache::Counters;

/// Whether there is a way to the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Default)]
#[serde(rename_all = "kebab-case")]
pub enum Standing {
    /// There is.
    #[default]
    Connected,
    /// The session has no connection and is being recovered: requests wait.
    Recovering,
    /// The session is lost: requests fail until there is a new one.
    Lost,
    /// Another host has taken the disk over: requests fail until it is attached again.
    Preempted,
    /// The target could not be reached yet: the disk is not served.
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

/// How it is known that others may write to a disk at any time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sharing {
    /// Another initiator has registered a key for persistent reservations.
    Registered,
    /// Another initiator has reserved it in the older way (RESERVE of SPC-2).
    Reserved,
}

impl Sharing {
    /// What the other one has done, and what follows for the disk with a journal or without.
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

/// An attached disk at a moment.
#[derive(Debug, Clone, Default)]
pub struct Status {
    /// Whether there is a way to it.
    pub standing: Standing,
    /// Connections to the target that are up, and those configured; with multipath, one for each session.
    pub connections: (usize, usize),
    /// Programs that are connected.
    pub clients: usize,
    /// Their requests that are not answered.
    pub open_requests: usize,
    /// Bytes that were acknowledged and may not be on the disk's medium yet.
    pub behind_bytes: u64,
    /// Age of the oldest of them, in ns.
    pub behind_ns: u64,
    /// Memory taken by what is read ahead, in bytes.
    pub ahead_bytes: u64,
    /// How it is known that others use the disk: then nothing is read ahead, and no write is acknowledged early.
    pub sharing: Option<Sharing>,
    /// Whether a journal acknowledges writes all the same.
    pub has_journal: bool,
    /// What the cache has done.
    pub counters: Counters,
    /// Recoveries of the session, and new sessions.
    pub recoveries: u64,
    /// Requests that failed.
    pub failed_requests: u64,
}
