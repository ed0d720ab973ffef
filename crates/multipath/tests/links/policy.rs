//! Which route takes the next request: by lanes, and by other policies.

use wansan_multipath::{Lane, Sent};
use wansan_trace::Instant;

/// How a route is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Policy {
    /// The route that is expected to complete all requests together first.
    Cheapest,
    /// Round robin.
    RoundRobin,
    /// The one with the fewest requests in flight: NVMe's `queue-depth`, dm-multipath's `queue-length`.
    QueueDepth,
    /// In proportion to the inverse of smoothed latencies, as proposed for NVMe (`latency`).
    Latency,
}

/// State of all routes.
#[derive(Debug)]
pub(crate) struct Selector {
    policy: Policy,
    routes: Vec<Route>,
    turn: usize,
}

#[derive(Debug, Default)]
struct Route {
    lane: Lane,
    open: u64,
    smoothed_ns: Option<f64>,
    /// Credit of [`Policy::Latency`].
    credit: f64,
}

impl Selector {
    /// A selector over `routes` routes.
    pub(crate) fn new(policy: Policy, routes: usize) -> Selector {
        Selector {
            policy,
            routes: (0..routes).map(|_| Route::default()).collect(),
            turn: 0,
        }
    }

    /// The route for a request of `bytes`; `None` while the request must wait.
    pub(crate) fn choose(&mut self, bytes: u64, now: Instant) -> Option<usize> {
        let count = self.routes.len();
        let in_turn = (0..count).map(|step| (self.turn + step) % count);
        let lane = |place: &usize| &self.routes[*place].lane;
        let open = |place: &usize| self.routes[*place].open;
        let place = match self.policy {
            Policy::RoundRobin => self.turn,
            Policy::QueueDepth => in_turn.min_by_key(open).expect("there are routes"),
            Policy::Latency => self.by_credit(),
            Policy::Cheapest => {
                let cheapest = in_turn.min_by(|a, b| {
                    let cost = |place| lane(place).costs_ns(bytes, now);
                    cost(a).total_cmp(&cost(b)).then(open(a).cmp(&open(b)))
                });
                let cheapest = cheapest.expect("there are routes");
                if lane(&cheapest).drains() {
                    return None;
                }
                cheapest
            }
        };
        self.turn = (place + 1) % count;
        Some(place)
    }

    /// Counts a request as sent on a route.
    pub(crate) fn send(&mut self, place: usize, bytes: u64, now: Instant) -> Sent {
        self.routes[place].open += 1;
        self.routes[place].lane.send(bytes, now)
    }

    /// Counts a request as completed there after `took_ns`.
    pub(crate) fn complete(&mut self, place: usize, sent: Sent, took_ns: f64, now: Instant) {
        let route = &mut self.routes[place];
        route.open -= 1;
        let before = route.smoothed_ns.unwrap_or(took_ns);
        route.smoothed_ns = Some(before + (took_ns - before) / 8.0);
        route.lane.complete(sent, now);
    }

    /// Smooth weighted round robin: each route's credit grows by its weight; the one with the most is chosen and pays
    /// the sum of the weights.
    fn by_credit(&mut self) -> usize {
        let mut all = 0.0;
        for route in &mut self.routes {
            let weight = 1.0 / route.smoothed_ns.unwrap_or(1.0).max(1.0);
            route.credit += weight;
            all += weight;
        }
        let routes = self.routes.iter().enumerate();
        let (place, _) = routes
            .max_by(|(_, a), (_, b)| a.credit.total_cmp(&b.credit))
            .expect("there are routes");
        self.routes[place].credit -= all;
        place
    }
}
