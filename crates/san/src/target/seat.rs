//! The bound on connections, over all threads.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Connections that a target serves at most, in login or in a session: twice the sessions, so that
/// logins that never end cannot keep initiators out for longer than a login may take. A thread names
/// its own by 16 bits.
pub(super) const MAX_CONNECTIONS: usize = 2 * super::registry::MAX_SESSIONS;

/// The seats that connections take.
#[derive(Debug, Default)]
pub(super) struct Seats {
    taken: Arc<AtomicUsize>,
}

/// One connection's seat, free again when it is dropped, and who sits there.
#[derive(Debug)]
pub(super) struct Seat {
    pub(super) initiator: SocketAddr,
    taken: Arc<AtomicUsize>,
}

impl Seats {
    /// A seat for a connection from `initiator`; `None` when all are taken.
    pub(super) fn take(&self, initiator: SocketAddr) -> Option<Seat> {
        // Only the thread that listens takes seats, so nobody takes the last one meanwhile.
        if self.taken.load(Ordering::Relaxed) >= MAX_CONNECTIONS {
            return None;
        }
        self.taken.fetch_add(1, Ordering::Relaxed);
        Some(Seat {
            initiator,
            taken: Arc::clone(&self.taken),
        })
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.taken.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_bounded_and_seats_come_free() {
        let seats = Seats::default();
        let initiator = SocketAddr::from(([127, 0, 0, 1], 1));
        let mut taken: Vec<Seat> = std::iter::from_fn(|| seats.take(initiator)).collect();
        assert_eq!(taken.len(), MAX_CONNECTIONS);
        taken.pop();
        assert!(seats.take(initiator).is_some());
    }
}
