//! A model of a file in Linux's page cache, on a faulty disk.

use wansan_san::store::durability::SyncedFile;

use core::cell::RefCell;
use std::io;

use rustix::io::Errno;

use crate::block::{BLOCK_BYTES, word_of};
use crate::random::Random;

/// Open file descriptions of a file: the store's own, and the witness.
const DESCRIPTIONS: usize = 2;
const OWN: usize = 0;
const WITNESS: usize = 1;

/// Failure rates of operations, per mille.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub struct FailureRates {
    /// Reads that fail with EIO.
    pub read: u16,
    /// Writes that fail with ENOSPC.
    pub no_space: u16,
    /// Flushes whose write-back fails with EIO or ENOSPC; other write-backs fail less often.
    pub flush: u16,
}

/// A block that has changed, with its first word now.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Landing {
    pub(crate) lba: u32,
    pub(crate) word: u64,
}

/// Blocks in the cache and on the disk.
///
/// The kernel may write a block back at any time. A failed write-back is handled as in Linux: the block is marked clean
/// and may be reread from the disk, and each open file description reports the error once
/// (Documentation/core-api/errseq.rst).
#[derive(Debug)]
pub(crate) struct PageCache {
    /// What reads return.
    cached: Vec<u8>,
    /// What survives a power loss.
    durable: Vec<u8>,
    states: Vec<State>,
    /// Failed write-backs, and the error of the last one.
    failures: u64,
    failure: Errno,
    /// How many of them each open file description has reported.
    reported: [u64; DESCRIPTIONS],
    /// Failed operations, and whether they lost data since the file was opened.
    pub(crate) faults: u64,
    pub(crate) has_lost: bool,
    pub(crate) rates: FailureRates,
    pub(crate) random: Random,
    landings: Vec<Landing>,
}

/// The state of a block in the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Clean,
    Dirty,
    /// Its write-back has failed, and it is still in the cache.
    Lost,
}

impl PageCache {
    pub(crate) fn new(blocks: usize, rates: FailureRates, seed: u64) -> PageCache {
        PageCache {
            cached: vec![0; blocks * BLOCK_BYTES],
            durable: vec![0; blocks * BLOCK_BYTES],
            states: vec![State::Clean; blocks],
            failures: 0,
            failure: Errno::IO,
            reported: [0; DESCRIPTIONS],
            faults: 0,
            has_lost: false,
            rates,
            random: Random::new(seed),
            landings: Vec::new(),
        }
    }

    pub(crate) fn block(&self, lba: usize) -> &[u8] {
        &self.cached[lba * BLOCK_BYTES..(lba + 1) * BLOCK_BYTES]
    }

    pub(crate) fn bytes(&self, range: core::ops::Range<usize>) -> &[u8] {
        &self.cached[range]
    }

    /// Writes a block into the cache.
    pub(crate) fn land(&mut self, lba: usize, block: &[u8]) {
        // Any version of a block may survive a power loss.
        if self.states[lba] == State::Dirty && self.random.one_in(4) {
            self.write_back(&[lba as u32], self.rates.flush / 8);
        }
        self.cached[lba * BLOCK_BYTES..(lba + 1) * BLOCK_BYTES].copy_from_slice(block);
        self.states[lba] = State::Dirty;
        self.landings.push(Landing {
            lba: lba as u32,
            word: word_of(block),
        });
    }

    /// The cache is written through: the block is on the disk.
    pub(crate) fn harden(&mut self, lba: usize) {
        let range = lba * BLOCK_BYTES..(lba + 1) * BLOCK_BYTES;
        self.durable[range.clone()].copy_from_slice(&self.cached[range]);
        self.states[lba] = State::Clean;
    }

    fn read_again(&mut self, lba: usize) {
        let range = lba * BLOCK_BYTES..(lba + 1) * BLOCK_BYTES;
        self.cached[range.clone()].copy_from_slice(&self.durable[range]);
        self.states[lba] = State::Clean;
    }

    /// The dirty blocks.
    pub(crate) fn dirty(&self) -> Vec<u32> {
        let states = self.states.iter().zip(0..);
        let dirty = states.filter(|(state, _)| **state == State::Dirty);
        dirty.map(|(_, lba)| lba).collect()
    }

    /// Writes back the dirty ones among `blocks`, failing `rate` times in 1000.
    fn write_back(&mut self, blocks: &[u32], rate: u16) {
        let is_dirty = |lba: &&u32| self.states[**lba as usize] == State::Dirty;
        let dirty: Vec<usize> = blocks
            .iter()
            .filter(is_dirty)
            .map(|lba| *lba as usize)
            .collect();
        if dirty.is_empty() || !self.random.per_mille(rate) {
            for lba in dirty {
                self.harden(lba);
            }
            return;
        }
        self.failures += 1;
        self.failure = self.random.pick(&[Errno::IO, Errno::NOSPC]);
        for lba in dirty {
            self.states[lba] = State::Lost;
            if self.random.one_in(2) {
                self.read_again(lba);
            }
        }
    }

    /// Reports an error to an open file description, if there is a new one.
    fn report(&mut self, description: usize) -> Result<(), Errno> {
        let reported = std::mem::replace(&mut self.reported[description], self.failures);
        if reported == self.failures {
            return Ok(());
        }
        self.faults += 1;
        self.has_lost = true;
        Err(self.failure)
    }

    /// Decides whether an operation fails, `rate` times in 1000.
    pub(crate) fn fails(&mut self, rate: u16) -> bool {
        let fails = self.random.per_mille(rate);
        self.faults += u64::from(fails);
        fails
    }

    /// Number of times that written data was lost.
    pub(crate) fn losses(&self) -> u64 {
        self.failures
    }

    /// Reopens the file; after a power loss, any subset of the blocks not on the disk is lost.
    pub(crate) fn reopen(&mut self, power_lost: bool) {
        self.has_lost = false;
        // The next opener of the file reports an unreported error.
        let seen = self.reported.iter().max().copied().unwrap_or_default();
        self.reported = [seen.max(self.failures.saturating_sub(1)); DESCRIPTIONS];
        if !power_lost {
            return;
        }
        for lba in 0..self.states.len() {
            if self.states[lba] != State::Clean && self.random.one_in(2) {
                self.read_again(lba);
            }
        }
        self.durable.copy_from_slice(&self.cached);
        self.states.fill(State::Clean);
        self.reported = [self.failures; DESCRIPTIONS];
    }

    /// Takes the changes since the last call.
    pub(crate) fn take_landings(&mut self, into: &mut Vec<Landing>) {
        into.append(&mut self.landings);
    }
}

/// The system calls on the file.
pub(crate) struct Opened<'a> {
    pub(crate) cache: RefCell<&'a mut PageCache>,
    /// The blocks that a sync must write to the disk: those that were dirty when it began.
    pub(crate) dirty: Vec<u32>,
    /// The file system has no room for the write.
    pub(crate) full: bool,
    /// The write has already landed in the cache, block by block.
    pub(crate) landed: bool,
}

impl<'a> Opened<'a> {
    /// For a call that executes at one instant.
    pub(crate) fn now(cache: &'a mut PageCache) -> Opened<'a> {
        Opened {
            dirty: cache.dirty(),
            cache: RefCell::new(cache),
            full: false,
            landed: false,
        }
    }
}

impl SyncedFile for Opened<'_> {
    fn write_synced(&self, bytes: &[u8], offset: u64) -> Result<usize, Errno> {
        if self.full {
            return Err(Errno::NOSPC);
        }
        if !self.landed {
            self.write_cached(bytes, offset).map_err(|_| Errno::NOSPC)?;
        }
        let first = offset as u32 / BLOCK_BYTES as u32;
        let written: Vec<u32> = (first..).take(bytes.len() / BLOCK_BYTES).collect();
        let mut cache = self.cache.borrow_mut();
        let rate = cache.rates.flush / 4;
        cache.write_back(&written, rate);
        cache.report(OWN)?;
        Ok(bytes.len())
    }

    fn write_cached(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let mut cache = self.cache.borrow_mut();
        for (lba, block) in (offset as usize / BLOCK_BYTES..).zip(bytes.chunks(BLOCK_BYTES)) {
            cache.land(lba, block);
        }
        Ok(())
    }

    fn sync(&self) -> Result<(), Errno> {
        let mut cache = self.cache.borrow_mut();
        let rate = cache.rates.flush;
        cache.write_back(&self.dirty, rate);
        cache.report(OWN)
    }

    fn sync_witness(&self) -> Result<(), Errno> {
        let mut cache = self.cache.borrow_mut();
        let (dirty, rate) = (cache.dirty(), cache.rates.flush);
        cache.write_back(&dirty, rate);
        cache.report(WITNESS)
    }
}
