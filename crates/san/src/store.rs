//! Backing stores of logical units: flat ranges of bytes.
//!
//! - [`Store`]: the trait; all stores are shared by reference among sessions and threads;
//! - [`MemoryStore`], [`FileStore`]: the stores; [`ServiceTimeStore`]: a store with a set service
//!   time, for experiments with a known bottleneck;
//! - [`durability`]: when data counts as on the medium;
//! - [`MediumJob`]: SCSI operations on a store other than reading, writing and flushing;
//! - [`pool`]: worker threads for operations that may block, for reactors that must not;
//! - [`LunSpec`]: the notation of a store, such as `memory:1GiB` or `file:disk.img,block=4096`.
//!
//! # How a single-threaded reactor uses a store
//!
//! 1. Try [`Store::try_read_now`] (or its siblings for writes and flushes). `Some` is the result: the operation took no
//!    longer than a copy in memory.
//! 2. On `None` submit the operation, with an owned buffer, to the [`QueuePair`], in the session's [`Lane`]. A rejected
//!    operation is returned untouched: the queue pair is full, so keep it until completions have made room.
//! 3. Poll the queue pair's descriptor; when it is readable, drain [`QueuePair::completions`]. Each has the times when
//!    the operation was queued, when it was submitted to the store and when the store completed it, as needed for the
//!    trace layers `device` and `store`.

mod aligned;
mod direct_io;
pub mod durability;
mod error;
mod file;
mod medium;
mod memory;
pub mod pool;
mod reservation_file;
mod ring;
mod service_time;
mod spec;
mod syncing;
#[cfg(test)]
mod tests;
mod write_gate;

pub use error::{OpenError, Operated, StoreError};
pub use file::FileStore;
pub use medium::MediumJob;
pub use memory::MemoryStore;
pub use pool::{Completion, Lane, Operation, Pool, QueueBounds, QueuePair};
pub use reservation_file::ReservationFile;
pub use service_time::ServiceTimeStore;
pub use spec::{Backing, LunSpec, OpenedStore, SpecError};
pub use wansan_workload::service::{ServiceTime, Visit};
pub use write_gate::Writing;

use std::fs::File;

use wansan_trace::Instant;

/// A flat, persistent range of bytes.
///
/// Offsets and lengths are in bytes and need no alignment; all of `offset..offset + length` must lie inside
/// [`size_bytes`](Store::size_bytes), or the operation fails with [`StoreError::OutOfRange`] and touches nothing.
/// Operations may run on several threads at once. Overlapping operations have no order, and a read that overlaps a
/// write may return a mixture of old and new bytes, as SBC-3 allows of commands that are in flight together.
pub trait Store: Send + Sync {
    /// The store's size, which never changes.
    fn size_bytes(&self) -> u64;

    /// Reads from `offset` on into `dst`. May block.
    fn read_at(&self, offset: u64, dst: &mut [u8]) -> Result<(), StoreError>;

    /// Writes `src` at `offset`; later reads return it. With `fua` (force unit access) it is on the medium when the
    /// call returns. May block.
    fn write_at(&self, offset: u64, src: &[u8], fua: bool) -> Result<(), StoreError>;

    /// Writes all data of write calls that returned before this call to the medium. May block.
    fn flush(&self) -> Result<(), StoreError>;

    /// Passes `len` bytes from `offset` on to `change`, and writes them back if it returns true: atomic with respect to
    /// all other writes through this store. With `fua` they are on the medium when the call returns. May block.
    fn update(
        &self,
        offset: u64,
        len: usize,
        fua: bool,
        change: &mut dyn FnMut(&mut [u8]) -> bool,
    ) -> Result<(), StoreError>;

    /// Deallocates `len` bytes from `offset` on, as far as possible; they read as zeros from then on. May block.
    fn deallocate(&self, offset: u64, len: u64) -> Result<(), StoreError>;

    /// Whether the byte at `offset` is allocated, and the next offset at which that may differ, or the end of the
    /// store. May block.
    fn extent_at(&self, offset: u64) -> Result<Extent, StoreError>;

    /// Starts to read `len` bytes from `offset` on into a cache, if there is one between the store and its medium.
    fn pre_fetch(&self, offset: u64, len: u64) {
        let _ = (offset, len);
    }

    /// The file that keeps persistent reservations of its unit over a restart, if possible.
    fn reservations(&self) -> Option<&ReservationFile> {
        None
    }

    /// The file that it accesses directly, at the same offset, if reading or writing that range needs nothing but a read(2)
    /// to or a write(2) from aligned memory. The answer for a range never changes. Writes to it begin with
    /// [`begin_direct_write`](Store::begin_direct_write).
    fn direct_file(&self, offset: u64, length: usize) -> Option<&File> {
        let _ = (offset, length);
        None
    }

    /// Begins a write to its [direct file](Store::direct_file), if that is possible without waiting:
    /// [`update`](Store::update) waits until the returned value is dropped.
    fn begin_direct_write(&self) -> Option<Writing> {
        None
    }

    /// Whether every operation is a copy in memory, so that none needs a worker.
    fn is_memory(&self) -> bool;

    /// [`read_at`](Store::read_at) if that takes no longer than a copy in memory; `None` when it might block. The
    /// content of `dst` is then undefined.
    fn try_read_now(&self, offset: u64, dst: &mut [u8]) -> Option<Result<(), StoreError>> {
        self.is_memory().then(|| self.read_at(offset, dst))
    }

    /// [`write_at`](Store::write_at) if that takes no longer than a copy in memory; `None` (and
    /// nothing is written) when it might block.
    fn try_write_now(&self, offset: u64, src: &[u8], fua: bool) -> Option<Result<(), StoreError>> {
        self.is_memory().then(|| self.write_at(offset, src, fua))
    }

    /// [`flush`](Store::flush) if there is nothing to wait for; `None` when it might block.
    fn try_flush_now(&self) -> Option<Result<(), StoreError>> {
        self.is_memory().then(|| self.flush())
    }

    /// Schedules the service of one operation submitted at `asked`: returns when it begins and ends. The caller that
    /// runs the operation (the [`Pool`] does) waits for the end first. `None`, the default, means no set service time.
    fn book(&self, asked: Instant) -> Option<Visit> {
        let _ = asked;
        None
    }
}

/// A run of bytes of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// Allocated; otherwise they read as zeros.
    pub allocated: bool,
    /// The first byte after them.
    pub end: u64,
}

/// Whether `bytes` from `offset` on lie inside a store of `size_bytes`.
fn check_range(offset: u64, bytes: u64, size_bytes: u64) -> Result<(), StoreError> {
    match offset.checked_add(bytes) {
        Some(end) if end <= size_bytes => Ok(()),
        _ => Err(StoreError::OutOfRange {
            offset,
            bytes,
            size_bytes,
        }),
    }
}
