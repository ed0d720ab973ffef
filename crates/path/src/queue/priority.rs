//! Strict priority.

use super::{DropTail, Idle};
use crate::counters::Tally;
use crate::limit::Limit;
use crate::occupancy::Occupancy;
use crate::packet::{Fate, Transit};
use crate::sink::Sink;

/// Classes with one common limit. A packet waits while any of a lower class number does; within its class the order is
/// first in, first out.
///
/// When the queue is full, an arriving packet displaces those of higher class numbers, the highest class first and its
/// newest packet first, until it fits; if that is not enough, it is dropped itself and displaces none. The packet being
/// sent is never interrupted.
#[derive(Debug)]
pub struct Priority<T> {
    classes: Vec<DropTail<T>>,
    pub(super) occupancy: Occupancy,
}

impl<T> Priority<T> {
    /// Most classes.
    pub const MAX_CLASSES: u8 = 16;

    /// An empty queue of `classes` classes, 1 to [`Priority::MAX_CLASSES`] (clamped), that holds at most `limit`. A
    /// packet with a class number beyond the last class belongs to the last.
    #[must_use]
    pub fn new(classes: u8, limit: Limit) -> Self {
        let classes = classes.clamp(1, Priority::<T>::MAX_CLASSES);
        let unbounded = Limit {
            packets: u64::MAX,
            bytes: u64::MAX,
        };
        Priority {
            classes: (0..classes).map(|_| DropTail::new(unbounded)).collect(),
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
        let size_bytes = transit.size_bytes();
        let class = usize::from(transit.packet.class).min(self.classes.len() - 1);
        let behind = &self.classes[class + 1..];
        let movable = behind.iter().fold(Tally::default(), |sum, class| {
            sum.plus(class.occupancy.held())
        });
        let staying = self.occupancy.held().minus(movable);
        if !self.occupancy.limit().admits(staying, size_bytes) {
            sink.drop(transit, Fate::DroppedByQueue);
            return None;
        }
        while !self.occupancy.admits(size_bytes) {
            let mut behind = self.classes[class + 1..].iter_mut().rev();
            let Some(pushed_out) = behind.find_map(DropTail::pop_last) else {
                break;
            };
            self.occupancy.take(pushed_out.size_bytes());
            sink.drop_at(pushed_out, transit.at, Fate::DroppedByQueue);
        }
        self.occupancy.add(size_bytes);
        self.classes[class].push(transit);
        None
    }

    pub(super) fn pop(&mut self) -> Option<Transit<T>> {
        let transit = self.classes.iter_mut().find_map(DropTail::pop)?;
        self.occupancy.take(transit.size_bytes());
        Some(transit)
    }
}
