//! The medium of a logical unit: a file whose store follows the rules of [`FileStore`], over a page cache and disk with
//! faults.
//!
//! [`FileStore`]: wansan_san::store::FileStore

use std::sync::{Mutex, MutexGuard, PoisonError};

use wansan_san::store::durability::{self, SyncError, SyncOrder};
use wansan_san::store::{Extent, Operated, Store, StoreError};

use crate::block::{BLOCK_BYTES, word_of};
use crate::page_cache::{FailureRates, Landing, Opened, PageCache};

/// The store of a unit.
///
/// As a [`Store`] it executes an operation at one instant, and a sync only while no other one
/// [runs](Medium::syncs). To tear an operation, a caller moves blocks one by one with
/// [`Medium::land`] and [`Medium::fetch`], and takes the steps of a sync one after the other with
/// [`Medium::begin_sync`], [`Medium::flush_now`] or [`Medium::write_now`], [`Medium::returned`] and
/// [`Medium::verdict`].
#[derive(Debug)]
pub(crate) struct Medium {
    blocks: usize,
    /// There is no volatile cache: every write goes through to the disk.
    writes_through: bool,
    file: Mutex<File>,
}

#[derive(Debug)]
struct File {
    cache: PageCache,
    order: SyncOrder,
}

/// A sync that has begun.
#[derive(Debug, Clone)]
pub(crate) struct Sync {
    number: u64,
    /// The blocks that it must write to the disk.
    dirty: Vec<u32>,
    /// The file system has no space for its data.
    pub(crate) full: bool,
}

impl Medium {
    pub(crate) fn new(
        blocks: usize,
        rates: FailureRates,
        writes_through: bool,
        seed: u64,
    ) -> Medium {
        Medium {
            blocks,
            writes_through,
            file: Mutex::new(File {
                cache: PageCache::new(blocks, rates, seed),
                order: SyncOrder::default(),
            }),
        }
    }

    fn lock(&self) -> MutexGuard<'_, File> {
        self.file.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether there is no volatile cache.
    pub(crate) fn writes_through(&self) -> bool {
        self.writes_through
    }

    /// Checks whether a write into the cache may begin.
    pub(crate) fn begin_write(&self, offset: u64, bytes: usize) -> Result<(), StoreError> {
        self.lock().begin_write(offset, bytes)
    }

    /// Checks whether a read may begin.
    pub(crate) fn begin_read(&self, offset: u64, bytes: usize) -> Result<(), StoreError> {
        let cache = &mut self.lock().cache;
        let rate = cache.rates.read;
        if cache.fails(rate) {
            return Err(StoreError::Machine {
                operated: Operated::Read,
                offset,
                bytes,
                source: rustix::io::Errno::IO.into(),
            });
        }
        Ok(())
    }

    /// Writes one block.
    pub(crate) fn land(&self, lba: usize, block: &[u8]) {
        let cache = &mut self.lock().cache;
        cache.land(lba, block);
        if self.writes_through {
            cache.harden(lba);
        }
    }

    /// Reads one block.
    pub(crate) fn fetch(&self, lba: usize, into: &mut [u8]) {
        into.copy_from_slice(self.lock().cache.block(lba));
    }

    /// Begins a flush or, if it `writes`, a write with FUA.
    pub(crate) fn begin_sync(&self, writes: bool) -> Result<Sync, StoreError> {
        let mut file = self.lock();
        let number = file.order.begin()?;
        let rate = file.cache.rates.no_space;
        Ok(Sync {
            number,
            dirty: file.cache.dirty(),
            full: writes && file.cache.fails(rate),
        })
    }

    /// The kernel's result of a flush.
    pub(crate) fn flush_now(&self, sync: &Sync) -> Result<(), SyncError> {
        durability::sync(&Opened {
            dirty: sync.dirty.clone(),
            ..Opened::now(&mut self.lock().cache)
        })
    }

    /// The kernel's result of a write with FUA whose blocks have landed.
    pub(crate) fn write_now(
        &self,
        sync: &Sync,
        offset: u64,
        bytes: &[u8],
    ) -> Result<(), SyncError> {
        let cache = &mut self.lock().cache;
        let opened = Opened {
            full: sync.full,
            landed: true,
            ..Opened::now(cache)
        };
        durability::write_synced(&opened, offset, bytes)
    }

    /// A sync has returned from the kernel. Returns the argument for [`Medium::verdict`].
    pub(crate) fn returned(&self, sync: &Sync, result: &Result<(), SyncError>) -> u64 {
        let lost = matches!(result, Err(SyncError::Lost(_)));
        self.lock().order.returned(sync.number, lost)
    }

    /// The verdict on a sync that has returned; `None` while earlier syncs are in the kernel.
    pub(crate) fn verdict(&self, begun: u64) -> Option<Result<(), StoreError>> {
        self.lock().order.verdict(begun)
    }

    /// Whether any sync is in the kernel.
    pub(crate) fn syncs(&self) -> bool {
        self.lock().order.oldest().is_some()
    }

    /// Number of times that written data was lost.
    pub(crate) fn losses(&self) -> u64 {
        self.lock().cache.losses()
    }

    /// The number of failed operations, and whether data were lost since the target started.
    pub(crate) fn faults(&self) -> (u64, bool) {
        let cache = &self.lock().cache;
        (cache.faults, cache.has_lost)
    }

    /// The target restarts: after a power loss, any subset of the unflushed blocks may be lost.
    pub(crate) fn restart(&self, power_lost: bool) {
        let file = &mut *self.lock();
        file.order = SyncOrder::default();
        file.cache.reopen(power_lost);
    }

    /// Takes the changes since the last call.
    pub(crate) fn take_landings(&self, into: &mut Vec<Landing>) {
        self.lock().cache.take_landings(into);
    }
}

impl File {
    fn begin_write(&mut self, offset: u64, bytes: usize) -> Result<(), StoreError> {
        if self.order.is_lost() {
            return Err(StoreError::Lost);
        }
        let rate = self.cache.rates.no_space;
        if self.cache.fails(rate) {
            return Err(StoreError::NoSpace { offset, bytes });
        }
        Ok(())
    }

    /// Executes a sync at one instant.
    fn sync(
        &mut self,
        call: impl FnOnce(&Opened<'_>) -> Result<(), SyncError>,
    ) -> Result<(), StoreError> {
        let number = self.order.begin()?;
        let result = call(&Opened::now(&mut self.cache));
        let lost = matches!(result, Err(SyncError::Lost(_)));
        let begun = self.order.returned(number, lost);
        result?;
        self.order.verdict(begun).unwrap_or(Err(StoreError::Lost))
    }

    /// Writes into the cache, or through it.
    fn write(
        &mut self,
        offset: u64,
        bytes: &[u8],
        fua: bool,
        through: bool,
    ) -> Result<(), StoreError> {
        if fua && !through {
            return self.sync(|opened| durability::write_synced(opened, offset, bytes));
        }
        for (lba, block) in blocks_of(offset, bytes.len()).zip(bytes.chunks(BLOCK_BYTES)) {
            self.cache.land(lba, block);
            if through {
                self.cache.harden(lba);
            }
        }
        Ok(())
    }
}

/// The blocks of a block-aligned byte range.
fn blocks_of(offset: u64, bytes: usize) -> core::ops::Range<usize> {
    let first = offset as usize / BLOCK_BYTES;
    first..first + bytes / BLOCK_BYTES
}

impl Store for Medium {
    fn size_bytes(&self) -> u64 {
        (self.blocks * BLOCK_BYTES) as u64
    }

    fn read_at(&self, offset: u64, dst: &mut [u8]) -> Result<(), StoreError> {
        self.begin_read(offset, dst.len())?;
        let file = self.lock();
        let first = offset as usize;
        dst.copy_from_slice(file.cache.bytes(first..first + dst.len()));
        Ok(())
    }

    fn write_at(&self, offset: u64, src: &[u8], fua: bool) -> Result<(), StoreError> {
        let mut file = self.lock();
        file.begin_write(offset, src.len())?;
        file.write(offset, src, fua, self.writes_through)
    }

    fn flush(&self) -> Result<(), StoreError> {
        self.lock().sync(|opened| durability::sync(opened))
    }

    fn update(
        &self,
        offset: u64,
        len: usize,
        fua: bool,
        change: &mut dyn FnMut(&mut [u8]) -> bool,
    ) -> Result<(), StoreError> {
        let mut file = self.lock();
        file.begin_write(offset, len)?;
        let first = offset as usize;
        let mut bytes = file.cache.bytes(first..first + len).to_vec();
        match change(&mut bytes) {
            true => file.write(offset, &bytes, fua, self.writes_through),
            false => Ok(()),
        }
    }

    fn deallocate(&self, offset: u64, len: u64) -> Result<(), StoreError> {
        let mut file = self.lock();
        file.begin_write(offset, len as usize)?;
        for lba in blocks_of(offset, len as usize) {
            file.cache.land(lba, &[0; BLOCK_BYTES]);
            if self.writes_through {
                file.cache.harden(lba);
            }
        }
        Ok(())
    }

    fn extent_at(&self, offset: u64) -> Result<Extent, StoreError> {
        let file = self.lock();
        let first = offset as usize / BLOCK_BYTES;
        // Zeroed blocks count as deallocated, whoever wrote the zeros.
        let is_allocated = |lba: usize| word_of(file.cache.block(lba)) != 0;
        let allocated = is_allocated(first);
        let mut rest = first..self.blocks;
        let end = rest.find(|lba| is_allocated(*lba) != allocated);
        Ok(Extent {
            allocated,
            end: (end.unwrap_or(self.blocks) * BLOCK_BYTES) as u64,
        })
    }

    fn is_memory(&self) -> bool {
        false
    }
}
