//! One queue of requests above several routes to one unit.
//!
//! Each request goes to the route on which it is expected to be done first ([`Lane`]). Requests about the same blocks of
//! which one writes are not under way together, as routes have no order between them. What a lost route had not answered
//! goes to another one. Its writes may still be carried out when it comes back to life: until that is impossible,
//! because the target has ended its session, later writes of the same blocks are held back
//! ([`Multipath::fenced`]). The writes themselves were done elsewhere with the same data, so nothing else has to wait.

use core::ops::Range;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use wansan_trace::Instant;

use crate::extents::Extents;
use crate::lane::{Lane, Sent};

/// What a request does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// It brings data.
    Read,
    /// It changes blocks.
    Write,
    /// It makes writes durable that are done: on every route that has done some since it last did so.
    Flush,
    /// Nothing of that.
    Other,
}

/// A request, as far as it matters which route it takes.
#[derive(Debug, Clone)]
pub struct Request {
    /// What it does.
    pub kind: Kind,
    /// The blocks that it is about; empty when it is about none.
    pub blocks: Range<u64>,
    /// The data that it moves; 0 where the time that it takes tells nothing of the route, as of one about many blocks
    /// without data.
    pub bytes: u64,
}

/// The number of a request, in the order of their submission.
pub type RequestId = u64;

/// How many of the requests that are ready are looked at while the route of the first is being drained.
const LOOKED_AT: usize = 64;

/// Sans-I/O: [`Multipath::submit`] takes requests, [`Multipath::poll`] says which route is to be given which, and
/// [`Multipath::completed`], [`Multipath::lost`], [`Multipath::up`] and [`Multipath::fenced`] are told what comes of it.
#[derive(Debug)]
pub struct Multipath {
    routes: Vec<Route>,
    requests: BTreeMap<RequestId, Open>,
    next: RequestId,
    extents: Extents,
    /// Requests that wait for nothing but a route.
    ready: BTreeSet<RequestId>,
    /// Requests that have a route, and are to be given to it.
    chosen: VecDeque<(usize, RequestId)>,
    /// Requests that are not done.
    open: usize,
}

/// A route to the unit.
#[derive(Debug, Default)]
struct Route {
    is_up: bool,
    /// Of routes that are up, those with the lowest are taken.
    rank: u8,
    reads: Lane,
    writes: Lane,
    /// Writes that were done on it, and how many of them a flush on it has covered.
    written: u64,
    flushed: u64,
}

/// A request that is not done, or whose writes may still be carried out.
#[derive(Debug)]
struct Open {
    request: Request,
    /// Earlier requests that it waits for.
    waits_for: usize,
    /// Later requests that wait for it.
    followers: Vec<RequestId>,
    under_way: Vec<Part>,
    /// Lost routes on which it may still be carried out.
    lingers_on: Vec<usize>,
    is_done: bool,
}

/// A request on a route.
#[derive(Debug)]
struct Part {
    route: usize,
    /// As its lane has to know it.
    sent: Option<Sent>,
    /// Writes that were done on the route before.
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

    /// Requests under way whose data is counted.
    fn open(&self) -> u64 {
        self.reads.open() + self.writes.open()
    }

    /// The lane that tells what a request costs.
    fn priced(&self, kind: Kind) -> &Lane {
        match kind {
            Kind::Read => &self.reads,
            Kind::Write | Kind::Flush | Kind::Other => &self.writes,
        }
    }
}

impl Multipath {
    /// Over so many routes, none of which is up.
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

    /// Requests that are not done.
    #[must_use]
    pub fn open(&self) -> usize {
        self.open
    }

    /// The route is there. As long as there are routes of a lower rank, it is not taken. What was under way on it before
    /// cannot be carried out any more.
    pub fn up(&mut self, route: usize, rank: u8) {
        self.fenced(route);
        let before = &self.routes[route];
        self.routes[route] = Route {
            is_up: true,
            rank,
            // Written data is the unit's, whichever session wrote it.
            written: before.written,
            flushed: before.flushed,
            ..Route::default()
        };
    }

    /// Takes a request.
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

    /// The next request to be given to a route, and the route.
    pub fn poll(&mut self, now: Instant) -> Option<(usize, RequestId)> {
        if self.chosen.is_empty() {
            self.choose(now);
        }
        self.chosen.pop_front()
    }

    /// Has the oldest request that is ready take its route, or its routes. One whose route is being drained waits, and
    /// others of its kind with it, where there is another route to choose.
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

    /// The route where a request costs least.
    fn cheapest(&self, request: &Request, now: Instant) -> Option<usize> {
        let priced = self.usable().map(|(place, route)| {
            let cost_ns = route.priced(request.kind).costs_ns(request.bytes, now);
            (place, cost_ns, route.open())
        });
        let cheapest = priced.min_by(|a, b| a.1.total_cmp(&b.1).then(a.2.cmp(&b.2)));
        cheapest.map(|(place, ..)| place)
    }

    /// A request takes the route where it costs least; a flush also all others on which something was written.
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

    /// A route has answered a request, and has carried it out if that `is_good`. Returns whether the request is done: a
    /// flush is when all its routes have answered.
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
            // What failed at once does not tell that the route is fast.
            match is_good {
                true => lane.complete(sent, now),
                false => lane.forget(sent),
            }
        }
        match kind {
            // Some of it may be written.
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

    /// A route is lost. What it has not answered goes to others; its writes may still be carried out.
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
            // A flush on another route covers what was written on this one: the written data is the unit's.
            if open.under_way.is_empty() {
                self.ready.insert(*id);
            }
        }
    }

    /// A request that a lost route had not answered is not to go to another one: it is done as far as anybody waits for
    /// it, and may still be carried out.
    pub fn abandon(&mut self, id: RequestId) {
        if self.ready.remove(&id)
            && let Some(open) = self.requests.get_mut(&id)
        {
            open.is_done = true;
            self.open -= 1;
            self.release(id);
        }
    }

    /// Whether writes of a lost route may still be carried out.
    #[must_use]
    pub fn lingers(&self, place: usize) -> bool {
        let mut requests = self.requests.values();
        requests.any(|open| open.lingers_on.contains(&place))
    }

    /// Nothing that was under way on a lost route can be carried out any more: the target has ended its session.
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

    /// Forgets a request that is done once it cannot be carried out again; lets go those that wait for it.
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
            // What is read is the same whether it is written once more or not.
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

    /// Gives all requests up that are not done, oldest first.
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
