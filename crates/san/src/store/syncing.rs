//! Writing a file's data to the medium with Linux's system calls, from several threads at once.

use std::fmt;
use std::fs::File;
use std::io::{self, IoSlice};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use rustix::io::{Errno, ReadWriteFlags, retry_on_intr};

use super::StoreError;
use super::durability::{SyncError, SyncOrder, SyncedFile};

/// The system calls that write data to the medium. Tests have a kernel that fails by schedule.
pub(super) trait SyncCalls: fmt::Debug + Send + Sync {
    /// Writes some of `bytes` at `offset`, to the medium, and returns how many.
    fn write_synced(&self, file: &File, bytes: &[u8], offset: u64) -> Result<usize, Errno>;

    /// Writes all of `file`'s data to the medium.
    fn sync(&self, file: &File) -> Result<(), Errno>;
}

/// Linux's system calls.
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

/// A file with two open file descriptions.
pub(super) struct TwiceOpened<'a> {
    pub(super) file: &'a File,
    pub(super) witness: &'a File,
    pub(super) calls: &'a dyn SyncCalls,
}

impl SyncedFile for TwiceOpened<'_> {
    fn write_synced(&self, bytes: &[u8], offset: u64) -> Result<usize, Errno> {
        self.calls.write_synced(self.file, bytes, offset)
    }

    fn write_cached(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_all_at(bytes, offset)
    }

    fn sync(&self) -> Result<(), Errno> {
        self.calls.sync(self.file)
    }

    fn sync_witness(&self) -> Result<(), Errno> {
        self.calls.sync(self.witness)
    }
}

/// The [`SyncOrder`] of a file, shared by threads.
#[derive(Debug, Default)]
pub(super) struct Syncs {
    /// Set under the lock of `order`.
    lost: AtomicBool,
    order: Mutex<SyncOrder>,
    oldest_ended: Condvar,
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
    /// The error of `sync`, or [`StoreError::Lost`] when another one has lost data.
    pub(super) fn run(
        &self,
        sync: impl FnOnce() -> Result<(), SyncError>,
    ) -> Result<(), StoreError> {
        let number = self.lock().begin()?;
        let result = sync();
        let mut order = self.lock();
        let was_oldest = order.oldest() == Some(number);
        let begun = order.returned(number, matches!(result, Err(SyncError::Lost(_))));
        self.lost.store(order.is_lost(), Ordering::Relaxed);
        if was_oldest {
            self.oldest_ended.notify_all();
        }
        result?;
        loop {
            if let Some(verdict) = order.verdict(begun) {
                return verdict;
            }
            let waited = self.oldest_ended.wait(order);
            order = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// No code that panics runs under this lock.
    fn lock(&self) -> MutexGuard<'_, SyncOrder> {
        self.order.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
