//! Fences delay a response until other nexuses' store operations have completed.
//!
//! A command that ends the tasks of another nexus, or removes its access, may be answered only when no operation of
//! that nexus can land any more (SAM-5 7.1, SPC-4 5.13.11.5). Each nexus counts its operations at each unit's store in
//! a [`Batch`], which others can see. To fence off a nexus, another one gives it a new batch and waits, with a
//! [`Fence`], until the old one has drained. So later operations of the nexus never delay the response.
//!
//! Operations take no lock. The nexus first marks its batch busy and then checks whether the device's state has
//! changed; the fencing nexus first changes the state and then checks whether the batch is busy. In the single order of
//! these four that all threads agree on (`SeqCst`), at least one of the two sees the other.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Operations of one nexus at one unit's store, started between two fences.
#[derive(Debug, Default)]
pub(super) struct Batch {
    /// Some are at the store. Only the owner writes this.
    busy: AtomicBool,
    /// A fence waits for it to drain.
    awaited: AtomicBool,
}

/// The batches of one nexus at one unit, as others see them.
#[derive(Debug, Default)]
pub(super) struct Batches {
    /// Counts new operations.
    current: Arc<Batch>,
    /// Fenced batches that have not drained; later fences wait for them as well.
    earlier: Vec<Arc<Batch>>,
}

impl Batches {
    pub(super) fn current(&self) -> &Arc<Batch> {
        &self.current
    }

    /// Adds all current operations to `fence` and starts a new batch.
    pub(super) fn fence_off(&mut self, fence: &mut Fence) {
        self.earlier.retain(|batch| batch.is_busy());
        self.earlier.push(std::mem::take(&mut self.current));
        for batch in &self.earlier {
            fence.await_batch(Arc::clone(batch));
        }
    }
}

impl Batch {
    fn is_busy(&self) -> bool {
        self.busy.load(Ordering::SeqCst)
    }

    /// Nothing is at the store any more. Returns whether a fence waits for that.
    fn drain(&self) -> bool {
        self.busy.store(false, Ordering::SeqCst);
        self.awaited.load(Ordering::SeqCst)
    }
}

/// Operations of other nexuses that must complete first. The default waits for nothing.
#[derive(Debug, Default)]
pub(crate) struct Fence {
    awaited: Vec<Arc<Batch>>,
}

impl Fence {
    /// Also waits for `batch`, which gets no new operations.
    pub(super) fn await_batch(&mut self, batch: Arc<Batch>) {
        batch.awaited.store(true, Ordering::SeqCst);
        self.awaited.push(batch);
    }

    /// Also waits for the operations of `other`.
    pub(crate) fn merge(&mut self, mut other: Fence) {
        self.awaited.append(&mut other.awaited);
    }

    /// Whether everything awaited has completed. Call only after the change of the device's state that raised the fence
    /// is complete.
    pub(crate) fn is_down(&mut self) -> bool {
        self.awaited.retain(|batch| batch.is_busy());
        self.awaited.is_empty()
    }
}

/// Identifies the batch of an operation.
type BatchNumber = u32;

/// The owner's side of a batch.
#[derive(Debug, Default)]
struct Counted {
    number: BatchNumber,
    batch: Arc<Batch>,
    operations: usize,
}

/// A nexus's operations at the store of one unit.
#[derive(Debug, Default)]
pub(super) struct UnitOperations {
    current: Counted,
    /// Batches that fences wait for; each has operations.
    earlier: Vec<Counted>,
}

impl UnitOperations {
    /// Counts new operations in `batch`.
    pub(super) fn turn_to(&mut self, batch: &Arc<Batch>) {
        if Arc::ptr_eq(&self.current.batch, batch) {
            return;
        }
        let next = Counted {
            number: self.current.number.wrapping_add(1),
            batch: Arc::clone(batch),
            operations: 0,
        };
        let last = std::mem::replace(&mut self.current, next);
        if last.operations > 0 {
            self.earlier.push(last);
        }
    }

    fn enter(&mut self) -> BatchNumber {
        let current = &mut self.current;
        current.operations += 1;
        if current.operations == 1 {
            current.batch.busy.store(true, Ordering::SeqCst);
        }
        current.number
    }

    /// Returns whether a fence waits for the batch that has drained.
    fn leave(&mut self, number: BatchNumber) -> bool {
        if self.current.number == number {
            let current = &mut self.current;
            current.operations -= 1;
            return current.operations == 0 && current.batch.drain();
        }
        let mut earlier = self.earlier.iter();
        let Some(place) = earlier.position(|counted| counted.number == number) else {
            return false;
        };
        self.earlier[place].operations -= 1;
        self.earlier[place].operations == 0 && self.earlier.swap_remove(place).batch.drain()
    }

    /// The batches with operations.
    pub(super) fn busy(&self) -> impl Iterator<Item = &Arc<Batch>> {
        let all = self.earlier.iter().chain([&self.current]);
        all.filter(|counted| counted.operations > 0)
            .map(|counted| &counted.batch)
    }
}

/// An operation at a store, as its nexus counts it.
#[derive(Debug)]
pub(crate) struct Ticket {
    place: usize,
    number: BatchNumber,
    /// Other units that it accesses.
    others: Box<[(usize, BatchNumber)]>,
}

impl Ticket {
    /// Counts an operation at the unit at `place` that also accesses `others`.
    pub(super) fn enter(units: &mut [UnitOperations], place: usize, others: &[usize]) -> Ticket {
        let others = others.iter().map(|&other| (other, units[other].enter()));
        Ticket {
            others: others.collect(),
            place,
            number: units[place].enter(),
        }
    }

    /// The operation has completed. Returns whether a fence waits for a batch drained by it.
    pub(super) fn leave(self, units: &mut [UnitOperations]) -> bool {
        let others = self.others.iter();
        let rung = others.fold(false, |rung, &(place, number)| {
            units[place].leave(number) || rung
        });
        units[self.place].leave(self.number) || rung
    }
}

/// Ends the batches of a nexus that is gone. Returns whether a fence waits for any.
pub(super) fn drain_all(batches: &[(usize, Arc<Batch>)]) -> bool {
    let awaited = batches.iter().map(|(_, batch)| batch.drain());
    awaited.fold(false, |any, awaited| any | awaited)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_fence_waits_for_what_the_first_one_waits_for() {
        let mut units = [UnitOperations::default()];
        let mut batches = Batches::default();
        units[0].turn_to(batches.current());
        let operation = Ticket::enter(&mut units, 0, &[]);
        let mut fences = [Fence::default(), Fence::default()];
        for fence in &mut fences {
            batches.fence_off(fence);
            units[0].turn_to(batches.current());
            assert!(!fence.is_down());
        }
        assert!(operation.leave(&mut units));
        assert!(fences.iter_mut().all(Fence::is_down));
        batches.fence_off(&mut fences[0]);
        assert_eq!(batches.earlier.len(), 1, "what has drained is forgotten");
    }

    #[test]
    fn a_fence_waits_for_what_was_there_and_for_nothing_later() {
        let mut units = [UnitOperations::default(), UnitOperations::default()];
        let first = Ticket::enter(&mut units, 0, &[]);
        let both = Ticket::enter(&mut units, 1, &[0]);
        let mut fence = Fence::default();
        let next = Arc::default();
        fence.await_batch(Arc::clone(units[0].busy().next().unwrap()));
        units[0].turn_to(&next);
        let later = Ticket::enter(&mut units, 0, &[]);
        assert!(!fence.is_down());
        assert!(!first.leave(&mut units));
        assert!(!fence.is_down());
        assert!(both.leave(&mut units), "the fence waits for it");
        assert!(fence.is_down());
        assert!(!later.leave(&mut units), "nobody waits");
        assert!(units.iter().all(|unit| unit.busy().count() == 0));
    }
}
