//! A store in memory.

use std::sync::{PoisonError, RwLock};

use super::{Store, StoreError, check_range};

/// Bytes that share one lock. Large enough that nearly every operation takes one lock, small enough
/// that writers seldom meet.
const EXTENT_BYTES: usize = 1 << 20;

/// Memory of a fixed size that reads as zeros until it is written.
///
/// The bytes stand in extents of 1 MiB, each behind its own read-write lock, so operations on
/// different extents never meet, and reads of one extent run side by side. An extent takes no memory
/// before its first write, and the kernel gives its pages only as they are touched.
#[derive(Debug)]
pub struct MemoryStore {
    extents: Box<[RwLock<Extent>]>,
    size_bytes: u64,
}

/// Its bytes, or `None` before the first write.
type Extent = Option<Box<[u8]>>;

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
}

/// The pieces of `bytes` from `offset` on that lie in one extent each: the extent's index, where
/// in the extent the piece begins, and the piece's range in the caller's buffer.
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
        check_range(offset, dst.len(), self.size_bytes)?;
        for (index, start, range) in pieces(offset, dst.len()) {
            // Bytes are valid whatever happened to the thread that wrote them, so a poisoned lock
            // is taken like any other.
            let extent = self.extents[index]
                .read()
                .unwrap_or_else(PoisonError::into_inner);
            let dst = &mut dst[range];
            match extent.as_deref() {
                Some(bytes) => dst.copy_from_slice(&bytes[start..start + dst.len()]),
                None => dst.fill(0),
            }
        }
        Ok(())
    }

    /// Memory has no medium behind it: `fua` changes nothing.
    fn write_at(&self, offset: u64, src: &[u8], _fua: bool) -> Result<(), StoreError> {
        check_range(offset, src.len(), self.size_bytes)?;
        for (index, start, range) in pieces(offset, src.len()) {
            let mut extent = self.extents[index]
                .write()
                .unwrap_or_else(PoisonError::into_inner);
            let src = &src[range];
            // A fresh `vec![0; n]` of this size is mapped, not cleared: it costs pages only as
            // they are written.
            let bytes = extent.get_or_insert_with(|| vec![0; EXTENT_BYTES].into_boxed_slice());
            bytes[start..start + src.len()].copy_from_slice(src);
        }
        Ok(())
    }

    fn flush(&self) -> Result<(), StoreError> {
        Ok(())
    }

    fn is_memory(&self) -> bool {
        true
    }
}
