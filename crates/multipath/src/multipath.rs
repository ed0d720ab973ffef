//! One queue of requests above several routes to one unit.
//!
//! Each request takes the route that is expected to complete it first ([`Lane`]). Requests that overlap are not in
//! flight together if one of them writes, because routes have no order between them. Requests that a lost route had not
//! answered move to another route. The target may still execute their writes when the lost route recovers: until that
//! is impossible, because the target has ended its session, later writes of the same blocks are held back
//! ([`Multipath::fenced`]). The writes themselves completed elsewhere with the same data, so nothing else has to wait.

use core::ops::Range;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use wansan_trace::Instant;

use crate::extents::Extents;
use crate::lane::{Lane, Sent};

/// The kind of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Reads data.
    Read,
    /// Changes blocks.
    Write,
    /// Makes completed writes durable, on every route with writes since its last flush.
    Flush,
    /// None of these.
    Other,
}

/// The properties of a request that determine its route.
#[derive(Debug, Clone)]
pub struct Request {
    /// What it does.
    pub kind: Kind,
    /// The blocks that it reads or changes; empty for none.
    pub blocks: Range<u64>,
    /// Bytes transferred; 0 if its duration says nothing about the route, as for a request on many blocks without data.
    pub bytes: u64,
}

/// A request's number, in order of submission.
pub type RequestId = u64;

/// How many of the ready requests are considered while the route of the first is being drained.
const LOOKED_AT: usize = 64;

/// Sans-I/O: [`Multipath::submit`] takes requests, [`Multipath::poll`] returns which request to send on which route,
/// and [`Multipath::completed`], [`Multipath::lost`], [`Multipath::up`] and [`Multipath::fenced`] take the outcome.
#[derive(Debug)]
pub struct Multipath {
    routes: Vec<Route>,
    requests: BTreeMap<RequestId, Open>,
    next: RequestId,
    extents: Extents,
    /// Requests that wait only for a route.
    ready: BTreeSet<RequestId>,
    /// Requests that have a route and are to be sent there.
    chosen: VecDeque<(usize, RequestId)>,
    /// Requests not completed.
    open: usize,
}

/// A route to the unit.
#[derive(Debug, Default)]
struct Route {
    is_up: bool,
    /// Of the routes that are up, those with the lowest rank are used.
    rank: u8,
    reads: Lane,
    writes: Lane,
    /// Completed writes on this route, and how many of them a flush on it has covered.
    written: u64,
    flushed: u64,
}

/// A request that has not completed, or whose writes may still be executed.
#[derive(Debug)]
struct Open {
    request: Request,
    /// Number of earlier requests that it waits for.
    waits_for: usize,
    /// Later requests that wait for this one.
    followers: Vec<RequestId>,
    under_way: Vec<Part>,
    /// Lost routes on which it may still be executed.
    lingers_on: Vec<usize>,
    is_done: bool,
}

/// A request on a route.
#[derive(Debug)]
struct Part {
    route: usize,
    /// Its state in the lane.
    sent: Option<Sent>,
    /// Completed writes on the route before it.
    written: u64,
}

impl Route {
    fn lane(&mut self, kind: Kind) -> Option<&mut Lane> {
        match kind {
            Kind::Read => Some(&mut self.reads),
            Kind::Write => Some(&mut self.writes),
            Kind::Flush | Kind::Other => None,
        }
    }

    /// Requests in flight whose data is counted.
    fn open(&self) -> u64 {
        self.reads.open() + self.writes.open()
    }

    /// The lane that gives the cost of a request.
    fn priced(&self, kind: Kind) -> &Lane {
        match kind {
            Kind::Read => &self.reads,
            Kind::Write | Kind::Flush | Kind::Other => &self.writes,
        }
    }
}

impl Multipath {
    /// A queue over `routes` routes, all down.
    #[must_use]
    pub fn new(routes: usize) -> Multipath {
        Multipath {
            routes: std::iter::repeat_with(Route::default)
                .take(routes)
                .collect(),
            requests: BTreeMap::new(),
            next: 0,
            extents: Extents::default(),
            ready: BTreeSet::new(),
            chosen: VecDeque::new(),
            open: 0,
        }
    }

    /// Requests not completed.
    #[must_use]
    pub fn open(&self) -> usize {
        self.open
    }

    /// Marks the route up. It is not used while routes of a lower rank are up. Earlier requests on it can no longer be
    /// executed.
    pub fn up(&mut self, route: usize, rank: u8) {
        self.fenced(route);
        let before = &self.routes[route];
        self.routes[route] = Route {
            is_up: true,
            rank,
            // Written data belongs to the unit, whichever session wrote it.
            written: before.written,
            flushed: before.flushed,
            ..Route::default()
        };
    }

    /// Submits a request.
    pub fn submit(&mut self, request: Request) -> RequestId {
        let id = self.next;
        self.next += 1;
        let writes = request.kind == Kind::Write;
        let mut waits_for = 0;
        for earlier in self.extents.overlapping(&request.blocks) {
            let Some(earlier) = self.requests.get_mut(&earlier) else {
                continue;
            };
            let conflicts = match earlier.is_done {
                true => writes,
                false => writes || earlier.request.kind == Kind::Write,
            };
            if conflicts {
                earlier.followers.push(id);
                waits_for += 1;
            }
        }
        self.extents.insert(id, &request.blocks);
        if waits_for == 0 {
            self.ready.insert(id);
        }
        self.open += 1;
        let open = Open {
            request,
            waits_for,
            followers: Vec::new(),
            under_way: Vec::new(),
            lingers_on: Vec::new(),
            is_done: false,
        };
        self.requests.insert(id, open);
        id
    }

    /// The next request to send, and its route.
    pub fn poll(&mut self, now: Instant) -> Option<(usize, RequestId)> {
        if self.chosen.is_empty() {
            self.choose(now);
        }
        self.chosen.pop_front()
    }

    /// Assigns the oldest ready request its route, or its routes. If its route is being drained and there are others,
    /// the request waits, and so do later ones of its kind.
    fn choose(&mut self, now: Instant) {
        let has_choice = self.usable().count() > 1;
        let mut waiting: Option<Kind> = None;
        for &id in self.ready.iter().take(LOOKED_AT) {
            let request = &self.requests[&id].request;
            if waiting == Some(request.kind) {
                continue;
            }
            let Some(cheapest) = self.cheapest(request, now) else {
                return;
            };
            if !has_choice || !self.routes[cheapest].priced(request.kind).drains() {
                return self.take(id, cheapest, now);
            }
            if waiting.replace(request.kind).is_some() {
                return;
            }
        }
    }

    /// The routes that are up and of the best rank.
    fn usable(&self) -> impl Iterator<Item = (usize, &Route)> {
        let up = self.routes.iter().filter(|route| route.is_up);
        let rank = up.map(|route| route.rank).min();
        let routes = self.routes.iter().enumerate();
        routes.filter(move |(_, route)| route.is_up && Some(route.rank) == rank)
    }

    /// The route with the lowest cost for a request.
    fn cheapest(&self, request: &Request, now: Instant) -> Option<usize> {
        let priced = self.usable().map(|(place, route)| {
            let cost_ns = route.priced(request.kind).costs_ns(request.bytes, now);
            (place, cost_ns, route.open())
        });
        let cheapest = priced.min_by(|a, b| a.1.total_cmp(&b.1).then(a.2.cmp(&b.2)));
        cheapest.map(|(place, ..)| place)
    }

    /// Assigns a request the route with the lowest cost; a flush also all others with unflushed writes.
    fn take(&mut self, id: RequestId, cheapest: usize, now: Instant) {
        self.ready.remove(&id);
        let mut routes = vec![cheapest];
        if self.requests[&id].request.kind == Kind::Flush {
            let written = self.routes.iter().enumerate();
            let written = written.filter(|(_, route)| route.is_up && route.written > route.flushed);
            routes.extend(
                written
                    .map(|(place, _)| place)
                    .filter(|place| *place != cheapest),
            );
        }
        for route in routes {
            self.send(id, route, now);
        }
    }

    fn send(&mut self, id: RequestId, place: usize, now: Instant) {
        let (route, Some(open)) = (&mut self.routes[place], self.requests.get_mut(&id)) else {
            return;
        };
        let (kind, bytes) = (open.request.kind, open.request.bytes);
        open.under_way.push(Part {
            route: place,
            sent: route
                .lane(kind)
                .filter(|_| bytes > 0)
                .map(|lane| lane.send(bytes, now)),
            written: route.written,
        });
        self.chosen.push_back((place, id));
    }

    /// A route answered a request, which succeeded if `is_good`. Returns whether the request has completed: a flush
    /// completes when all its routes have answered.
    pub fn completed(&mut self, place: usize, id: RequestId, is_good: bool, now: Instant) -> bool {
        let Some(open) = self.requests.get_mut(&id) else {
            return false;
        };
        let is_there = |part: &Part| part.route == place;
        let Some(at) = open.under_way.iter().position(is_there) else {
            return false;
        };
        let part = open.under_way.swap_remove(at);
        let route = &mut self.routes[place];
        let kind = open.request.kind;
        if let (Some(lane), Some(sent)) = (route.lane(kind), part.sent) {
            // A request that failed at once does not show that the route is fast.
            match is_good {
                true => lane.complete(sent, now),
                false => lane.forget(sent),
            }
        }
        match kind {
            // Part of it may be written.
            Kind::Write => route.written += 1,
            Kind::Flush if is_good => route.flushed = route.flushed.max(part.written),
            Kind::Flush | Kind::Read | Kind::Other => {}
        }
        if !open.under_way.is_empty() {
            return false;
        }
        open.is_done = true;
        self.open -= 1;
        self.release(id);
        true
    }

    /// A route is lost. Its unanswered requests move to other routes; the target may still execute their writes.
    pub fn lost(&mut self, place: usize) {
        self.routes[place].is_up = false;
        self.chosen.retain(|(route, _)| *route != place);
        for (id, open) in &mut self.requests {
            let before = open.under_way.len();
            open.under_way.retain(|part| part.route != place);
            if open.under_way.len() == before {
                continue;
            }
            if open.request.kind == Kind::Write {
                open.lingers_on.push(place);
            }
            // A flush on another route covers the writes of this one: written data belongs to the unit.
            if open.under_way.is_empty() {
                self.ready.insert(*id);
            }
        }
    }

    /// Completes a request that a lost route had not answered instead of moving it to another route; it may still be
    /// executed.
    pub fn abandon(&mut self, id: RequestId) {
        if self.ready.remove(&id)
            && let Some(open) = self.requests.get_mut(&id)
        {
            open.is_done = true;
            self.open -= 1;
            self.release(id);
        }
    }

    /// Whether writes of a lost route may still be executed.
    #[must_use]
    pub fn lingers(&self, place: usize) -> bool {
        let mut requests = self.requests.values();
        requests.any(|open| open.lingers_on.contains(&place))
    }

    /// Requests that were in flight on a lost route can no longer be executed: the target has ended its session.
    pub fn fenced(&mut self, place: usize) {
        let mut over = Vec::new();
        for (id, open) in &mut self.requests {
            let before = open.lingers_on.len();
            open.lingers_on.retain(|route| *route != place);
            if open.lingers_on.len() < before && open.is_done {
                over.push(*id);
            }
        }
        for id in over {
            self.release(id);
        }
    }

    /// Forgets a completed request once it can no longer be executed; releases those that wait for it.
    fn release(&mut self, id: RequestId) {
        let Some(open) = self.requests.get_mut(&id) else {
            return;
        };
        let lingers = !open.lingers_on.is_empty();
        let followers = std::mem::take(&mut open.followers);
        if !lingers && let Some(open) = self.requests.remove(&id) {
            self.extents.remove(id, &open.request.blocks);
        }
        let mut still = Vec::new();
        for follower in followers {
            let Some(waiting) = self.requests.get_mut(&follower) else {
                continue;
            };
            // A read returns the same data whether the write is repeated or not.
            if lingers && waiting.request.kind == Kind::Write {
                still.push(follower);
                continue;
            }
            waiting.waits_for -= 1;
            if waiting.waits_for == 0 {
                self.ready.insert(follower);
            }
        }
        if let Some(open) = self.requests.get_mut(&id) {
            open.followers = still;
        }
    }

    /// Fails all requests that have not completed, oldest first.
    pub fn give_up(&mut self) -> Vec<RequestId> {
        let requests = std::mem::take(&mut self.requests);
        let routes = self.routes.len();
        *self = Multipath {
            next: self.next,
            ..Multipath::new(routes)
        };
        let open = requests.into_iter().filter(|(_, open)| !open.is_done);
        open.map(|(id, _)| id).collect()
    }
}
