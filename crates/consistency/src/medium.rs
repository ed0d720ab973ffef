//! The medium of a logical unit: what is in the volatile cache and what is on the disk.

use std::sync::{Mutex, MutexGuard, PoisonError};

use wansan_san::store::{Extent, Operated, Store, StoreError};

use crate::random::Random;

/// Size of a logical block, and the unit in which writes are torn.
pub(crate) const BLOCK_BYTES: usize = 512;

/// How often operations fail, per mille.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub struct FailureRates {
    /// Reads that fail with EIO.
    pub read: u16,
    /// Writes that fail with ENOSPC.
    pub no_space: u16,
    /// Flushes that fail with EIO.
    pub flush: u16,
}

/// A store with a volatile cache in front of a disk. It forgets at a power loss any part of what was
/// not flushed, and loses data at a failed flush as Linux does: blocks count as clean and are read
/// from the disk again.
///
/// As a [`Store`] it carries an operation out at one instant; who wants it torn moves blocks one by
/// one with [`Medium::land`] and [`Medium::fetch`].
#[derive(Debug)]
pub(crate) struct Medium {
    blocks: usize,
    /// There is no volatile cache: every write goes through to the disk.
    writes_through: bool,
    image: Mutex<Image>,
}

/// A block that has changed, and what it says now.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Landing {
    pub(crate) lba: u32,
    pub(crate) word: u64,
}

#[derive(Debug)]
struct Image {
    /// What reads return.
    volatile: Vec<u8>,
    /// What survives a power loss.
    durable: Vec<u8>,
    /// Blocks that differ, or may.
    dirty: Vec<bool>,
    /// A flush has failed: nothing is written any more.
    lost: bool,
    rates: FailureRates,
    random: Random,
    landings: Vec<Landing>,
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
            image: Mutex::new(Image {
                volatile: vec![0; blocks * BLOCK_BYTES],
                durable: vec![0; blocks * BLOCK_BYTES],
                dirty: vec![false; blocks],
                lost: false,
                rates,
                random: Random::new(seed),
                landings: Vec::new(),
            }),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Image> {
        self.image.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a write may begin.
    pub(crate) fn begin_write(&self, offset: u64, bytes: usize) -> Result<(), StoreError> {
        self.lock().begin_write(offset, bytes)
    }

    /// Whether a read may begin.
    pub(crate) fn begin_read(&self, offset: u64, bytes: usize) -> Result<(), StoreError> {
        let mut image = self.lock();
        let rate = image.rates.read;
        if image.random.per_mille(rate) {
            return Err(failed(Operated::Read, offset, bytes));
        }
        Ok(())
    }

    /// Writes one block.
    pub(crate) fn land(&self, lba: usize, block: &[u8]) {
        let mut image = self.lock();
        image.land(lba, block);
        if self.writes_through {
            image.harden(lba);
        }
    }

    /// Reads one block.
    pub(crate) fn fetch(&self, lba: usize, into: &mut [u8]) {
        into.copy_from_slice(self.lock().block(lba));
    }

    /// The blocks that a flush that begins now has to bring to the disk.
    pub(crate) fn begin_flush(&self) -> Vec<u32> {
        let image = self.lock();
        let dirty = image.dirty.iter().zip(0..).filter(|(dirty, _)| **dirty);
        dirty.map(|(_, lba)| lba).collect()
    }

    /// Ends a flush of these blocks.
    pub(crate) fn end_flush(&self, blocks: &[u32]) -> Result<(), StoreError> {
        let mut image = self.lock();
        if image.lost {
            return Err(StoreError::Lost);
        }
        let rate = image.rates.flush;
        if !blocks.is_empty() && image.random.per_mille(rate) {
            image.lose();
            return Err(failed(Operated::Flush, 0, 0));
        }
        for &lba in blocks {
            image.harden(lba as usize);
        }
        Ok(())
    }

    /// Ends a write with FUA of the blocks from `lba` on: they are on the disk.
    pub(crate) fn harden(&self, lba: usize, blocks: usize) -> Result<(), StoreError> {
        let mut image = self.lock();
        if image.lost {
            return Err(StoreError::Lost);
        }
        for lba in lba..lba + blocks {
            image.harden(lba);
        }
        Ok(())
    }

    /// Whether acknowledged data may have been lost since the last restart.
    pub(crate) fn is_lost(&self) -> bool {
        self.lock().lost
    }

    /// The target starts again: after a power loss, any part of what was not flushed is gone.
    pub(crate) fn restart(&self, power_lost: bool) {
        let mut image = self.lock();
        let image = &mut *image;
        for lba in 0..self.blocks {
            if power_lost && image.dirty[lba] && image.random.one_in(2) {
                let range = lba * BLOCK_BYTES..(lba + 1) * BLOCK_BYTES;
                image.volatile[range.clone()].copy_from_slice(&image.durable[range]);
            }
        }
        if power_lost {
            image.durable.copy_from_slice(&image.volatile);
            image.dirty.fill(false);
        }
        image.lost = false;
    }

    /// What has changed since the last call.
    pub(crate) fn take_landings(&self, into: &mut Vec<Landing>) {
        into.append(&mut self.lock().landings);
    }
}

/// EIO.
fn failed(operated: Operated, offset: u64, bytes: usize) -> StoreError {
    StoreError::Machine {
        operated,
        offset,
        bytes,
        source: std::io::Error::from_raw_os_error(5),
    }
}

impl Image {
    fn block(&self, lba: usize) -> &[u8] {
        &self.volatile[lba * BLOCK_BYTES..(lba + 1) * BLOCK_BYTES]
    }

    fn begin_write(&mut self, offset: u64, bytes: usize) -> Result<(), StoreError> {
        if self.lost {
            return Err(StoreError::Lost);
        }
        if self.random.per_mille(self.rates.no_space) {
            return Err(StoreError::NoSpace { offset, bytes });
        }
        Ok(())
    }

    fn land(&mut self, lba: usize, block: &[u8]) {
        // The kernel may write a block back at any time, so each of its versions may be the one
        // that survives.
        if self.dirty[lba] && self.random.one_in(4) {
            self.harden(lba);
        }
        self.volatile[lba * BLOCK_BYTES..(lba + 1) * BLOCK_BYTES].copy_from_slice(block);
        self.dirty[lba] = true;
        self.landings.push(Landing {
            lba: lba as u32,
            word: word_of(block),
        });
    }

    fn harden(&mut self, lba: usize) {
        let range = lba * BLOCK_BYTES..(lba + 1) * BLOCK_BYTES;
        self.durable[range.clone()].copy_from_slice(&self.volatile[range]);
        self.dirty[lba] = false;
    }

    /// Write-back has failed: blocks count as clean, and some are read from the disk again.
    fn lose(&mut self) {
        self.lost = true;
        for lba in 0..self.dirty.len() {
            if std::mem::take(&mut self.dirty[lba]) && self.random.one_in(2) {
                let range = lba * BLOCK_BYTES..(lba + 1) * BLOCK_BYTES;
                self.volatile[range.clone()].copy_from_slice(&self.durable[range]);
            }
        }
    }
}

/// The first word of a block.
pub(crate) fn word_of(block: &[u8]) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&block[..8]);
    u64::from_be_bytes(word)
}

/// The blocks of a range of bytes, which has whole ones.
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
        let image = self.lock();
        for (lba, into) in blocks_of(offset, dst.len()).zip(dst.chunks_mut(BLOCK_BYTES)) {
            into.copy_from_slice(image.block(lba));
        }
        Ok(())
    }

    fn write_at(&self, offset: u64, src: &[u8], fua: bool) -> Result<(), StoreError> {
        let mut image = self.lock();
        image.begin_write(offset, src.len())?;
        for (lba, block) in blocks_of(offset, src.len()).zip(src.chunks(BLOCK_BYTES)) {
            image.land(lba, block);
            if fua || self.writes_through {
                image.harden(lba);
            }
        }
        Ok(())
    }

    fn flush(&self) -> Result<(), StoreError> {
        let blocks = self.begin_flush();
        self.end_flush(&blocks)
    }

    fn update(
        &self,
        offset: u64,
        len: usize,
        fua: bool,
        change: &mut dyn FnMut(&mut [u8]) -> bool,
    ) -> Result<(), StoreError> {
        let mut image = self.lock();
        image.begin_write(offset, len)?;
        let range = offset as usize..offset as usize + len;
        let mut bytes = image.volatile[range].to_vec();
        if change(&mut bytes) {
            for (lba, block) in blocks_of(offset, len).zip(bytes.chunks(BLOCK_BYTES)) {
                image.land(lba, block);
                if fua || self.writes_through {
                    image.harden(lba);
                }
            }
        }
        Ok(())
    }

    fn deallocate(&self, offset: u64, len: u64) -> Result<(), StoreError> {
        let mut image = self.lock();
        image.begin_write(offset, len as usize)?;
        for lba in blocks_of(offset, len as usize) {
            image.land(lba, &[0; BLOCK_BYTES]);
            if self.writes_through {
                image.harden(lba);
            }
        }
        Ok(())
    }

    fn extent_at(&self, offset: u64) -> Result<Extent, StoreError> {
        let image = self.lock();
        let first = offset as usize / BLOCK_BYTES;
        // Blocks of zeros count as deallocated, however they came to be.
        let is_allocated = |lba: usize| word_of(image.block(lba)) != 0;
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
