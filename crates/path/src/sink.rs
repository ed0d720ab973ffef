//! Where elements put dropped packets, and count.

use std::collections::VecDeque;

use wansan_trace::Instant;

use crate::counters::{Deeds, Tally};
use crate::packet::{Departure, Ecn, Fate, Transit};

/// A chain's drops since it began, by fate.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Drops {
    pub(crate) by_loss: Tally,
    pub(crate) by_queue: Tally,
    pub(crate) by_delay_line: Tally,
    pub(crate) by_outage: Tally,
}

/// One element's access to its chain's counters and departures.
pub(crate) struct Sink<'a, T> {
    pub(crate) deeds: &'a mut Deeds,
    pub(crate) drops: &'a mut Drops,
    pub(crate) left: &'a mut VecDeque<Departure<T>>,
}

impl<T> Sink<'_, T> {
    /// Drops the packet, at the time when it reached the element.
    pub(crate) fn drop(&mut self, transit: Transit<T>, fate: Fate) {
        let size_bytes = transit.size_bytes();
        match fate {
            Fate::Delivered => unreachable!("only what is dropped comes here"),
            Fate::DroppedByLoss => self.drops.by_loss.add(size_bytes),
            Fate::DroppedByQueue => self.drops.by_queue.add(size_bytes),
            Fate::DroppedByDelayLine => self.drops.by_delay_line.add(size_bytes),
            Fate::DroppedByOutage => self.drops.by_outage.add(size_bytes),
        }
        self.deeds.dropped.add(size_bytes);
        self.left.push_back(transit.leave(fate));
    }

    /// Sets CE in the packet.
    pub(crate) fn mark(&mut self, transit: &mut Transit<T>) {
        if transit.packet.ecn != Ecn::Congestion {
            self.deeds.marked.add(transit.size_bytes());
        }
        transit.mark();
    }

    /// Drops the packet at `at`, after it waited here.
    pub(crate) fn drop_at(&mut self, mut transit: Transit<T>, at: Instant, fate: Fate) {
        transit.at = at;
        self.drop(transit, fate);
    }
}
