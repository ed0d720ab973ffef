//! Backing stores of logical units: flat ranges of bytes.
//!
//! - [`Store`]: the trait; all stores are shared by reference among sessions and threads;
//! - [`MemoryStore`], [`FileStore`]: the stores; [`ServiceTimeStore`]: a store with a set service
//!   time, for experiments with a known bottleneck;
//! - [`durability`]: what a store may say of data on the medium;
//! - [`MediumJob`]: what SCSI asks of a store beside reading, writing and flushing;
//! - [`pool`]: worker threads that run what may block, for reactors that must not;
//! - [`LunSpec`]: the notation of a store, such as `memory:1GiB` or `file:disk.img,block=4096`.
//!
//! # How a single-threaded reactor uses a store
//!
//! 1. Ask [`Store::try_read_now`] (or its siblings for writes and flushes). `Some` is the result:
//!    the operation took no longer than a copy in memory.
//! 2. On `None` hand the operation, with an owned buffer, to its [`QueuePair`], in its session's [`Lane`]. A refused operation
//!    comes back untouched: the queue pair is full, so keep it until completions have made room.
//! 3. Poll the queue pair's descriptor; when it is readable, drain [`QueuePair::completions`]. Each
//!    says when the operation was queued, when the store was asked and when it had answered, which
//!    is what the trace layers `device` and `store` need.

pub mod durability;
mod error;
mod file;
mod medium;
mod memory;
pub mod pool;
mod reservation_file;
mod service_time;
mod spec;
mod syncing;
#[cfg(test)]
mod tests;

pub use error::{OpenError, Operated, StoreError};
pub use file::FileStore;
pub use medium::MediumJob;
pub use memory::MemoryStore;
pub use pool::{Completion, Lane, Operation, Pool, QueueBounds, QueuePair};
pub use reservation_file::ReservationFile;
pub use service_time::ServiceTimeStore;
pub use spec::{Backing, LunSpec, OpenedStore, SpecError};
pub use wansan_workload::service::{ServiceTime, Visit};

use wansan_trace::Instant;

/// A flat range of bytes that keeps what was written to it.
///
/// Offsets and lengths are in bytes and need no alignment; all of `offset..offset + length` must lie
/// inside [`size_bytes`](Store::size_bytes), or the operation fails with
/// [`StoreError::OutOfRange`] and touches nothing. Operations may run on several threads at once.
/// Those that overlap have no order among each other, and a read that overlaps a write may return a
/// mixture of old and new bytes, as SBC-3 allows of commands that are in flight together.
pub trait Store: Send + Sync {
    /// The store's size, which never changes.
    fn size_bytes(&self) -> u64;

    /// Fills `dst` with the bytes from `offset` on. May block.
    fn read_at(&self, offset: u64, dst: &mut [u8]) -> Result<(), StoreError>;

    /// Writes `src` from `offset` on; later reads return it. With `fua` (force unit access) it has
    /// reached the medium when the call returns. May block.
    fn write_at(&self, offset: u64, src: &[u8], fua: bool) -> Result<(), StoreError>;

    /// Brings all writes that had returned before this call to the medium. May block.
    fn flush(&self) -> Result<(), StoreError>;

    /// Gives `len` bytes from `offset` on to `change`, and writes what it leaves there if it says so:
    /// in one step against all other writing through this store. With `fua` that has reached the
    /// medium when the call returns. May block.
    fn update(
        &self,
        offset: u64,
        len: usize,
        fua: bool,
        change: &mut dyn FnMut(&mut [u8]) -> bool,
    ) -> Result<(), StoreError>;

    /// Gives back the space of `len` bytes from `offset` on, as far as it can; they read as zeros
    /// from then on. May block.
    fn deallocate(&self, offset: u64, len: u64) -> Result<(), StoreError>;

    /// Whether the byte at `offset` has space of its own, and where the next one begins of which
    /// the contrary may be true, or the store ends. May block.
    fn extent_at(&self, offset: u64) -> Result<Extent, StoreError>;

    /// Begins to read `len` bytes from `offset` on into a cache, if there is one between the store
    /// and its medium.
    fn pre_fetch(&self, offset: u64, len: u64) {
        let _ = (offset, len);
    }

    /// Where persistent reservations of its unit are kept over a restart, if they can be.
    fn reservations(&self) -> Option<&ReservationFile> {
        None
    }

    /// Whether every operation is a copy in memory, so that none needs a worker.
    fn is_memory(&self) -> bool;

    /// [`read_at`](Store::read_at) if that takes no longer than a copy in memory; `None` when it
    /// might block. `dst` is then of no meaning.
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

    /// Books the service of one operation that is asked for at `asked`: when it begins and when it
    /// ends. Whoever runs the operation (the [`Pool`] does) waits for the end before doing it.
    /// `None`, the usual case, means that the store takes as long as it takes.
    fn book(&self, asked: Instant) -> Option<Visit> {
        let _ = asked;
        None
    }
}

/// A run of bytes of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// They have space of their own; otherwise they read as zeros.
    pub allocated: bool,
    /// The first byte behind them.
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
