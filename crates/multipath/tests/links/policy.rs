//! Which route takes the next request: by lanes, and as others choose.

use wansan_multipath::{Lane, Sent};
use wansan_trace::Instant;

/// How a route is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Policy {
    /// The route on which the request is expected to be done first.
    Earliest,
    /// The next in turn.
    RoundRobin,
    /// The one with the fewest requests in flight: NVMe's `queue-depth`, dm-multipath's `queue-length`.
    QueueDepth,
    /// In proportion to the inverse of the smoothed latencies, as proposed for NVMe (`latency`).
    Latency,
}

/// What is known of all routes.
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
    /// What it is owed, of [`Policy::Latency`].
    credit: f64,
}

impl Selector {
    /// Of so many routes.
    pub(crate) fn new(policy: Policy, routes: usize) -> Selector {
        Selector {
            policy,
            routes: (0..routes).map(|_| Route::default()).collect(),
            turn: 0,
        }
    }

    /// The route that takes a request of so many bytes.
    pub(crate) fn choose(&mut self, bytes: u64, now: Instant) -> usize {
        let count = self.routes.len();
        let in_turn = (0..count).map(|step| (self.turn + step) % count);
        let lane = |place: &usize| &self.routes[*place].lane;
        let open = |place: &usize| self.routes[*place].open;
        let place = match self.policy {
            Policy::RoundRobin => self.turn,
            Policy::QueueDepth => in_turn.min_by_key(open).expect("there are routes"),
            Policy::Latency => self.by_credit(),
            Policy::Earliest => in_turn
                .min_by(|a, b| {
                    let by_time = lane(a)
                        .expects_ns(bytes, now)
                        .total_cmp(&lane(b).expects_ns(bytes, now));
                    by_time.then(open(a).cmp(&open(b)))
                })
                .expect("there are routes"),
        };
        self.turn = (place + 1) % count;
        place
    }

    /// A request goes over a route.
    pub(crate) fn send(&mut self, place: usize, bytes: u64, now: Instant) -> Sent {
        self.routes[place].open += 1;
        self.routes[place].lane.send(bytes, now)
    }

    /// It was done there, and took so long.
    pub(crate) fn complete(&mut self, place: usize, sent: Sent, took_ns: f64, now: Instant) {
        let route = &mut self.routes[place];
        route.open -= 1;
        let before = route.smoothed_ns.unwrap_or(took_ns);
        route.smoothed_ns = Some(before + (took_ns - before) / 8.0);
        route.lane.complete(sent, now);
    }

    /// Smooth weighted round robin: each route earns its weight, and the richest pays for all.
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
