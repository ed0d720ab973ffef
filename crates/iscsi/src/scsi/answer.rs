//! What decoding a CDB comes to.

use super::Sense;
use crate::wire::ScsiStatus;

/// A whole answer, ready to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// How the command ended.
    pub status: ScsiStatus,
    /// Data-In, already cut to the CDB's allocation length; empty when there is none.
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

/// What a store is to do. The range lies inside the logical unit.
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
    /// Bring at least these bytes from a volatile cache to the medium.
    Flush {
        /// First byte.
        offset_bytes: u64,
        /// Number of bytes.
        len_bytes: u64,
        /// IMMED: status may be sent before it is done.
        immediate: bool,
    },
}

/// What one logical unit makes of a CDB that it accepts; one that it does not accept is a [`Sense`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// GOOD, with this Data-In.
    Data(Vec<u8>),
    /// The store has to work first.
    Store(StoreOperation),
}

impl Reply {
    /// GOOD without data.
    pub(super) const DONE: Reply = Reply::Data(Vec::new());
}

/// As much of `data` as the CDB's ALLOCATION LENGTH lets through (SPC-4 4.2.5.6).
pub(super) fn cut(mut data: Vec<u8>, allocation_bytes: impl TryInto<usize>) -> Vec<u8> {
    data.truncate(allocation_bytes.try_into().unwrap_or(usize::MAX));
    data
}

/// What a [`TargetDevice`](super::TargetDevice) makes of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decoded {
    /// It is answered.
    Answer(Answer),
    /// The store of a logical unit has to work first.
    Store {
        /// The logical unit's place in [`TargetDevice::units`](super::TargetDevice::units).
        unit: usize,
        /// What its store is to do.
        operation: StoreOperation,
    },
}

impl Decoded {
    /// Bytes that the command sends to the initiator.
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

    /// Bytes that the command takes from the initiator.
    #[must_use]
    pub fn data_out_bytes(&self) -> usize {
        match self {
            Decoded::Store {
                operation: StoreOperation::Write { len_bytes, .. },
                ..
            } => *len_bytes as usize,
            _ => 0,
        }
    }
}
