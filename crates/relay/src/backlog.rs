//! What delays a byte in a relay.

use std::time::Duration;

use wansan_tcp::{TcpInfo, queues};
use wansan_trace::event::Tcp;
use wansan_trace::{ConnectionId, Instant, SessionId};

use crate::direction::Direction;
use crate::side::Side;

/// Data queued ahead of a byte that arrives at the relay now, in one direction of a flow.
///
/// Bytes sent and not acknowledged are not included: they are on the path, not in the relay.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Backlog {
    /// In the receive queue of the side that the byte comes from, in bytes.
    pub received_bytes: u64,
    /// In the relay's own memory, in bytes.
    pub held_bytes: u64,
    /// Unsent in the send queue of the side that the byte goes to, in bytes.
    pub unsent_bytes: u64,
    /// Delivery rate of the side that the byte goes to, as last measured by TCP, in bytes per second; 0 before the
    /// first measurement. While that side is idle, it may be below the possible rate.
    pub delivery_bytes_per_s: u64,
}

impl Backlog {
    /// The backlog of a direction. Reads the TCP_INFO of the destination side only where bytes wait.
    pub(crate) fn measure(from: &Side, direction: &Direction, to: &Side) -> Backlog {
        let backlog = Backlog::of(from, direction, to, &Tcp::BLANK);
        if backlog.bytes() == 0 {
            return backlog;
        }
        let told =
            TcpInfo::of(to).map(|info| info.record(Instant::ZERO, SessionId(0), ConnectionId(0)));
        Backlog {
            delivery_bytes_per_s: told.map_or(0, |tcp| tcp.delivery_bytes_per_s),
            ..backlog
        }
    }

    /// The backlog of a direction, where `receiving` is the TCP_INFO of the destination side.
    pub(crate) fn of(from: &Side, direction: &Direction, to: &Side, receiving: &Tcp) -> Backlog {
        // A connection that is gone holds nothing.
        Backlog {
            received_bytes: queues::received_bytes(from).unwrap_or(0),
            held_bytes: direction.state.held_bytes() as u64,
            unsent_bytes: queues::unsent_bytes(to).unwrap_or(0),
            delivery_bytes_per_s: receiving.delivery_bytes_per_s,
        }
    }

    /// The sum, in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.received_bytes + self.held_bytes + self.unsent_bytes
    }

    /// How long the byte waits at that rate; `None` where bytes wait and the rate is unknown.
    #[must_use]
    pub fn time(&self) -> Option<Duration> {
        match (self.bytes(), self.delivery_bytes_per_s) {
            (0, _) => Some(Duration::ZERO),
            (_, 0) => None,
            (bytes, rate) => Some(Duration::from_secs_f64(bytes as f64 / rate as f64)),
        }
    }
}

/// Backlog of many flows, in one direction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BacklogSum {
    /// The sum, in bytes.
    pub bytes: u64,
    /// The longest wait of a byte in any flow. Flows of unknown rate do not count.
    pub time_max: Duration,
}

impl BacklogSum {
    /// Adds a flow's backlog.
    pub(crate) fn add(&mut self, backlog: &Backlog) {
        self.merge(&BacklogSum {
            bytes: backlog.bytes(),
            time_max: backlog.time().unwrap_or_default(),
        });
    }

    /// Adds the sum of other flows.
    pub(crate) fn merge(&mut self, other: &BacklogSum) {
        self.bytes += other.bytes;
        self.time_max = self.time_max.max(other.time_max);
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
        let mut sum = BacklogSum::default();
        for one in [backlog, unknown, Backlog::default()] {
            sum.add(&one);
        }
        assert_eq!(sum.bytes, 12_000);
        assert_eq!(sum.time_max, Duration::from_millis(100));
    }
}
