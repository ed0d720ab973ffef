//! The result of decoding a CDB.

use super::command::Refused;
use super::{Cdb, MediumOperation, Sense};
use crate::wire::ScsiStatus;

/// A complete response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// SCSI status.
    pub status: ScsiStatus,
    /// Data-In, truncated to the CDB's allocation length; empty when there is none.
    pub data: Vec<u8>,
    /// With CHECK CONDITION only.
    pub sense: Option<Sense>,
}

impl Answer {
    /// GOOD, with `data`.
    #[must_use]
    pub const fn good(data: Vec<u8>) -> Answer {
        Answer {
            status: ScsiStatus::Good,
            data,
            sense: None,
        }
    }

    /// CHECK CONDITION.
    #[must_use]
    pub const fn check_condition(sense: Sense) -> Answer {
        Answer {
            status: ScsiStatus::CheckCondition,
            data: Vec::new(),
            sense: Some(sense),
        }
    }
}

impl From<Refused> for Answer {
    fn from(refused: Refused) -> Answer {
        match refused {
            Refused::Sense(sense) => Answer::check_condition(sense),
            Refused::Conflict => Answer::from(ScsiStatus::ReservationConflict),
            Refused::Busy => Answer::from(ScsiStatus::Busy),
        }
    }
}

impl From<ScsiStatus> for Answer {
    /// A status without data or sense data.
    fn from(status: ScsiStatus) -> Answer {
        Answer {
            status,
            data: Vec::new(),
            sense: None,
        }
    }
}

/// The store operation of a command. Its range lies inside the logical unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StoreOperation {
    /// Send these bytes to the initiator.
    Read {
        /// First byte.
        offset_bytes: u64,
        /// Number of bytes, at least one block.
        len_bytes: u32,
        /// Force unit access: from the medium, not from a volatile cache.
        fua: bool,
    },
    /// Take these bytes from the initiator.
    Write {
        /// First byte.
        offset_bytes: u64,
        /// Number of bytes, at least one block.
        len_bytes: u32,
        /// Force unit access: on the medium before status is sent.
        fua: bool,
    },
    /// Write at least these bytes from a volatile cache to the medium.
    Flush {
        /// First byte.
        offset_bytes: u64,
        /// Number of bytes.
        len_bytes: u64,
        /// IMMED: status may be sent before completion.
        immediate: bool,
    },
    /// Another operation: [`TargetDevice::execute`](super::TargetDevice::execute) decodes it once
    /// all its Data-Out has arrived.
    Deferred {
        /// The command.
        cdb: Cdb,
        /// Bytes that it receives from the initiator; 0 when none.
        data_out_bytes: u32,
    },
}

impl StoreOperation {
    /// Whether it receives data from the initiator.
    pub(crate) const fn takes_data_out(&self) -> bool {
        match self {
            StoreOperation::Write { .. } => true,
            StoreOperation::Deferred { data_out_bytes, .. } => *data_out_bytes > 0,
            StoreOperation::Read { .. } | StoreOperation::Flush { .. } => false,
        }
    }
}

/// A logical unit's reply to a command that it executes.
#[derive(Debug)]
pub(super) enum Reply {
    /// GOOD, with this Data-In.
    Data(Vec<u8>),
    /// A store operation has to run first.
    Store(StoreOperation),
    /// A medium operation has to run first. Only for commands that are decided with their Data-Out, even if empty.
    Medium(Box<MediumOperation>),
}

impl Reply {
    /// GOOD without data.
    pub(super) const DONE: Reply = Reply::Data(Vec::new());
}

/// Truncates `data` to the CDB's ALLOCATION LENGTH (SPC-4 4.2.5.6).
pub(super) fn cut(mut data: Vec<u8>, allocation_bytes: impl TryInto<usize>) -> Vec<u8> {
    data.truncate(allocation_bytes.try_into().unwrap_or(usize::MAX));
    data
}

/// How a [`TargetDevice`](super::TargetDevice) decodes a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decoded {
    /// It is complete.
    Answer(Answer),
    /// A store operation has to run first.
    Store {
        /// The logical unit's index in [`TargetDevice::units`](super::TargetDevice::units).
        unit: usize,
        /// The operation.
        operation: StoreOperation,
    },
}

/// How a [`TargetDevice`](super::TargetDevice) executes a command whose Data-Out is complete.
#[derive(Debug, PartialEq, Eq)]
pub enum Executed {
    /// It is complete.
    Answer(Answer),
    /// A store operation has to run first. The response is GOOD with its output as Data-In, or CHECK CONDITION.
    Medium(Box<MediumOperation>),
}

impl Decoded {
    /// Bytes that the command sends to the initiator, as far as known already.
    #[must_use]
    pub fn data_in_bytes(&self) -> usize {
        match self {
            Decoded::Answer(answer) => answer.data.len(),
            Decoded::Store {
                operation: StoreOperation::Read { len_bytes, .. },
                ..
            } => *len_bytes as usize,
            Decoded::Store { .. } => 0,
        }
    }

    /// Bytes that the command receives from the initiator.
    #[must_use]
    pub fn data_out_bytes(&self) -> usize {
        match self {
            Decoded::Store {
                operation:
                    StoreOperation::Write { len_bytes, .. }
                    | StoreOperation::Deferred {
                        data_out_bytes: len_bytes,
                        ..
                    },
                ..
            } => *len_bytes as usize,
            _ => 0,
        }
    }
}
