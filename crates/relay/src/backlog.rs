//! What a byte waits behind in a relay.

use std::time::Duration;

use wansan_tcp::queues;
use wansan_trace::event::Tcp;

use crate::direction::Direction;
use crate::side::Side;

/// What is before a byte that arrives at the relay now, in one direction of a flow.
///
/// Bytes that were sent and not acknowledged are not in it: they are on the path, not in the relay.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Backlog {
    /// In the receive queue of the side that it comes from, in bytes.
    pub received_bytes: u64,
    /// In the relay's own memory, in bytes.
    pub held_bytes: u64,
    /// In the send queue of the side that it goes to and not sent yet, in bytes.
    pub unsent_bytes: u64,
    /// How fast the side that it goes to delivers, as TCP has last measured it, in bytes per second; 0
    /// before the first measurement. While that side has nothing to do it may be less than it could be.
    pub delivery_bytes_per_s: u64,
}

impl Backlog {
    /// Of a direction, where `receiving` is what TCP says of the side that bytes go to.
    pub(crate) fn of(from: &Side, direction: &Direction, to: &Side, receiving: &Tcp) -> Backlog {
        // A connection that is gone holds nothing.
        Backlog {
            received_bytes: queues::received_bytes(from).unwrap_or(0),
            held_bytes: direction.held_bytes() as u64,
            unsent_bytes: queues::unsent_bytes(to).unwrap_or(0),
            delivery_bytes_per_s: receiving.delivery_bytes_per_s,
        }
    }

    /// All of it, in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.received_bytes + self.held_bytes + self.unsent_bytes
    }

    /// How long the byte waits at that rate; `None` where bytes wait and no rate is known.
    #[must_use]
    pub fn time(&self) -> Option<Duration> {
        match (self.bytes(), self.delivery_bytes_per_s) {
            (0, _) => Some(Duration::ZERO),
            (_, 0) => None,
            (bytes, rate) => Some(Duration::from_secs_f64(bytes as f64 / rate as f64)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backlog_is_a_time() {
        let backlog = Backlog {
            received_bytes: 1000,
            held_bytes: 2000,
            unsent_bytes: 3000,
            delivery_bytes_per_s: 60_000,
        };
        assert_eq!(backlog.time(), Some(Duration::from_millis(100)));
        let unknown = Backlog {
            delivery_bytes_per_s: 0,
            ..backlog
        };
        assert_eq!(unknown.time(), None);
        assert_eq!(Backlog::default().time(), Some(Duration::ZERO));
    }
}
