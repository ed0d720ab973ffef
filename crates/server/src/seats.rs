//! A bound on connections, over all threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Seats, of which each connection takes one.
#[derive(Debug)]
pub struct Seats {
    taken: AtomicUsize,
    most: usize,
}

impl Seats {
    /// So many seats.
    #[must_use]
    pub fn new(most: usize) -> Arc<Seats> {
        Arc::new(Seats {
            taken: AtomicUsize::new(0),
            most,
        })
    }

    /// Takes a seat; `None` when all are taken.
    #[must_use]
    pub fn take(self: &Arc<Seats>) -> Option<Seat> {
        let more = |taken| (taken < self.most).then_some(taken + 1);
        // It guards no other data.
        let taken = self
            .taken
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        taken.is_ok().then(|| Seat(Arc::clone(self)))
    }

    /// How many are taken.
    #[must_use]
    pub fn taken(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }
}

/// A seat that is taken, until this is dropped.
#[derive(Debug)]
pub struct Seat(Arc<Seats>);

impl Drop for Seat {
    fn drop(&mut self) {
        self.0.taken.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seats_are_bounded_and_come_free() {
        let seats = Seats::new(3);
        let mut taken: Vec<Seat> = std::iter::from_fn(|| seats.take()).collect();
        assert_eq!((taken.len(), seats.taken()), (3, 3));
        taken.pop();
        assert!(seats.take().is_some());
        assert_eq!(seats.taken(), 2);
    }
}
