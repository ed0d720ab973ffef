//! Which route takes the next request.

use serde::{Deserialize, Serialize};
use wansan_trace::Instant;

use crate::lane::{Lane, Sent};

/// How a route is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Policy {
    /// The route on which the request is expected to be done first.
    #[default]
    Earliest,
    /// The next in turn.
    RoundRobin,
    /// The one with the fewest requests in flight.
    QueueDepth,
    /// In proportion to the inverse of the smoothed latencies.
    Latency,
}

/// The direction of a request's data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// To the target: writes.
    Out,
    /// From the target: reads.
    In,
}

/// What is known of all routes.
#[derive(Debug)]
pub struct Selector {
    policy: Policy,
    routes: Vec<Route>,
    turn: usize,
}

#[derive(Debug, Default)]
struct Route {
    lanes: [Lane; 2],
    is_down: bool,
    /// What it is owed, of [`Policy::Latency`].
    credit: f64,
}

impl Selector {
    /// Of so many routes.
    #[must_use]
    pub fn new(policy: Policy, routes: usize) -> Selector {
        Selector {
            policy,
            routes: (0..routes).map(|_| Route::default()).collect(),
            turn: 0,
        }
    }

    /// The route that takes a request of so many bytes; `None` while none is up.
    pub fn choose(&mut self, way: Way, bytes: u64, now: Instant) -> Option<usize> {
        let count = self.routes.len();
        let in_turn = (0..count).map(|step| (self.turn + step) % count);
        let mut up = in_turn.filter(|place| !self.routes[*place].is_down);
        let lane = |place: &usize| &self.routes[*place].lanes[way as usize];
        let place = match self.policy {
            Policy::RoundRobin => up.next(),
            Policy::QueueDepth => up.min_by_key(|place| lane(place).open_requests()),
            Policy::Latency => self.by_credit(way),
            Policy::Earliest => up
                .map(|place| {
                    let lane = lane(&place);
                    (lane.expects_ns(bytes, now), lane.open_requests(), place)
                })
                .min_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)))
                .map(|(.., place)| place),
        }?;
        self.turn = (place + 1) % count;
        Some(place)
    }

    /// A request goes over a route.
    pub fn send(&mut self, place: usize, way: Way, bytes: u64, now: Instant) -> Sent {
        self.routes[place].lanes[way as usize].send(bytes, now)
    }

    /// It was done there.
    pub fn complete(&mut self, place: usize, way: Way, sent: Sent, now: Instant) {
        self.routes[place].lanes[way as usize].complete(sent, now);
    }

    /// It is to be done elsewhere.
    pub fn forget(&mut self, place: usize, way: Way, sent: Sent) {
        self.routes[place].lanes[way as usize].forget(sent);
    }

    /// A route takes requests from now on, or takes none.
    pub fn set_up(&mut self, place: usize, is_up: bool) {
        self.routes[place].is_down = !is_up;
    }

    /// Smooth weighted round robin: each route earns its weight, and the richest pays for all.
    fn by_credit(&mut self, way: Way) -> Option<usize> {
        let mut all = 0.0;
        for route in self.routes.iter_mut().filter(|route| !route.is_down) {
            let weight = 1.0
                / route.lanes[way as usize]
                    .smoothed_ns()
                    .unwrap_or(1.0)
                    .max(1.0);
            route.credit += weight;
            all += weight;
        }
        let up = self
            .routes
            .iter()
            .enumerate()
            .filter(|(_, route)| !route.is_down);
        let (place, _) = up.max_by(|(_, a), (_, b)| a.credit.total_cmp(&b.credit))?;
        self.routes[place].credit -= all;
        Some(place)
    }
}
