//! Limits on connections, over all threads.

use std::net::SocketAddr;
use std::sync::Arc;

use super::lobby;

/// The most connections of a target in sessions. With many sessions, nearly all have one.
pub(super) const MAX_CONNECTIONS: usize = wansan_iscsi::target::MAX_SESSIONS + 1024;

/// The most open connections of a target: those in sessions, and those that have not logged in, whose number the
/// [`lobby`] of each thread limits first. The rest is room for those being passed to their thread.
const MAX_OPEN: usize = MAX_CONNECTIONS + 2 * lobby::MAX_WAITING;

/// Seats taken by connections.
#[derive(Debug)]
pub(super) struct Seats {
    open: Arc<wansan_server::Seats>,
    in_sessions: Arc<wansan_server::Seats>,
}

/// One connection's seat, freed when it is dropped, and its peer.
#[derive(Debug)]
pub(super) struct Seat {
    pub(super) initiator: SocketAddr,
    in_session: Option<wansan_server::Seat>,
    in_sessions: Arc<wansan_server::Seats>,
    _open: wansan_server::Seat,
}

impl Default for Seats {
    fn default() -> Seats {
        Seats {
            open: wansan_server::Seats::new(MAX_OPEN),
            in_sessions: wansan_server::Seats::new(MAX_CONNECTIONS),
        }
    }
}

impl Seats {
    /// Admits a connection from `initiator` to log in; `None` when too many are open.
    pub(super) fn admit(&self, initiator: SocketAddr) -> Option<Seat> {
        Some(Seat {
            initiator,
            in_session: None,
            in_sessions: Arc::clone(&self.in_sessions),
            _open: self.open.take()?,
        })
    }
}

impl Seat {
    /// Takes a seat among the connections in sessions; returns whether there was one.
    pub(super) fn take(&mut self) -> bool {
        if self.in_session.is_none() {
            self.in_session = self.in_sessions.take();
        }
        self.is_taken()
    }

    /// Whether its connection has logged in.
    pub(super) fn is_taken(&self) -> bool {
        self.in_session.is_some()
    }
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
