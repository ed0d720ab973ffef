//! The drop-tail queue before a link.

use std::collections::VecDeque;

use crate::counters::Tally;
use crate::limit::Limit;
use crate::packet::Transit;

/// First in, first out; what does not fit is dropped. The packet that the link is sending is no
/// longer in it.
#[derive(Debug)]
pub struct DropTail<T> {
    limit: Limit,
    waiting: VecDeque<Transit<T>>,
    bytes: u64,
    high_water: Tally,
}

impl<T> DropTail<T> {
    /// An empty queue that holds at most `limit`. A limit of zero drops whatever comes while the
    /// link is sending.
    #[must_use]
    pub fn new(limit: Limit) -> Self {
        DropTail {
            limit,
            waiting: VecDeque::new(),
            bytes: 0,
            high_water: Tally::default(),
        }
    }

    /// Packets and bytes waiting.
    #[must_use]
    pub fn depth(&self) -> Tally {
        Tally {
            packets: self.waiting.len() as u64,
            bytes: self.bytes,
        }
    }

    /// The most packets and the most bytes that ever waited (not always at the same time).
    #[must_use]
    pub fn high_water(&self) -> Tally {
        self.high_water
    }

    pub(crate) fn push(&mut self, transit: Transit<T>) -> Result<(), Transit<T>> {
        let size_bytes = transit.packet.size_bytes;
        if !self
            .limit
            .admits(self.waiting.len(), self.bytes, size_bytes)
        {
            return Err(transit);
        }
        self.bytes += u64::from(size_bytes);
        self.waiting.push_back(transit);
        self.high_water = self.high_water.max(self.depth());
        Ok(())
    }

    pub(crate) fn pop(&mut self) -> Option<Transit<T>> {
        let transit = self.waiting.pop_front()?;
        self.bytes -= u64::from(transit.packet.size_bytes);
        Some(transit)
    }
}
