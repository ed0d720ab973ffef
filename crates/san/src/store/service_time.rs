//! A store with a set service time.

use std::sync::{Arc, Mutex, PoisonError};

use wansan_trace::Instant;
use wansan_workload::service::{Servers, ServiceTime, Visit};

use super::{Extent, ReservationFile, Store, StoreError};

/// Wraps any store with a service time and a number of servers.
///
/// The queue is computed: [`book`](Store::book) assigns an operation to the server that is free first and returns when
/// its service begins and ends, so the rate is exact however late a thread wakes up. The operation itself is the inner
/// store's and runs when the visit ends. [`read_at`](Store::read_at) and its siblings called directly, without a
/// booking, pass straight through; the [`Pool`](super::Pool) books.
pub struct ServiceTimeStore {
    inner: Arc<dyn Store>,
    servers: Mutex<Servers>,
}

impl ServiceTimeStore {
    /// `inner` with the service time `service`. A number of servers out of range is clamped.
    #[must_use]
    pub fn new(inner: Arc<dyn Store>, service: ServiceTime) -> Self {
        ServiceTimeStore {
            inner,
            servers: Mutex::new(Servers::new(service)),
        }
    }
}

impl Store for ServiceTimeStore {
    fn size_bytes(&self) -> u64 {
        self.inner.size_bytes()
    }

    fn read_at(&self, offset: u64, dst: &mut [u8]) -> Result<(), StoreError> {
        self.inner.read_at(offset, dst)
    }

    fn write_at(&self, offset: u64, src: &[u8], fua: bool) -> Result<(), StoreError> {
        self.inner.write_at(offset, src, fua)
    }

    fn flush(&self) -> Result<(), StoreError> {
        self.inner.flush()
    }

    fn update(
        &self,
        offset: u64,
        len: usize,
        fua: bool,
        change: &mut dyn FnMut(&mut [u8]) -> bool,
    ) -> Result<(), StoreError> {
        self.inner.update(offset, len, fua, change)
    }

    fn deallocate(&self, offset: u64, len: u64) -> Result<(), StoreError> {
        self.inner.deallocate(offset, len)
    }

    fn extent_at(&self, offset: u64) -> Result<Extent, StoreError> {
        self.inner.extent_at(offset)
    }

    fn pre_fetch(&self, offset: u64, len: u64) {
        self.inner.pre_fetch(offset, len);
    }

    fn reservations(&self) -> Option<&ReservationFile> {
        self.inner.reservations()
    }

    /// Never: each operation takes its service time.
    fn is_memory(&self) -> bool {
        false
    }

    fn book(&self, asked: Instant) -> Option<Visit> {
        let mut servers = self.servers.lock().unwrap_or_else(PoisonError::into_inner);
        Some(servers.book(asked))
    }
}
