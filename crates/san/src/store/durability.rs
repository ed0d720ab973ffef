//! When data counts as on the medium, given that the kernel reports an error to whichever call comes first.
//!
//! Linux reports a failed write-back once to each open file description (`errseq_t`,
//! Documentation/core-api/errseq.rst), at the next fdatasync or synchronous write on it, and a failed cache flush of
//! the device only to the call that requested it. The call that gets the error may not be the one that was to write the
//! data concerned to the medium.
//!
//! This module neither blocks nor accesses files: [`FileStore`](super::FileStore) applies it to Linux's system calls,
//! and a simulation to a model of them.

use std::io;

use rustix::io::Errno;

use super::{Operated, StoreError};

/// The system calls on one file that write data to its medium.
pub trait SyncedFile {
    /// Writes some of `bytes` at `offset`, to the medium, and returns how many.
    ///
    /// # Errors
    /// Its own, or that of an earlier write-back.
    fn write_synced(&self, bytes: &[u8], offset: u64) -> Result<usize, Errno>;

    /// Writes all of `bytes` at `offset`, into the cache.
    ///
    /// # Errors
    /// Its own.
    fn write_cached(&self, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// Writes all data to the medium.
    ///
    /// # Errors
    /// Its own, or that of an earlier write-back.
    fn sync(&self) -> Result<(), Errno>;

    /// The same through another open file description, which still reports errors already consumed by a synchronous
    /// write.
    ///
    /// # Errors
    /// Its own, or that of an earlier write-back.
    fn sync_witness(&self) -> Result<(), Errno>;
}

/// Why writing data to the medium failed.
#[derive(Debug)]
pub enum SyncError {
    /// The write was rejected; no other data is affected.
    Refused(StoreError),
    /// Acknowledged data may not be on the medium, and never will be.
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
/// Whether the write was rejected or acknowledged data is lost.
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
            // Either the file system rejected this write, or the medium an earlier one. The witness reports the latter.
            Err(errno @ (Errno::NOSPC | Errno::DQUOT)) => {
                return Err(match file.sync_witness() {
                    Ok(()) => refused(errno.into()),
                    Err(_) => lost(errno),
                });
            }
            // It is unknown whether writing or synchronizing failed: assume the worse.
            Err(errno) => return Err(lost(errno)),
        }
    }
    Ok(())
}

/// Writes all earlier data to the medium. Any error, even ENOSPC, concerns data written before.
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

/// The syncs of one file: those in the kernel, and whether any has lost data.
///
/// They run in parallel. A successful sync counts only after all syncs that began before it returned have returned too,
/// because one of those may have got an error that concerns both.
///
/// For each: [`begin`](Self::begin), the system calls, [`returned`](Self::returned), and, if they succeeded,
/// [`verdict`](Self::verdict) until it returns one.
#[derive(Debug, Default)]
pub struct SyncOrder {
    lost: bool,
    /// Syncs begun so far.
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

    /// Begins a sync; returns its number.
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

    /// The sync with that number has returned from the kernel, and may have `lost` data. Returns the value to pass to
    /// [`verdict`](Self::verdict).
    pub fn returned(&mut self, number: u64, lost: bool) -> u64 {
        self.lost |= lost;
        self.numbers.retain(|other| *other != number);
        self.begun
    }

    /// The oldest sync in the kernel.
    #[must_use]
    pub fn oldest(&self) -> Option<u64> {
        self.numbers.first().copied()
    }

    /// Whether a sync that returned when `begun` had begun has written its data to the medium; `None` while one that
    /// began before that is in the kernel.
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
