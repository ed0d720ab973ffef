//! Stores with given service times.

use core::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;
use std::time::Duration;

use wansan_trace::Instant;

/// A service time: `servers` servers process operations first come, first served, each in `time`.
/// The store's rate is thus at most `servers / time`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServiceTime {
    /// Time that one operation, of whatever kind and size, occupies a server; not zero.
    pub time: Duration,
    /// Operations served at once, 1 to [`ServiceTime::MAX_SERVERS`].
    pub servers: u32,
}

impl ServiceTime {
    /// Most servers that a store may have.
    pub const MAX_SERVERS: u32 = 65_536;
}

/// The service of a store: `servers` servers process operations first come, first served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Service {
    /// How long each operation occupies a server, used cyclically; at least one, none of them zero.
    pub times: Arc<[Duration]>,
    /// Operations served at once, 1 to [`ServiceTime::MAX_SERVERS`].
    pub servers: u32,
}

impl From<ServiceTime> for Service {
    fn from(service: ServiceTime) -> Self {
        Service {
            times: [service.time].into(),
            servers: service.servers,
        }
    }
}

/// An operation's time at a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Visit {
    /// When a server starts it.
    pub began: Instant,
    /// When the server completes it.
    pub finished: Instant,
}

/// The queue in front of the servers, computed arithmetically: the rate is exact however late a thread wakes up.
#[derive(Debug)]
pub struct Servers {
    times: Arc<[Duration]>,
    /// Index of the next service time.
    turn: usize,
    /// When each server becomes free, earliest on top.
    free_at: BinaryHeap<Reverse<Instant>>,
}

impl Servers {
    /// Idle servers. A number of servers out of range is clamped.
    #[must_use]
    pub fn new(service: impl Into<Service>) -> Self {
        let service = service.into();
        let servers = service.servers.clamp(1, ServiceTime::MAX_SERVERS) as usize;
        Servers {
            times: service.times,
            turn: 0,
            free_at: vec![Reverse(Instant::ZERO); servers].into(),
        }
    }

    /// Assigns an operation submitted at `asked` to the server that becomes free first.
    pub fn book(&mut self, asked: Instant) -> Visit {
        let Some(mut soonest) = self.free_at.peek_mut() else {
            unreachable!("there is at least one server");
        };
        let began = soonest.0.max(asked);
        let finished = began + self.times[self.turn];
        self.turn = (self.turn + 1) % self.times.len();
        *soonest = Reverse(finished);
        Visit { began, finished }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_take_turns_and_operations_wait_for_a_server() {
        let ms = Duration::from_millis;
        let mut servers = Servers::new(Service {
            times: [ms(1), ms(3)].into(),
            servers: 2,
        });
        let at = |ms: u64| Instant::from_ns(ms * 1_000_000);
        let visits = [0, 0, 0, 0].map(|asked| servers.book(at(asked)));
        let stays = visits.map(|visit| (visit.began, visit.finished));
        let expected = [(0, 1), (0, 3), (1, 2), (2, 5)].map(|(from, to)| (at(from), at(to)));
        assert_eq!(stays, expected);
    }
}
