//! A store with a set service time.

use core::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use wansan_trace::Instant;

use super::{Extent, ReservationFile, Store, StoreError};

/// A service time: `servers` servers process operations first come, first served, each in `time`.
/// The store's rate is thus at most `servers / time`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServiceTime {
    /// Time that one operation, of whatever kind and size, occupies a server; not zero.
    pub time: Duration,
    /// Operations served at once, 1 to [`ServiceTime::MAX_SERVERS`].
    pub servers: u32,
}

impl ServiceTime {
    /// Most servers that a store may have.
    pub const MAX_SERVERS: u32 = 65_536;
}

/// One operation's stay at a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Visit {
    /// A server takes it up: the store has been asked.
    pub began: Instant,
    /// The server is done with it.
    pub finished: Instant,
}

/// Wraps any store with a service time and a number of servers.
///
/// The waiting line is kept as arithmetic: [`book`](Store::book) gives an operation the server that
/// is free first and says when its service begins and ends, so the rate is exact however late a
/// thread wakes up. The operation itself is the inner store's and is done when the visit ends.
/// [`read_at`](Store::read_at) and its siblings called directly, without a booking, pass straight
/// through; the [`Pool`](super::Pool) books.
pub struct ServiceTimeStore {
    inner: Arc<dyn Store>,
    service: Duration,
    /// When each server becomes free, soonest on top.
    free_at: Mutex<BinaryHeap<Reverse<Instant>>>,
}

impl ServiceTimeStore {
    /// `inner`, made slow by `service`. A number of servers out of range is clamped.
    #[must_use]
    pub fn new(inner: Arc<dyn Store>, service: ServiceTime) -> Self {
        let servers = service.servers.clamp(1, ServiceTime::MAX_SERVERS) as usize;
        ServiceTimeStore {
            inner,
            service: service.time,
            free_at: Mutex::new(vec![Reverse(Instant::ZERO); servers].into()),
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
        let mut free_at = self.free_at.lock().unwrap_or_else(PoisonError::into_inner);
        let mut soonest = free_at.peek_mut()?;
        let began = soonest.0.max(asked);
        let finished = began + self.service;
        *soonest = Reverse(finished);
        Some(Visit { began, finished })
    }
}
