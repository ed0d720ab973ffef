//! Queues in front of a link, by discipline.

mod codel;
mod drop_tail;
mod priority;
mod red;

pub use codel::{CoDel, CoDelError, CoDelParameters};
pub use drop_tail::DropTail;
pub use priority::Priority;
pub use red::{Red, RedError, RedParameters, Unit};

use wansan_trace::Instant;

use crate::counters::Tally;
use crate::limit::Limit;
use crate::occupancy::Occupancy;
use crate::packet::Transit;
use crate::sink::Sink;

/// Packets waiting for a link, their order and their limit. The packet that the link is sending is no longer in its
/// queue.
#[derive(Debug)]
pub enum Queue<T> {
    /// First in, first out; a packet that does not fit is dropped.
    DropTail(DropTail<T>),
    /// Random early detection.
    Red(Red<T>),
    /// Controlled delay.
    CoDel(CoDel<T>),
    /// Strict priority.
    Priority(Priority<T>),
}

/// An idle link.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Idle {
    /// For how long.
    pub(crate) ns: u64,
    /// Its rate now; `None` when it is unlimited.
    pub(crate) bits_per_s: Option<u64>,
}

impl<T> Queue<T> {
    fn occupancy(&self) -> &Occupancy {
        match self {
            Queue::DropTail(queue) => &queue.occupancy,
            Queue::Red(queue) => &queue.waiting().occupancy,
            Queue::CoDel(queue) => &queue.waiting().occupancy,
            Queue::Priority(queue) => &queue.occupancy,
        }
    }

    /// Packets and bytes queued.
    #[must_use]
    pub fn depth(&self) -> Tally {
        self.occupancy().held()
    }

    /// The most packets and the most bytes ever queued (not always at the same time).
    #[must_use]
    pub fn high_water(&self) -> Tally {
        self.occupancy().high_water()
    }

    /// The limit.
    #[must_use]
    pub fn limit(&self) -> Limit {
        self.occupancy().limit()
    }

    /// Applies to new packets: queued ones stay, even beyond the limit.
    pub(crate) fn set_limit(&mut self, limit: Limit) {
        let occupancy = match self {
            Queue::DropTail(queue) => &mut queue.occupancy,
            Queue::Red(queue) => &mut queue.waiting_mut().occupancy,
            Queue::CoDel(queue) => &mut queue.waiting_mut().occupancy,
            Queue::Priority(queue) => &mut queue.occupancy,
        };
        occupancy.set_limit(limit);
    }

    /// A packet arrives. When the link is idle, and so the queue empty, the packet is returned to be sent at once,
    /// unless the discipline drops it.
    pub(crate) fn admit(
        &mut self,
        transit: Transit<T>,
        idle: Option<Idle>,
        sink: &mut Sink<'_, T>,
    ) -> Option<Transit<T>> {
        match self {
            Queue::DropTail(queue) => queue.admit(transit, idle, sink),
            Queue::Red(queue) => queue.admit(transit, idle, sink),
            Queue::CoDel(queue) => queue.admit(transit, idle, sink),
            Queue::Priority(queue) => queue.admit(transit, idle, sink),
        }
    }

    /// The next packet to send, from `now` on.
    pub(crate) fn pop(&mut self, now: Instant, sink: &mut Sink<'_, T>) -> Option<Transit<T>> {
        match self {
            Queue::DropTail(queue) => queue.pop(),
            Queue::Red(queue) => queue.pop(),
            Queue::CoDel(queue) => queue.pop(now, sink),
            Queue::Priority(queue) => queue.pop(),
        }
    }

    /// Removes a packet, bypassing the discipline.
    pub(crate) fn take(&mut self) -> Option<Transit<T>> {
        match self {
            Queue::DropTail(queue) => queue.pop(),
            Queue::Red(queue) => queue.pop(),
            Queue::CoDel(queue) => queue.waiting_mut().pop(),
            Queue::Priority(queue) => queue.pop(),
        }
    }
}

impl<T> From<DropTail<T>> for Queue<T> {
    fn from(queue: DropTail<T>) -> Self {
        Queue::DropTail(queue)
    }
}

impl<T> From<Red<T>> for Queue<T> {
    fn from(queue: Red<T>) -> Self {
        Queue::Red(queue)
    }
}

impl<T> From<CoDel<T>> for Queue<T> {
    fn from(queue: CoDel<T>) -> Self {
        Queue::CoDel(queue)
    }
}

impl<T> From<Priority<T>> for Queue<T> {
    fn from(queue: Priority<T>) -> Self {
        Queue::Priority(queue)
    }
}
