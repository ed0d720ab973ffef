//! Constant propagation delay.

use core::time::Duration;
use std::collections::VecDeque;

use wansan_trace::Instant;

use crate::counters::Tally;
use crate::limit::Limit;
use crate::packet::Transit;

/// A line that every packet leaves exactly the same time after it came, in order.
#[derive(Debug)]
pub struct Delay<T> {
    delay: Duration,
    limit: Limit,
    line: VecDeque<Transit<T>>,
    bytes: u64,
}

impl<T> Delay<T> {
    /// An empty line. Its `limit` only bounds the memory: behind a link, take
    /// [`Limit::bandwidth_delay`], which that link cannot fill.
    #[must_use]
    pub fn new(delay: Duration, limit: Limit) -> Self {
        Delay {
            delay,
            limit,
            line: VecDeque::new(),
            bytes: 0,
        }
    }

    /// The delay.
    #[must_use]
    pub fn delay(&self) -> Duration {
        self.delay
    }

    pub(crate) fn held(&self) -> Tally {
        Tally {
            packets: self.line.len() as u64,
            bytes: self.bytes,
        }
    }

    pub(crate) fn enqueue(&mut self, transit: Transit<T>) -> Result<(), Transit<T>> {
        let size_bytes = transit.packet.size_bytes;
        if !self.limit.admits(self.line.len(), self.bytes, size_bytes) {
            return Err(transit);
        }
        self.bytes += u64::from(size_bytes);
        self.line.push_back(transit);
        Ok(())
    }

    pub(crate) fn poll(&mut self, now: Instant) -> Option<Transit<T>> {
        let due = self.next_deadline().filter(|&due| due <= now)?;
        let mut transit = self.line.pop_front()?;
        self.bytes -= u64::from(transit.packet.size_bytes);
        transit.at = due;
        Some(transit)
    }

    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.line.front().map(|transit| transit.at + self.delay)
    }
}
