//! What a store may say of data on the medium, when the kernel reports an error to whichever call asks
//! first.
//!
//! Linux reports a failed write-back once to each open file description (`errseq_t`,
//! Documentation/core-api/errseq.rst), at the next fdatasync or synchronous write on it, and a failed
//! cache flush of the device only to the call that asked for it. Whichever call takes the error, it may
//! be about data that another call was to bring to the medium.
//!
//! Nothing here blocks or knows of files: [`FileStore`](super::FileStore) follows it over Linux's
//! system calls, and a simulation over a model of them.

use std::io;

use rustix::io::Errno;

use super::{Operated, StoreError};

/// The system calls on one file that bring data to its medium.
pub trait SyncedFile {
    /// Writes some of `bytes` from `offset` on, to the medium, and says how many.
    ///
    /// # Errors
    /// Its own, or that of an earlier write-back.
    fn write_synced(&self, bytes: &[u8], offset: u64) -> Result<usize, Errno>;

    /// Writes all of `bytes` from `offset` on, into the cache.
    ///
    /// # Errors
    /// Its own.
    fn write_cached(&self, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// Brings all data to the medium.
    ///
    /// # Errors
    /// Its own, or that of an earlier write-back.
    fn sync(&self) -> Result<(), Errno>;

    /// The same through another open file description, which has errors reported to it that a
    /// synchronous write has used up.
    ///
    /// # Errors
    /// Its own, or that of an earlier write-back.
    fn sync_witness(&self) -> Result<(), Errno>;
}

/// Why bringing data to the medium failed.
#[derive(Debug)]
pub enum SyncError {
    /// The write was refused, and nothing else was harmed.
    Refused(StoreError),
    /// Acknowledged data may not have reached the medium, and never will.
    Lost(StoreError),
}

impl From<SyncError> for StoreError {
    fn from(error: SyncError) -> StoreError {
        match error {
            SyncError::Refused(error) | SyncError::Lost(error) => error,
        }
    }
}

/// Writes all of `bytes` to the medium.
///
/// # Errors
/// Whether the write was refused or acknowledged data is lost.
pub fn write_synced(file: &impl SyncedFile, offset: u64, bytes: &[u8]) -> Result<(), SyncError> {
    let refused = |source| {
        SyncError::Refused(StoreError::of_io(
            Operated::Write,
            offset,
            bytes.len(),
            source,
        ))
    };
    let lost = |errno: Errno| {
        SyncError::Lost(StoreError::Machine {
            operated: Operated::Write,
            offset,
            bytes: bytes.len(),
            source: errno.into(),
        })
    };
    let mut done = 0;
    while done < bytes.len() {
        let (rest, at) = (&bytes[done..], offset + done as u64);
        match file.write_synced(rest, at) {
            Ok(0) => return Err(refused(io::ErrorKind::WriteZero.into())),
            Ok(written) => done += written,
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => {
                file.write_cached(rest, at).map_err(refused)?;
                return sync(file);
            }
            // Either the file system has refused this write, or the medium has refused an earlier
            // one. The witness knows of the latter.
            Err(errno @ (Errno::NOSPC | Errno::DQUOT)) => {
                return Err(match file.sync_witness() {
                    Ok(()) => refused(errno.into()),
                    Err(_) => lost(errno),
                });
            }
            // It does not tell what failed, writing or synchronizing: assume the worse.
            Err(errno) => return Err(lost(errno)),
        }
    }
    Ok(())
}

/// Brings all that was written to the medium. Whatever fails, ENOSPC too, is about data that was
/// written before.
///
/// # Errors
/// [`SyncError::Lost`].
pub fn sync(file: &impl SyncedFile) -> Result<(), SyncError> {
    file.sync().map_err(|errno| {
        SyncError::Lost(StoreError::Machine {
            operated: Operated::Flush,
            offset: 0,
            bytes: 0,
            source: errno.into(),
        })
    })
}

/// The syncs of one file: those that are in the kernel, and whether any has lost data.
///
/// They run in parallel. One that succeeded is believed only when all that began before it returned
/// have returned too, because one of those may have been given an error that concerns both.
///
/// For each: [`begin`](Self::begin), the system calls, [`returned`](Self::returned), and, if they
/// succeeded, [`verdict`](Self::verdict) until there is one.
#[derive(Debug, Default)]
pub struct SyncOrder {
    lost: bool,
    /// Syncs that ever began.
    begun: u64,
    /// The numbers of those that have not returned, in ascending order.
    numbers: Vec<u64>,
}

impl SyncOrder {
    /// Whether acknowledged data has been lost.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.lost
    }

    /// A sync begins; gives its number.
    ///
    /// # Errors
    /// [`StoreError::Lost`] once data has been lost.
    pub fn begin(&mut self) -> Result<u64, StoreError> {
        if self.lost {
            return Err(StoreError::Lost);
        }
        let number = self.begun;
        self.begun += 1;
        self.numbers.push(number);
        Ok(number)
    }

    /// The sync with that number has returned from the kernel, and may have `lost` data. Returns
    /// the value to pass to [`verdict`](Self::verdict).
    pub fn returned(&mut self, number: u64, lost: bool) -> u64 {
        self.lost |= lost;
        self.numbers.retain(|other| *other != number);
        self.begun
    }

    /// The oldest sync that is in the kernel.
    #[must_use]
    pub fn oldest(&self) -> Option<u64> {
        self.numbers.first().copied()
    }

    /// Whether a sync that returned when `begun` had begun has brought its data to the medium;
    /// `None` while one that began before that is in the kernel.
    #[must_use]
    pub fn verdict(&self, begun: u64) -> Option<Result<(), StoreError>> {
        if self.oldest().is_some_and(|oldest| oldest < begun) {
            return None;
        }
        Some(match self.lost {
            true => Err(StoreError::Lost),
            false => Ok(()),
        })
    }
}
