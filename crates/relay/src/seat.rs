//! How many flows there are.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The flows of each thread.
#[derive(Debug)]
pub(crate) struct Seats {
    threads: Vec<AtomicUsize>,
    limit: usize,
}

impl Seats {
    pub(crate) fn new(threads: usize, limit: usize) -> Seats {
        Seats {
            threads: (0..threads).map(|_| AtomicUsize::new(0)).collect(),
            limit,
        }
    }

    /// Flows of all threads.
    pub(crate) fn taken(&self) -> usize {
        // They guard no other data.
        let taken = |thread: &AtomicUsize| thread.load(Ordering::Relaxed);
        self.threads.iter().map(taken).sum()
    }

    /// Whether there is room for another flow.
    pub(crate) fn has_room(&self) -> bool {
        self.taken() < self.limit
    }

    /// A seat on the thread that has the fewest flows. Only one thread takes seats, so what has room
    /// has it still.
    pub(crate) fn take(self: &Arc<Seats>) -> Seat {
        let load = |thread: &usize| self.threads[*thread].load(Ordering::Relaxed);
        let thread = (0..self.threads.len()).min_by_key(load).unwrap_or(0);
        self.threads[thread].fetch_add(1, Ordering::Relaxed);
        Seat {
            seats: Arc::clone(self),
            thread,
        }
    }
}

/// A flow's place; it is free again when this is dropped.
#[derive(Debug)]
pub(crate) struct Seat {
    seats: Arc<Seats>,
    /// The thread that carries the flow.
    pub(crate) thread: usize,
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.seats.threads[self.thread].fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_go_where_there_are_fewest() {
        let seats = Arc::new(Seats::new(2, 3));
        let taken: Vec<Seat> = (0..3).map(|_| seats.take()).collect();
        let threads: Vec<usize> = taken.iter().map(|seat| seat.thread).collect();
        assert_eq!(threads, [0, 1, 0]);
        assert!(!seats.has_room());
        drop(taken);
        assert!(seats.has_room() && seats.taken() == 0);
    }
}
