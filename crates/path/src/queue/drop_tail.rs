//! First in, first out.

use std::collections::VecDeque;

use super::Idle;
use crate::limit::Limit;
use crate::occupancy::Occupancy;
use crate::packet::{Fate, Transit};
use crate::sink::Sink;

/// First in, first out; a packet that does not fit is dropped. The packet that the link is sending is no longer in the
/// queue.
#[derive(Debug)]
pub struct DropTail<T> {
    waiting: VecDeque<Transit<T>>,
    pub(super) occupancy: Occupancy,
}

impl<T> DropTail<T> {
    /// An empty queue of at most `limit`. A limit of zero drops every arrival while the link is sending.
    #[must_use]
    pub fn new(limit: Limit) -> Self {
        DropTail {
            waiting: VecDeque::new(),
            occupancy: Occupancy::new(limit),
        }
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
        if self.occupancy.admits(transit.size_bytes()) {
            self.push(transit);
        } else {
            sink.drop(transit, Fate::DroppedByQueue);
        }
        None
    }

    /// Appends a packet, within the limit or not.
    pub(super) fn push(&mut self, transit: Transit<T>) {
        self.occupancy.add(transit.size_bytes());
        self.waiting.push_back(transit);
    }

    pub(super) fn pop(&mut self) -> Option<Transit<T>> {
        let transit = self.waiting.pop_front()?;
        self.occupancy.take(transit.size_bytes());
        Some(transit)
    }

    /// Removes the last packet.
    pub(super) fn pop_last(&mut self) -> Option<Transit<T>> {
        let transit = self.waiting.pop_back()?;
        self.occupancy.take(transit.size_bytes());
        Some(transit)
    }
}
