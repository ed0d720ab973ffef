//! What is held of what may be.

use crate::counters::Tally;
use crate::limit::Limit;

/// Counts what a queue or a delay line holds, against its limit.
#[derive(Debug)]
pub(crate) struct Occupancy {
    limit: Limit,
    held: Tally,
    high_water: Tally,
}

impl Occupancy {
    /// Of something that is empty.
    pub(crate) fn new(limit: Limit) -> Self {
        Occupancy {
            limit,
            held: Tally::default(),
            high_water: Tally::default(),
        }
    }

    /// Packets and bytes that are held.
    pub(crate) fn held(&self) -> Tally {
        self.held
    }

    /// The most packets and the most bytes that ever were (not always at the same time).
    pub(crate) fn high_water(&self) -> Tally {
        self.high_water
    }

    pub(crate) fn limit(&self) -> Limit {
        self.limit
    }

    /// For what comes from now on: what is held stays, even beyond it.
    pub(crate) fn set_limit(&mut self, limit: Limit) {
        self.limit = limit;
    }

    /// Whether a packet of `size_bytes` fits.
    pub(crate) fn admits(&self, size_bytes: u32) -> bool {
        self.limit.admits(self.held, size_bytes)
    }

    /// A packet comes, whether or not it is within the limit.
    pub(crate) fn add(&mut self, size_bytes: u32) {
        self.held.add(size_bytes);
        self.high_water = self.high_water.max(self.held);
    }

    /// A packet leaves.
    pub(crate) fn take(&mut self, size_bytes: u32) {
        self.held.take(size_bytes);
    }
}
