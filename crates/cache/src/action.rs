//! What is asked of a disk, and what it answers.

use crate::range::Range;

/// What is asked of a disk. Ranges are whole logical blocks of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// The data of a range.
    Read {
        /// Where.
        range: Range,
    },
    /// Data for a range.
    Write {
        /// Where the data begin, in bytes.
        offset_bytes: u64,
        /// The data.
        data: Vec<u8>,
        /// Whether it is to be on the medium when it is answered (FUA, SBC-3 §4.15).
        fua: bool,
    },
    /// Everything that was acknowledged before is to be on the medium.
    Flush,
    /// The data of a range are of no use any more: it may read as anything.
    Trim {
        /// Where.
        range: Range,
        /// As of a write.
        fua: bool,
    },
    /// A range is to read as zeros.
    Zero {
        /// Where.
        range: Range,
        /// As of a write.
        fua: bool,
        /// Whether the range may become a hole.
        may_unmap: bool,
        /// Whether to fail rather than to write zeros one after the other.
        fast: bool,
    },
    /// Which parts of a range are holes.
    Status {
        /// Where.
        range: Range,
        /// Whether the first part suffices.
        one: bool,
    },
    /// A range will be read soon.
    Prefetch {
        /// Where.
        range: Range,
    },
}

impl Action {
    /// The bytes of the disk that it is about; of a flush, none.
    #[must_use]
    pub fn range(&self) -> Range {
        match self {
            Action::Read { range }
            | Action::Trim { range, .. }
            | Action::Zero { range, .. }
            | Action::Status { range, .. }
            | Action::Prefetch { range } => *range,
            Action::Write {
                offset_bytes, data, ..
            } => Range::new(*offset_bytes, data.len() as u64),
            Action::Flush => Range::new(0, 0),
        }
    }

    /// The same trim, or the same zeros, of a part of the range: zeros in any way, as they were promised.
    pub(crate) fn part(&self, range: Range) -> Action {
        let mut part = self.clone();
        match &mut part {
            Action::Trim { range: whole, .. } => *whole = range,
            Action::Zero {
                range: whole, fast, ..
            } => {
                *whole = range;
                *fast = false;
            }
            _ => {}
        }
        part
    }

    /// Whether it changes data of that range, or may.
    pub(crate) fn changes(&self) -> bool {
        matches!(
            self,
            Action::Write { .. } | Action::Trim { .. } | Action::Zero { .. }
        )
    }
}

/// A part of a disk, for [`Action::Status`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// Its length, in bytes.
    pub length_bytes: u64,
    /// Whether no space is allocated for it.
    pub is_hole: bool,
    /// Whether it is known to read as zeros.
    pub reads_zero: bool,
}

impl Extent {
    /// One that has data, or may have.
    #[must_use]
    pub fn data(length_bytes: u64) -> Extent {
        Extent {
            length_bytes,
            is_hole: false,
            reads_zero: false,
        }
    }
}

/// What a disk answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// It is done.
    Done,
    /// The data of a read.
    Data(Vec<u8>),
    /// The parts of a range, from its start on; they may end before or behind it.
    Status(Vec<Extent>),
}

/// Why a disk did not do what it was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Failure {
    /// The medium, or the way to it, failed.
    Io,
    /// The disk may not be written, or another initiator has reserved it.
    NotPermitted,
    /// No space is left on the disk, or the range is beyond its end.
    NoSpace,
    /// The disk has no such operation.
    NotSupported,
    /// The request makes no sense to the disk.
    Invalid,
    /// The disk is being detached.
    ShuttingDown,
}

/// How a request ended.
pub type Outcome = Result<Answer, Failure>;
