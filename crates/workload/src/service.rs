//! A store with a set service time.

use core::cmp::Reverse;
use std::collections::BinaryHeap;
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

/// One operation's stay at a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Visit {
    /// A server takes it up: the store has been asked.
    pub began: Instant,
    /// The server is done with it.
    pub finished: Instant,
}

/// The queue before the servers, kept as arithmetic: the rate is exact however late a thread wakes up.
#[derive(Debug)]
pub struct Servers {
    service: Duration,
    /// When each server becomes free, soonest on top.
    free_at: BinaryHeap<Reverse<Instant>>,
}

impl Servers {
    /// Idle servers. A number of servers out of range is clamped.
    #[must_use]
    pub fn new(service: ServiceTime) -> Self {
        let servers = service.servers.clamp(1, ServiceTime::MAX_SERVERS) as usize;
        Servers {
            service: service.time,
            free_at: vec![Reverse(Instant::ZERO); servers].into(),
        }
    }

    /// Gives an operation that is asked for at `asked` the server that is free first.
    pub fn book(&mut self, asked: Instant) -> Visit {
        let Some(mut soonest) = self.free_at.peek_mut() else {
            unreachable!("there is at least one server");
        };
        let began = soonest.0.max(asked);
        let finished = began + self.service;
        *soonest = Reverse(finished);
        Visit { began, finished }
    }
}
