//! Occupancy of a queue against its limit.

use crate::counters::Tally;
use crate::limit::Limit;

/// Counts the content of a queue or a delay line against its limit.
#[derive(Debug)]
pub(crate) struct Occupancy {
    limit: Limit,
    held: Tally,
    high_water: Tally,
}

impl Occupancy {
    /// Starts empty.
    pub(crate) fn new(limit: Limit) -> Self {
        Occupancy {
            limit,
            held: Tally::default(),
            high_water: Tally::default(),
        }
    }

    /// Packets and bytes held.
    pub(crate) fn held(&self) -> Tally {
        self.held
    }

    /// The most packets and the most bytes ever held (not always at the same time).
    pub(crate) fn high_water(&self) -> Tally {
        self.high_water
    }

    pub(crate) fn limit(&self) -> Limit {
        self.limit
    }

    /// Applies to new packets: those held stay, even beyond the limit.
    pub(crate) fn set_limit(&mut self, limit: Limit) {
        self.limit = limit;
    }

    /// Whether a packet of `size_bytes` fits.
    pub(crate) fn admits(&self, size_bytes: u32) -> bool {
        self.limit.admits(self.held, size_bytes)
    }

    /// Adds a packet, within the limit or not.
    pub(crate) fn add(&mut self, size_bytes: u32) {
        self.held.add(size_bytes);
        self.high_water = self.high_water.max(self.held);
    }

    /// Removes a packet.
    pub(crate) fn take(&mut self, size_bytes: u32) {
        self.held.take(size_bytes);
    }
}
