//! Requests to a disk and its answers.

use crate::range::Range;

/// A request to a disk. Ranges are in whole logical blocks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Read a range.
    Read {
        /// The range.
        range: Range,
    },
    /// Write data.
    Write {
        /// Start, in bytes.
        offset_bytes: u64,
        /// The data.
        data: Vec<u8>,
        /// Whether the data must be on the medium before the answer (FUA, SBC-3 §4.15).
        fua: bool,
    },
    /// Put everything acknowledged before on the medium.
    Flush,
    /// Discard a range: it may read as anything.
    Trim {
        /// The range.
        range: Range,
        /// As for a write.
        fua: bool,
    },
    /// Zero a range.
    Zero {
        /// The range.
        range: Range,
        /// As for a write.
        fua: bool,
        /// Whether the range may be unmapped.
        may_unmap: bool,
        /// Whether to fail rather than write zeros as data.
        fast: bool,
    },
    /// Report the holes of a range.
    Status {
        /// The range.
        range: Range,
        /// Whether the first extent suffices.
        one: bool,
    },
    /// Read a range ahead.
    Prefetch {
        /// The range.
        range: Range,
    },
}

impl Action {
    /// The range of the disk that it concerns; empty for a flush.
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

    /// The same trim or zeroing for a subrange; zeroing may then use any method, as it has already been acknowledged.
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

    /// Whether it changes data, or may.
    pub(crate) fn changes(&self) -> bool {
        matches!(
            self,
            Action::Write { .. } | Action::Trim { .. } | Action::Zero { .. }
        )
    }
}

/// One extent of an answer to [`Action::Status`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// Its length, in bytes.
    pub length_bytes: u64,
    /// Whether it is unallocated.
    pub is_hole: bool,
    /// Whether it is known to read as zeros.
    pub reads_zero: bool,
}

impl Extent {
    /// An extent that has or may have data.
    #[must_use]
    pub fn data(length_bytes: u64) -> Extent {
        Extent {
            length_bytes,
            is_hole: false,
            reads_zero: false,
        }
    }
}

/// A disk's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// Success.
    Done,
    /// Data of a read.
    Data(Vec<u8>),
    /// Extents from the start of the range; they may end before or after it.
    Status(Vec<Extent>),
}

/// Why a disk refused or failed a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Failure {
    /// The medium or the path to it failed.
    Io,
    /// The disk is write-protected, or another initiator has reserved it.
    NotPermitted,
    /// The disk is full, or the range is past its end.
    NoSpace,
    /// The disk does not support the operation.
    NotSupported,
    /// The request is invalid.
    Invalid,
    /// The disk is being detached.
    ShuttingDown,
}

/// Result of a request.
pub type Outcome = Result<Answer, Failure>;
