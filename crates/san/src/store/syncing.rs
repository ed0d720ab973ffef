//! Bringing a file's data to the medium, and knowing when that can no longer be promised.
//!
//! Linux reports a failed write-back once to each open file description (`errseq_t`,
//! Documentation/core-api/errseq.rst), at the next fdatasync or synchronous write on it, and a failed
//! cache flush of the device only to the call that asked for it. Whichever call takes the error, it may
//! be about data that another call was to bring to the medium.

use std::fmt;
use std::fs::File;
use std::io::IoSlice;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use rustix::io::{Errno, ReadWriteFlags, retry_on_intr};

use super::StoreError;

/// The system calls that bring data to the medium. Tests have a kernel that fails by schedule.
pub(super) trait SyncCalls: fmt::Debug + Send + Sync {
    /// Writes some of `bytes` from `offset` on, to the medium, and says how many.
    fn write_synced(&self, file: &File, bytes: &[u8], offset: u64) -> Result<usize, Errno>;

    /// Brings all of `file`'s data to the medium.
    fn sync(&self, file: &File) -> Result<(), Errno>;
}

/// Those of Linux.
#[derive(Debug)]
pub(super) struct Linux;

impl SyncCalls for Linux {
    fn write_synced(&self, file: &File, bytes: &[u8], offset: u64) -> Result<usize, Errno> {
        let bytes = [IoSlice::new(bytes)];
        retry_on_intr(|| rustix::io::pwritev2(file, &bytes, offset, ReadWriteFlags::DSYNC))
    }

    fn sync(&self, file: &File) -> Result<(), Errno> {
        retry_on_intr(|| rustix::fs::fdatasync(file))
    }
}

/// Why a sync failed.
#[derive(Debug)]
pub(super) enum SyncError {
    /// The write was refused, and nothing else was harmed.
    Refused(StoreError),
    /// Acknowledged data may not have reached the medium, and never will.
    Lost(StoreError),
}

/// The syncs of one file: those that are in the kernel, and whether any has lost data.
///
/// They run in parallel. One that succeeded is believed only when all that began before it returned
/// have returned too, because one of those may have been given an error that concerns both.
#[derive(Debug, Default)]
pub(super) struct Syncs {
    /// Set under the lock of `running`.
    lost: AtomicBool,
    running: Mutex<Running>,
    oldest_ended: Condvar,
}

#[derive(Debug, Default)]
struct Running {
    /// Syncs that ever began.
    begun: u64,
    /// The numbers of those that have not returned, in ascending order.
    numbers: Vec<u64>,
}

impl Syncs {
    /// Fails once data has been lost.
    ///
    /// # Errors
    /// [`StoreError::Lost`].
    pub(super) fn check(&self) -> Result<(), StoreError> {
        match self.lost.load(Ordering::Relaxed) {
            true => Err(StoreError::Lost),
            false => Ok(()),
        }
    }

    /// Runs `sync`, unless data has been lost. May block.
    ///
    /// # Errors
    /// That of `sync`, or [`StoreError::Lost`] when another one has lost data.
    pub(super) fn run(
        &self,
        sync: impl FnOnce() -> Result<(), SyncError>,
    ) -> Result<(), StoreError> {
        let number = self.begin()?;
        let result = sync();
        let mut running = self.lock();
        let was_oldest = running.numbers.first() == Some(&number);
        running.numbers.retain(|other| *other != number);
        if matches!(result, Err(SyncError::Lost(_))) {
            self.lost.store(true, Ordering::Relaxed);
        }
        if was_oldest {
            self.oldest_ended.notify_all();
        }
        result.map_err(|error| match error {
            SyncError::Refused(error) | SyncError::Lost(error) => error,
        })?;
        let begun = running.begun;
        while running
            .numbers
            .first()
            .is_some_and(|oldest| *oldest < begun)
        {
            running = self
                .oldest_ended
                .wait(running)
                .unwrap_or_else(PoisonError::into_inner);
        }
        self.check()
    }

    fn begin(&self) -> Result<u64, StoreError> {
        let mut running = self.lock();
        self.check()?;
        let number = running.begun;
        running.begun += 1;
        running.numbers.push(number);
        Ok(number)
    }

    /// Nothing that panics runs under it.
    fn lock(&self) -> MutexGuard<'_, Running> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
