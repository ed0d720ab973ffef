//! First in, first out.

use std::collections::VecDeque;

use super::Idle;
use crate::counters::Tally;
use crate::limit::Limit;
use crate::packet::{Fate, Transit};
use crate::sink::Sink;

/// First in, first out; what does not fit is dropped. The packet that the link is sending is no
/// longer in it.
#[derive(Debug)]
pub struct DropTail<T> {
    limit: Limit,
    waiting: VecDeque<Transit<T>>,
    depth: Tally,
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
            depth: Tally::default(),
            high_water: Tally::default(),
        }
    }

    /// Packets and bytes waiting.
    #[must_use]
    pub fn depth(&self) -> Tally {
        self.depth
    }

    /// The most packets and the most bytes that ever waited (not always at the same time).
    #[must_use]
    pub fn high_water(&self) -> Tally {
        self.high_water
    }

    pub(super) fn limit(&self) -> Limit {
        self.limit
    }

    pub(super) fn set_limit(&mut self, limit: Limit) {
        self.limit = limit;
    }

    pub(super) fn admit(
        &mut self,
        transit: Transit<T>,
        idle: Option<Idle>,
        sink: &mut Sink<'_, T>,
    ) -> Option<Transit<T>> {
        if idle.is_some() {
            return Some(transit);
        }
        if self.limit.admits(self.depth, transit.size_bytes()) {
            self.push(transit);
        } else {
            sink.drop(transit, Fate::DroppedByQueue);
        }
        None
    }

    /// Puts a packet at the end, whether or not it is within the limit.
    pub(super) fn push(&mut self, transit: Transit<T>) {
        self.depth.add(transit.size_bytes());
        self.high_water = self.high_water.max(self.depth);
        self.waiting.push_back(transit);
    }

    pub(super) fn pop(&mut self) -> Option<Transit<T>> {
        let transit = self.waiting.pop_front()?;
        self.depth.take(transit.size_bytes());
        Some(transit)
    }

    /// Takes the packet that came last.
    pub(super) fn pop_last(&mut self) -> Option<Transit<T>> {
        let transit = self.waiting.pop_back()?;
        self.depth.take(transit.size_bytes());
        Some(transit)
    }
}
