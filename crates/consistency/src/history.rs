//! The input of a run: plain data, generated from a seed, that can be shrunk.

use serde::{Deserialize, Serialize};
use wansan_iscsi::target::UNSOLICITED_BYTES;

use crate::page_cache::FailureRates;

/// The whole input of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct History {
    /// The target.
    pub setup: Setup,
    /// The initiators' sessions.
    pub sessions: Vec<Script>,
    /// Restarts of the target, in the order of [`Incident::after`].
    pub incidents: Vec<Incident>,
    /// Seed of the schedule: when bytes move and when stores work.
    pub schedule: u64,
}

/// The target and its stores.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setup {
    /// The logical units, numbered from 0.
    pub units: Vec<UnitSetup>,
    /// Outstanding commands per session (1 to 65,536).
    pub command_window: u32,
    /// Maximum unsolicited data of a session, in bytes; it limits the command window.
    #[serde(default = "usual_unsolicited_bytes")]
    pub unsolicited_bytes: u32,
    /// Concurrent store operations, at least 1.
    pub workers: u8,
    /// Threads that serve the sessions, at least 1.
    pub threads: u8,
    /// Slow store operations, per mille.
    pub slow: u16,
    /// How often stores fail.
    pub failures: FailureRates,
    /// The target's login parameters.
    pub keys: Keys,
}

fn usual_unsolicited_bytes() -> u32 {
    UNSOLICITED_BYTES
}

/// A logical unit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnitSetup {
    /// Number of logical blocks, of 512 bytes.
    pub blocks: u16,
    /// It has a volatile write cache.
    pub write_cache: bool,
    /// It supports unmapping.
    pub thin: bool,
    /// Its persistent reservations can outlive a restart.
    pub keeps_reservations: bool,
}

/// Login parameters of one end (RFC 7143 §13).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Keys {
    /// ErrorRecoveryLevel.
    pub recovery: u8,
    /// MaxConnections.
    pub connections: u16,
    /// ImmediateData.
    pub immediate: bool,
    /// InitialR2T.
    pub initial_r2t: bool,
    /// FirstBurstLength.
    pub first_burst: u32,
    /// MaxBurstLength.
    pub max_burst: u32,
    /// MaxRecvDataSegmentLength.
    pub segment: u32,
    /// MaxOutstandingR2T.
    pub r2ts: u16,
    /// HeaderDigest and DataDigest are CRC32C.
    pub digests: bool,
}

/// One session of an initiator, with its steps in order. When it is lost or logged out before the last
/// step, another session continues.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Script {
    /// The initiator: its sessions have the same iSCSI name.
    pub host: u8,
    /// Its login parameters.
    pub keys: Keys,
    /// Which connection a command is sent on: the one with the fewest bytes outstanding, or the one with the fewest
    /// commands.
    #[serde(default)]
    pub least_bytes: bool,
    /// Maximum number of outstanding commands.
    pub depth: u8,
    /// After a loss, the initiator resends the outstanding commands.
    pub replays: bool,
    /// Its steps.
    pub steps: Vec<Step>,
}

/// One step of an initiator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Step {
    /// Sends a command to the unit.
    Do(u8, Scsi),
    /// Waits until no command is outstanding.
    Await,
    /// Sends a task management function for the unit.
    Manage(u8, Function),
    /// Stalls the connection with that CID, if there is one: it carries no bytes towards the target for that many
    /// turns.
    Stall(u16, u8),
    /// Loses the connection with that CID, if there is one.
    Cut(u16),
    /// Loses all connections, and continues in a session that reinstates this one.
    Reinstate,
    /// Loses all connections, and continues in a session with another ISID.
    Renew,
    /// Logs out, and continues in a new session.
    Logout,
    /// Advances virtual time by that many seconds, for all sessions.
    Sleep(u8),
}

/// Task management functions (RFC 7143 §11.5.1). Only the session itself sends TASK REASSIGN.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Function {
    /// ABORT TASK of the oldest outstanding command.
    AbortTask,
    /// ABORT TASK SET.
    AbortTaskSet,
    /// CLEAR TASK SET.
    ClearTaskSet,
    /// LOGICAL UNIT RESET.
    UnitReset,
    /// TARGET WARM RESET.
    TargetReset,
}

/// A SCSI command. Blocks are counted from LBA 0.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "fields are those of the CDB")]
pub enum Scsi {
    TestUnitReady,
    Inquiry,
    ReportLuns,
    RequestSense,
    ReadCapacity,
    ModeSense,
    TargetPortGroups,
    SupportedOpcodes,
    SupportedFunctions,
    DefectData,
    CopyStatus,
    Read {
        lba: u16,
        blocks: u16,
        fua: bool,
        form: u8,
    },
    Write {
        lba: u16,
        blocks: u16,
        fua: bool,
        form: u8,
    },
    WriteAndVerify {
        lba: u16,
        blocks: u16,
        compare: bool,
    },
    /// With `compare`, the data is that last read from these blocks.
    Verify {
        lba: u16,
        blocks: u16,
        compare: bool,
    },
    PreFetch {
        lba: u16,
        blocks: u16,
    },
    /// 0 `blocks` mean all blocks to the end of the unit.
    Synchronize {
        lba: u16,
        blocks: u16,
        immediate: bool,
    },
    WriteSame {
        lba: u16,
        blocks: u16,
        zeros: bool,
    },
    Unmap {
        lba: u16,
        blocks: u16,
    },
    /// Compares with the data last read there.
    CompareAndWrite {
        lba: u16,
        blocks: u8,
        fua: bool,
    },
    /// Sets its own bit in one of the unit's last blocks.
    OrWrite {
        block: u8,
        fua: bool,
    },
    LbaStatus {
        lba: u16,
    },
    /// EXTENDED COPY from the addressed unit.
    Copy {
        from: u16,
        to_unit: u8,
        to: u16,
        blocks: u16,
    },
    /// MODE SELECT of the Caching and the Control page.
    ModeSelect {
        write_cache: bool,
        protected: bool,
    },
    StartStop {
        start: bool,
    },
    PreventAllow {
        prevent: bool,
    },
    Reserve6,
    Release6,
    /// PERSISTENT RESERVE IN with that service action.
    ReserveIn {
        action: u8,
    },
    ReserveOut(ReserveOut),
}

impl Scsi {
    /// Whether it is a PREEMPT AND ABORT.
    pub(crate) const fn aborts_others(&self) -> bool {
        matches!(self, Scsi::ReserveOut(out) if out.action == 5)
    }
}

/// PERSISTENT RESERVE OUT.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReserveOut {
    /// Service action.
    pub action: u8,
    /// TYPE.
    pub kind: u8,
    /// RESERVATION KEY: 0, or the key of the session numbered one less.
    pub key: u8,
    /// SERVICE ACTION RESERVATION KEY, likewise.
    pub action_key: u8,
    /// APTPL.
    pub persist: bool,
    /// UNREG of REGISTER AND MOVE, which moves the reservation to the session of `action_key`.
    pub unregister: bool,
}

/// A restart of the target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Incident {
    /// After this many steps of all scripts together.
    pub after: u32,
    /// Its kind.
    pub what: Disaster,
}

/// Kinds of restarts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Disaster {
    /// The process is killed and restarted.
    Kill,
    /// The power is lost and restored.
    PowerLoss,
}

/// Blocks at the end of each unit that are written by ORWRITE alone.
pub(crate) const BIT_BLOCKS: u16 = 2;

impl History {
    /// Number of steps of all scripts.
    #[must_use]
    pub fn steps(&self) -> usize {
        self.sessions.iter().map(|script| script.steps.len()).sum()
    }
}
