//! Packets with individual departure times.

use core::cmp::Ordering;
use std::collections::{BinaryHeap, VecDeque};

use wansan_trace::Instant;

use crate::counters::Tally;
use crate::limit::Limit;
use crate::occupancy::Occupancy;
use crate::packet::Transit;

/// Holds packets until each is due.
///
/// Packets due no earlier than all before them, which without reordering are all of them, are in a plain queue; only
/// those that overtake are sorted.
#[derive(Debug)]
pub(crate) struct DelayLine<T> {
    in_order: VecDeque<Transit<T>>,
    overtaking: BinaryHeap<Overtaking<T>>,
    /// Number of packets that have overtaken so far.
    overtaken: u64,
    occupancy: Occupancy,
}

impl<T> DelayLine<T> {
    pub(crate) fn new(limit: Limit) -> Self {
        DelayLine {
            in_order: VecDeque::new(),
            overtaking: BinaryHeap::new(),
            overtaken: 0,
            occupancy: Occupancy::new(limit),
        }
    }

    pub(crate) fn held(&self) -> Tally {
        self.occupancy.held()
    }

    pub(crate) fn high_water(&self) -> Tally {
        self.occupancy.high_water()
    }

    /// Raises the limit to at least this.
    pub(crate) fn widen(&mut self, limit: Limit) {
        let before = self.occupancy.limit();
        self.occupancy.set_limit(Limit {
            packets: before.packets.max(limit.packets),
            bytes: before.bytes.max(limit.bytes),
        });
    }

    /// Holds a packet until `due`; returns it when the line is full.
    pub(crate) fn push(&mut self, mut transit: Transit<T>, due: Instant) -> Result<(), Transit<T>> {
        if !self.occupancy.admits(transit.size_bytes()) {
            return Err(transit);
        }
        transit.at = due;
        self.occupancy.add(transit.size_bytes());
        if self.in_order.back().is_none_or(|last| last.at <= due) {
            self.in_order.push_back(transit);
        } else {
            self.overtaken += 1;
            self.overtaking.push(Overtaking {
                number: self.overtaken,
                transit,
            });
        }
        Ok(())
    }

    /// The next packet due by `now`. At equal times, packets that overtook no other come first, then the others in
    /// order of arrival.
    pub(crate) fn pop(&mut self, now: Instant) -> Option<Transit<T>> {
        let due = self.next_due().filter(|&due| due <= now)?;
        let transit = if self.in_order.front().is_some_and(|first| first.at == due) {
            self.in_order.pop_front()?
        } else {
            self.overtaking.pop()?.transit
        };
        self.occupancy.take(transit.size_bytes());
        Some(transit)
    }

    pub(crate) fn next_due(&self) -> Option<Instant> {
        let in_order = self.in_order.front().map(|first| first.at);
        match self.overtaking.peek() {
            None => in_order,
            Some(first) => Some(in_order.map_or(first.transit.at, |due| due.min(first.transit.at))),
        }
    }
}

/// A packet that overtakes; the greatest in the heap leaves first.
#[derive(Debug)]
struct Overtaking<T> {
    number: u64,
    transit: Transit<T>,
}

impl<T> Ord for Overtaking<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        (other.transit.at, other.number).cmp(&(self.transit.at, self.number))
    }
}

impl<T> PartialOrd for Overtaking<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> PartialEq for Overtaking<T> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<T> Eq for Overtaking<T> {}
