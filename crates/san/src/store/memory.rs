//! A store in memory.

use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::{Store, StoreError, check_range};

/// Bytes per lock. Large enough that nearly every operation takes one lock, small enough that writers seldom contend.
const EXTENT_BYTES: usize = 1 << 20;

/// Memory of a fixed size that reads as zeros until it is written.
///
/// The bytes are in extents of 1 MiB, each with its own read-write lock, so operations on different extents do not
/// contend, and reads of one extent run in parallel. An extent takes no memory before its first write, and the kernel
/// allocates its pages only as they are touched. Deallocating a whole extent frees its memory; deallocating a part
/// zeroes it, and marks whole pages as deallocated.
#[derive(Debug)]
pub struct MemoryStore {
    extents: Box<[RwLock<Option<Extent>>]>,
    size_bytes: u64,
}

/// Unit of deallocation.
const PAGE_BYTES: usize = 4096;

/// An extent that has been written to.
#[derive(Debug)]
struct Extent {
    bytes: Box<[u8]>,
    /// One bit per page: written, and not deallocated since.
    pages: [u64; EXTENT_BYTES / PAGE_BYTES / 64],
}

impl Extent {
    fn zeros() -> Extent {
        Extent {
            // A fresh `vec![0; n]` of this size is mapped, not cleared: its pages are allocated only as they are
            // written.
            bytes: vec![0; EXTENT_BYTES].into_boxed_slice(),
            pages: [0; EXTENT_BYTES / PAGE_BYTES / 64],
        }
    }

    fn write(&mut self, start: usize, src: &[u8]) {
        self.bytes[start..start + src.len()].copy_from_slice(src);
        if !src.is_empty() {
            for page in start / PAGE_BYTES..=(start + src.len() - 1) / PAGE_BYTES {
                self.pages[page / 64] |= 1 << (page % 64);
            }
        }
    }

    /// Deallocates the whole pages in this range, and zeroes all of it.
    fn deallocate(&mut self, start: usize, end: usize) {
        self.bytes[start..end].fill(0);
        for page in start.div_ceil(PAGE_BYTES)..end / PAGE_BYTES {
            self.pages[page / 64] &= !(1 << (page % 64));
        }
    }

    fn has_page(&self, page: usize) -> bool {
        self.pages[page / 64] & 1 << (page % 64) != 0
    }
}

impl MemoryStore {
    /// A store of `size_bytes` zeros.
    #[must_use]
    pub fn new(size_bytes: u64) -> Self {
        let count = size_bytes.div_ceil(EXTENT_BYTES as u64);
        MemoryStore {
            extents: (0..count).map(|_| RwLock::new(None)).collect(),
            size_bytes,
        }
    }

    /// Bytes are valid even if the thread that wrote them panicked, so a poisoned lock is taken like any other.
    fn read_lock(&self, index: usize) -> RwLockReadGuard<'_, Option<Extent>> {
        let extent = self.extents[index].read();
        extent.unwrap_or_else(PoisonError::into_inner)
    }

    fn write_lock(&self, index: usize) -> RwLockWriteGuard<'_, Option<Extent>> {
        let extent = self.extents[index].write();
        extent.unwrap_or_else(PoisonError::into_inner)
    }
}

/// Splits the `bytes` from `offset` on by extent: the extent's index, the piece's offset in the extent, and its range
/// in the caller's buffer.
fn pieces(
    offset: u64,
    bytes: usize,
) -> impl Iterator<Item = (usize, usize, core::ops::Range<usize>)> {
    let mut done = 0;
    core::iter::from_fn(move || {
        if done == bytes {
            return None;
        }
        let at = offset + done as u64;
        let index = (at / EXTENT_BYTES as u64) as usize;
        let start = (at % EXTENT_BYTES as u64) as usize;
        let length = (EXTENT_BYTES - start).min(bytes - done);
        let range = done..done + length;
        done += length;
        Some((index, start, range))
    })
}

impl Store for MemoryStore {
    fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    fn read_at(&self, offset: u64, dst: &mut [u8]) -> Result<(), StoreError> {
        check_range(offset, dst.len() as u64, self.size_bytes)?;
        for (index, start, range) in pieces(offset, dst.len()) {
            let extent = self.read_lock(index);
            let dst = &mut dst[range];
            match extent.as_ref() {
                Some(extent) => dst.copy_from_slice(&extent.bytes[start..start + dst.len()]),
                None => dst.fill(0),
            }
        }
        Ok(())
    }

    /// Memory has no medium: `fua` has no effect.
    fn write_at(&self, offset: u64, src: &[u8], _fua: bool) -> Result<(), StoreError> {
        check_range(offset, src.len() as u64, self.size_bytes)?;
        for (index, start, range) in pieces(offset, src.len()) {
            let mut extent = self.write_lock(index);
            let extent = extent.get_or_insert_with(Extent::zeros);
            extent.write(start, &src[range]);
        }
        Ok(())
    }

    fn update(
        &self,
        offset: u64,
        len: usize,
        _fua: bool,
        change: &mut dyn FnMut(&mut [u8]) -> bool,
    ) -> Result<(), StoreError> {
        check_range(offset, len as u64, self.size_bytes)?;
        // Locks all extents at once, in ascending order as everywhere.
        let mut held: Vec<_> = pieces(offset, len)
            .map(|(index, start, range)| (self.write_lock(index), start, range))
            .collect();
        let mut bytes = vec![0; len];
        for (extent, start, range) in &held {
            if let Some(extent) = extent.as_ref() {
                bytes[range.clone()].copy_from_slice(&extent.bytes[*start..*start + range.len()]);
            }
        }
        if change(&mut bytes) {
            for (extent, start, range) in &mut held {
                let extent = extent.get_or_insert_with(Extent::zeros);
                extent.write(*start, &bytes[range.clone()]);
            }
        }
        Ok(())
    }

    fn deallocate(&self, offset: u64, len: u64) -> Result<(), StoreError> {
        check_range(offset, len, self.size_bytes)?;
        let end = offset + len;
        let mut at = offset;
        while at < end {
            let index = (at / EXTENT_BYTES as u64) as usize;
            let first = index as u64 * EXTENT_BYTES as u64;
            let last = end.min(first + EXTENT_BYTES as u64);
            let whole =
                at == first && (last == self.size_bytes || last - at == EXTENT_BYTES as u64);
            let mut extent = self.write_lock(index);
            if whole {
                *extent = None;
            } else if let Some(extent) = extent.as_mut() {
                extent.deallocate((at - first) as usize, (last - first) as usize);
            }
            at = last;
        }
        Ok(())
    }

    fn extent_at(&self, offset: u64) -> Result<super::Extent, StoreError> {
        check_range(offset, 1, self.size_bytes)?;
        let index = (offset / EXTENT_BYTES as u64) as usize;
        let first = index as u64 * EXTENT_BYTES as u64;
        let pages = EXTENT_BYTES / PAGE_BYTES;
        let page = (offset - first) as usize / PAGE_BYTES;
        let extent = self.read_lock(index);
        let has_page = |page| extent.as_ref().is_some_and(|extent| extent.has_page(page));
        let allocated = has_page(page);
        let next = (page..pages).find(|page| has_page(*page) != allocated);
        let end = first + (next.unwrap_or(pages) * PAGE_BYTES) as u64;
        Ok(super::Extent {
            allocated,
            end: end.min(self.size_bytes),
        })
    }

    fn flush(&self) -> Result<(), StoreError> {
        Ok(())
    }

    fn is_memory(&self) -> bool {
        true
    }
}
