//! Packets held back, so that others overtake them.

use core::time::Duration;

use wansan_trace::Instant;

use crate::counters::Tally;
use crate::delay_line::DelayLine;
use crate::limit::Limit;
use crate::packet::Transit;
use crate::probability::{Probability, Random};

/// Holds back a share of packets for some time, and passes the others at once.
#[derive(Debug)]
pub struct Reorder<T> {
    share: Probability,
    by: Duration,
    /// The longest time ever set.
    longest: Duration,
    random: Random,
    line: DelayLine<T>,
}

impl<T> Reorder<T> {
    /// Holds back each packet with probability `share`, for the time `by`. The same seed holds back the same packets.
    /// `limit` only bounds the memory, as that of a [`crate::Delay`].
    #[must_use]
    pub fn new(share: Probability, by: Duration, seed: u64, limit: Limit) -> Self {
        Reorder {
            share,
            by,
            longest: by,
            random: Random::new(seed, "reorder"),
            line: DelayLine::new(limit),
        }
    }

    /// Probability that a packet is held back.
    #[must_use]
    pub fn share(&self) -> Probability {
        self.share
    }

    /// How long it is held back.
    #[must_use]
    pub fn by(&self) -> Duration {
        self.by
    }

    /// Applies to new packets. Those held back keep their departure times.
    pub(crate) fn set(&mut self, share: Probability, by: Duration) {
        self.share = share;
        self.by = by;
        self.longest = self.longest.max(by);
    }

    /// The longest time that any packet was ever held back.
    pub(crate) fn longest_stay(&self) -> Duration {
        self.longest
    }

    pub(crate) fn widen(&mut self, limit: Limit) {
        self.line.widen(limit);
    }

    pub(crate) fn held(&self) -> Tally {
        self.line.held()
    }

    pub(crate) fn high_water(&self) -> Tally {
        self.line.high_water()
    }

    /// Whether the next packet is held back.
    pub(crate) fn holds_back(&mut self) -> bool {
        self.random.decides(self.share)
    }

    pub(crate) fn enqueue(&mut self, transit: Transit<T>) -> Result<(), Transit<T>> {
        let due = transit.at + self.by;
        self.line.push(transit, due)
    }

    pub(crate) fn poll(&mut self, now: Instant) -> Option<Transit<T>> {
        self.line.pop(now)
    }

    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.line.next_due()
    }
}
