//! The number of flows.

use std::sync::Arc;

/// The flows of each thread.
#[derive(Debug)]
pub(crate) struct Seats {
    threads: Vec<Arc<wansan_server::Seats>>,
    limit: usize,
}

impl Seats {
    pub(crate) fn new(threads: usize, limit: usize) -> Seats {
        Seats {
            threads: (0..threads)
                .map(|_| wansan_server::Seats::new(limit))
                .collect(),
            limit,
        }
    }

    /// Flows of all threads.
    pub(crate) fn taken(&self) -> usize {
        self.threads.iter().map(|thread| thread.taken()).sum()
    }

    /// How many more flows are allowed. Only one thread takes seats, so it is no less when it does.
    pub(crate) fn room(&self) -> usize {
        self.limit.saturating_sub(self.taken())
    }

    /// A seat on the thread with the fewest flows; `None` without [`room`](Seats::room).
    pub(crate) fn take(&self) -> Option<Seat> {
        if self.room() == 0 {
            return None;
        }
        let threads = self.threads.iter().enumerate();
        let (thread, seats) = threads.min_by_key(|(_, thread)| thread.taken())?;
        Some(Seat {
            thread,
            _seat: seats.take()?,
        })
    }
}

/// A flow's seat, freed when it is dropped.
#[derive(Debug)]
pub(crate) struct Seat {
    /// The thread of the flow.
    pub(crate) thread: usize,
    _seat: wansan_server::Seat,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_go_where_there_are_fewest() {
        let seats = Seats::new(2, 3);
        let taken: Vec<Seat> = std::iter::from_fn(|| seats.take()).collect();
        let threads: Vec<usize> = taken.iter().map(|seat| seat.thread).collect();
        assert_eq!(threads, [0, 1, 0]);
        assert_eq!(seats.room(), 0);
        drop(taken);
        assert_eq!((seats.room(), seats.taken()), (3, 0));
    }
}
