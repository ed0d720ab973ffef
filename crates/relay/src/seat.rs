//! The number of flows.

use std::sync::Arc;

/// The flows of all threads, and of each.
#[derive(Debug)]
pub(crate) struct Seats {
    all: Arc<wansan_server::Seats>,
    threads: Vec<Arc<wansan_server::Seats>>,
    limit: usize,
}

impl Seats {
    pub(crate) fn new(threads: usize, limit: usize) -> Seats {
        let seats = || wansan_server::Seats::new(limit);
        Seats {
            all: seats(),
            threads: (0..threads).map(|_| seats()).collect(),
            limit,
        }
    }

    /// Flows of all threads.
    pub(crate) fn taken(&self) -> usize {
        self.all.taken()
    }

    /// Whether another flow is allowed.
    pub(crate) fn has_room(&self) -> bool {
        self.taken() < self.limit
    }

    /// A seat on the thread with the fewest flows, `own` if others have no fewer: a flow that stays where it was
    /// accepted wakes no other thread. `None` if no other flow is allowed.
    pub(crate) fn take(&self, own: usize) -> Option<Seat> {
        let all = self.all.take()?;
        let by_flows = |&thread: &usize| (self.threads[thread].taken(), thread != own);
        let thread = (0..self.threads.len()).min_by_key(by_flows)?;
        Some(Seat {
            thread,
            _all: all,
            _seat: self.threads[thread].take()?,
        })
    }
}

/// A flow's seat, freed when it is dropped.
#[derive(Debug)]
pub(crate) struct Seat {
    /// The thread of the flow.
    pub(crate) thread: usize,
    _all: wansan_server::Seat,
    _seat: wansan_server::Seat,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_go_where_there_are_fewest() {
        let seats = Seats::new(2, 4);
        let taken: Vec<Seat> = std::iter::from_fn(|| seats.take(1)).collect();
        let threads: Vec<usize> = taken.iter().map(|seat| seat.thread).collect();
        assert_eq!(threads, [1, 0, 1, 0]);
        assert!(!seats.has_room());
        drop(taken);
        assert!(seats.has_room() && seats.taken() == 0);
    }
}
