//! The target's tasks.

use std::collections::VecDeque;

use wansan_trace::{ConnectionId, TaskTag};

use crate::scsi::{MediumOperation, Sense, StoreOperation};
use crate::sequence::Sn;
use crate::wire::{Lun, ScsiStatus};

/// One task between its command and its answer.
#[derive(Debug)]
pub(super) struct Task {
    pub(super) lun: Lun,
    /// The place of its connection in the session: data and status stay with it (RFC 7143
    /// §4.2.2.1, connection allegiance).
    pub(super) place: usize,
    pub(super) connection: ConnectionId,
    pub(super) cmd_sn: Sn,
    /// Immediate commands hold no slot of the command window.
    pub(super) holds_slot: bool,
    pub(super) expected_bytes: u32,
    /// The initiator takes Data-In.
    pub(super) takes_data: bool,
    /// What the logical unit wants done, and where.
    pub(super) unit: usize,
    pub(super) operation: StoreOperation,
    /// Bytes that will move: the least of what the CDB and what the initiator say.
    pub(super) moved_bytes: u32,
    /// What its data takes of the session's share of memory.
    pub(super) charged_bytes: usize,
    /// Bytes that the store has been asked for and has not given.
    pub(super) at_store_bytes: usize,
    pub(super) stage: Stage,
}

impl Task {
    /// Bytes that the CDB moves, whatever the initiator expects: SPDTL in RFC 7143 §11.4.5.
    pub(super) fn presented_bytes(&self) -> u64 {
        match self.operation {
            StoreOperation::Read { len_bytes, .. } | StoreOperation::Write { len_bytes, .. } => {
                u64::from(len_bytes)
            }
            StoreOperation::Deferred { data_out_bytes, .. } => u64::from(data_out_bytes),
            StoreOperation::Flush { .. } => 0,
        }
    }
}

/// How far a task is.
#[derive(Debug)]
pub(super) enum Stage {
    /// Data-Out is coming.
    Collecting(Collecting),
    /// The answer is settled, but unsolicited Data-Out still has to be let past.
    Refused(Refusal),
    /// Waits to be asked of the store.
    Ready(Progress),
    /// The store is at work.
    AtStore(Progress),
    /// The store is at work, and a task management function has ended the task: there will be no
    /// answer.
    Aborted,
}

impl Stage {
    /// Whether the device server has got the command: a write gets there with its data.
    pub(super) fn reached_device(&self) -> bool {
        matches!(self, Stage::Ready(_) | Stage::AtStore(_) | Stage::Aborted)
    }
}

/// Why a command is not carried out. The answer waits for the end of unsolicited data.
#[derive(Debug, Clone, Copy)]
pub(super) struct Refusal {
    pub(super) status: ScsiStatus,
    pub(super) sense: Option<Sense>,
}

impl From<Sense> for Refusal {
    fn from(sense: Sense) -> Self {
        Refusal {
            status: ScsiStatus::CheckCondition,
            sense: Some(sense),
        }
    }
}

impl Refusal {
    /// There is no memory for the command's data: TASK SET FULL beside `others`, commands of the
    /// same initiator, and BUSY when it is alone (SAM-5 5.3.1).
    pub(super) fn no_memory(others: usize) -> Refusal {
        let status = match others {
            0 => ScsiStatus::Busy,
            _ => ScsiStatus::TaskSetFull,
        };
        Refusal {
            status,
            sense: None,
        }
    }
}

/// The data that a write has so far.
#[derive(Debug)]
pub(super) struct Collecting {
    /// In order from the start: DataPDUInOrder and DataSequenceInOrder are always Yes here.
    pub(super) data: Vec<u8>,
    /// Bytes that have come; more than `data` holds when the initiator sends more than the CDB
    /// takes.
    pub(super) received_bytes: u32,
    /// Unsolicited Data-Out is still to come, up to this many bytes in all.
    pub(super) unsolicited_to: Option<u32>,
    pub(super) unsolicited_data_sn: u32,
    /// R2Ts that are not answered in full, oldest first.
    pub(super) asked: VecDeque<Asked>,
    /// Where the next R2T begins.
    pub(super) ask_from: u32,
    pub(super) r2t_sn: u32,
    /// Bytes granted out of the session's bound on solicited data.
    pub(super) granted_bytes: u32,
}

/// One R2T.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) transfer_tag: u32,
    pub(super) next_bytes: u32,
    pub(super) end_bytes: u32,
    pub(super) data_sn: u32,
}

/// What of a task has been done.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// The data of a write; empty for others.
    pub(super) data: Vec<u8>,
    /// What the store is to do for a deferred command.
    pub(super) medium: Option<Box<MediumOperation>>,
    /// Bytes of a read that have been sent.
    pub(super) sent_bytes: u32,
    /// How many Data-In and R2T PDUs have been sent, which is DataSN of the next Data-In.
    pub(super) data_sn: u32,
    /// Granted bytes to be given back at the end.
    pub(super) granted_bytes: u32,
    /// The store has been asked once.
    pub(super) store_entered: bool,
}

/// The session's tasks by tag.
pub(super) type Tasks = std::collections::HashMap<TaskTag, Task, TagHash>;

/// Hashes task tags. A session has no more tasks than its command window and a few immediate
/// ones, so a peer that chooses tags which collide slows only its own session, and only by that
/// bound.
pub(super) type TagHash = std::hash::BuildHasherDefault<TagHasher>;

/// See [`TagHash`].
#[derive(Debug, Default)]
pub(super) struct TagHasher(u64);

impl std::hash::Hasher for TagHasher {
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u32(u32::from(byte));
        }
    }

    fn write_u32(&mut self, tag: u32) {
        // Fibonacci hashing: tags that count up spread over the high bits that the table uses.
        self.0 = (self.0 ^ u64::from(tag)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
