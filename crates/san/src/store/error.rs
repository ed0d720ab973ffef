//! Errors of stores.

use std::io;
use std::path::PathBuf;

use core::fmt;

use wansan_iscsi::scsi::{AdditionalSense, Sense, SenseKey};

/// The operation of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operated {
    /// Reading.
    Read,
    /// Writing.
    Write,
    /// Flushing.
    Flush,
}

impl fmt::Display for Operated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Operated::Read => "read",
            Operated::Write => "write",
            Operated::Flush => "flush",
        })
    }
}

/// A failed store operation.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The range exceeds the store. CDB decoding checks this first, so it indicates a bug in
    /// wansan.
    #[error("{bytes} bytes at offset {offset} are beyond the end of a store of {size_bytes} bytes")]
    OutOfRange {
        /// The first byte requested.
        offset: u64,
        /// Bytes requested.
        bytes: u64,
        /// The store's size.
        size_bytes: u64,
    },
    /// The file ends before the range: it was truncated while in use.
    #[error("the file ends before byte {end}: it was truncated while in use; restore its size")]
    Short {
        /// End of the requested range.
        end: u64,
    },
    /// No space is left (ENOSPC or EDQUOT).
    #[error(
        "no space left on the file system to write {bytes} bytes at offset {offset}; free some"
    )]
    NoSpace {
        /// First byte written.
        offset: u64,
        /// Bytes to write.
        bytes: usize,
    },
    /// The compared data differs from the medium: a result, not a failure of the store.
    #[error("miscompare: the byte at offset {offset} differs")]
    Miscompare {
        /// The first byte that differs.
        offset: u64,
        /// The same, counted from the first byte of the data given.
        at: u64,
    },
    /// Persistent reservations could not be saved.
    #[error("cannot save reservations: {0}")]
    Reservations(io::Error),
    /// Acknowledged data could not be written to the medium earlier.
    #[error(
        "acknowledged data did not reach the medium and may be lost: check the medium and the file \
         system, then start the target again"
    )]
    Lost,
    /// Another error of the operating system.
    #[error("cannot {operated} {bytes} bytes at offset {offset}: {source}")]
    Machine {
        /// The operation.
        operated: Operated,
        /// First byte of the range.
        offset: u64,
        /// Its length; 0 for a flush.
        bytes: usize,
        /// The operating system's error.
        source: io::Error,
    },
}

impl StoreError {
    /// The error of an operation on `bytes` at `offset`, from an error of the operating system.
    pub(super) fn of_io(
        operated: Operated,
        offset: u64,
        bytes: usize,
        source: io::Error,
    ) -> StoreError {
        match source.kind() {
            io::ErrorKind::UnexpectedEof => StoreError::Short {
                end: offset + bytes as u64,
            },
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                StoreError::NoSpace { offset, bytes }
            }
            _ => StoreError::Machine {
                operated,
                offset,
                bytes,
                source,
            },
        }
    }

    /// The sense data for the initiator: a medium error, or no space. A range outside the store is
    /// reported as an internal target failure.
    #[must_use]
    pub fn sense(&self) -> Sense {
        let (key, additional) = match self {
            StoreError::Miscompare { at, .. } => {
                return Sense::new(SenseKey::Miscompare, AdditionalSense::MISCOMPARE)
                    .with_information(*at);
            }
            StoreError::OutOfRange { .. } | StoreError::Reservations(_) => (
                SenseKey::HardwareError,
                AdditionalSense::INTERNAL_TARGET_FAILURE,
            ),
            StoreError::NoSpace { .. } => (
                SenseKey::DataProtect,
                AdditionalSense::SPACE_ALLOCATION_FAILED,
            ),
            StoreError::Short { .. }
            | StoreError::Machine {
                operated: Operated::Read,
                ..
            } => (
                SenseKey::MediumError,
                AdditionalSense::UNRECOVERED_READ_ERROR,
            ),
            StoreError::Lost | StoreError::Machine { .. } => {
                (SenseKey::MediumError, AdditionalSense::WRITE_ERROR)
            }
        };
        Sense::new(key, additional)
    }
}

/// A store that could not be opened. One line each: what, where, and the remedy.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// There is no such file, and no size to create it with.
    #[error(
        "no file {}; to create it, give its size: file:{},size=1GiB",
        path.display(), path.display()
    )]
    Missing {
        /// The requested file.
        path: PathBuf,
    },
    /// It is neither a regular file nor a block device.
    #[error("{} is neither a regular file nor a block device", path.display())]
    NotAFile {
        /// The requested file.
        path: PathBuf,
    },
    /// Another process has locked it.
    #[error(
        "{} is in use: another process has it open (or another LUN of this target is the \
         same file); stop that first",
        path.display()
    )]
    InUse {
        /// The requested file.
        path: PathBuf,
    },
    /// An existing file has another size than requested.
    #[error(
        "{} has {size_bytes} bytes, not the requested {asked_bytes}; omit `size` or remove the file",
        path.display()
    )]
    OtherSize {
        /// The requested file.
        path: PathBuf,
        /// Its size.
        size_bytes: u64,
        /// The requested size.
        asked_bytes: u64,
    },
    /// The size is zero or not a whole number of blocks.
    #[error(
        "{what} has {size_bytes} bytes, which is not a whole number of {block_bytes}-byte blocks \
         (at least one)"
    )]
    Blocks {
        /// The requested file or memory.
        what: String,
        /// Its size.
        size_bytes: u64,
        /// Size of a logical block.
        block_bytes: u32,
    },
    /// Direct I/O is not possible.
    #[error(
        "no direct I/O (O_DIRECT) on {} with blocks of {block_bytes} bytes: {source}; omit `direct`, or give a new disk \
         `block=4096`",
        path.display()
    )]
    Direct {
        /// The requested file.
        path: PathBuf,
        /// Size of a logical block.
        block_bytes: u32,
        /// The operating system's error.
        source: io::Error,
    },
    /// The machine has too little memory.
    #[error("memory:{asked_bytes}B exceeds this machine's {memory_bytes} bytes of memory")]
    Memory {
        /// Bytes requested.
        asked_bytes: u64,
        /// Bytes of memory in the machine.
        memory_bytes: u64,
    },
    /// The unit's saved persistent reservations are unreadable.
    #[error(
        "{} has no readable reservations: {why}; remove it to start without reservations",
        path.display()
    )]
    Reservations {
        /// The file that should hold them.
        path: PathBuf,
        /// The error.
        why: String,
    },
    /// Another error of the operating system.
    #[error("cannot open {}: {source}", path.display())]
    Machine {
        /// The requested file.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
}
