//! The bounds on connections, over all threads.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::lobby;

/// Connections that a target has in sessions at most.
pub(super) const MAX_CONNECTIONS: usize = 2 * super::registry::MAX_SESSIONS;

/// Connections that a target has open at most: those in sessions, and those that have not logged
/// in, on whose number the [`lobby`] of each thread acts first. The rest is room for those that are
/// on their way to their thread.
const MAX_OPEN: usize = MAX_CONNECTIONS + 2 * lobby::MAX_WAITING;

/// The seats that connections take.
#[derive(Debug, Default)]
pub(super) struct Seats {
    counts: Arc<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    open: AtomicUsize,
    in_sessions: AtomicUsize,
}

/// One connection's place, free again when it is dropped, and who is there.
#[derive(Debug)]
pub(super) struct Seat {
    pub(super) initiator: SocketAddr,
    is_in_session: bool,
    counts: Arc<Counts>,
}

impl Seats {
    /// Room for a connection from `initiator` to log in; `None` when too many are open.
    pub(super) fn admit(&self, initiator: SocketAddr) -> Option<Seat> {
        take(&self.counts.open, MAX_OPEN).then(|| Seat {
            initiator,
            is_in_session: false,
            counts: Arc::clone(&self.counts),
        })
    }
}

impl Seat {
    /// Takes a seat among the connections in sessions; says whether there was one.
    pub(super) fn take(&mut self) -> bool {
        if !self.is_in_session {
            self.is_in_session = take(&self.counts.in_sessions, MAX_CONNECTIONS);
        }
        self.is_in_session
    }

    /// Whether its connection has logged in.
    pub(super) fn is_taken(&self) -> bool {
        self.is_in_session
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.counts.open.fetch_sub(1, Ordering::Relaxed);
        if self.is_in_session {
            self.counts.in_sessions.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

fn take(count: &AtomicUsize, most: usize) -> bool {
    let more = |count| (count < most).then_some(count + 1);
    count
        .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more)
        .is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_bounded_and_seats_come_free() {
        let seats = Seats::default();
        let initiator = SocketAddr::from(([127, 0, 0, 1], 1));
        let mut open: Vec<Seat> = std::iter::from_fn(|| seats.admit(initiator)).collect();
        assert_eq!(open.len(), MAX_OPEN);
        assert_eq!(
            open.iter_mut()
                .filter_map(|seat| seat.take().then_some(()))
                .count(),
            MAX_CONNECTIONS
        );
        assert!(open[0].take() && !open[MAX_OPEN - 1].take());
        open.swap_remove(0);
        assert!(open[0].take());
        assert!(seats.admit(initiator).is_some());
    }
}
