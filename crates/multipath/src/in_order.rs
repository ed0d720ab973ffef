//! Which of several routes to use where requests complete in the order in which they were sent, as within a session.

use std::time::Duration;

use wansan_trace::Instant;

mod round_trip;

use self::round_trip::RoundTrip;
use crate::plateau::{Carried, Plateau, Round};
use crate::window::Extreme;

/// Several routes not yet measured together are assumed to be slower than the sum of their rates by this factor.
const MORE: f64 = 1.05;
/// Another choice replaces the current one only if it takes less than this share of its time.
const LESS: f64 = 0.98;
/// A choice was measured at capacity if all bytes took more than this multiple of its round trip. A rate measured below
/// capacity is valid up to this multiple of the bytes in flight at that time.
const ALIKE: f64 = 1.25;
/// Several routes are at capacity once all requests take this many times their longest round trip; none of them alone
/// then carries more.
const FULL: f64 = 1.5;
/// Bytes in flight at the start of a trial of one route; at least two requests.
const FIRST_BYTES: u64 = 64 << 10;
/// Minimum length of a measurement round of one route, and of several, whose rates first have to settle
/// against each other.
const ROUND_NS: f64 = 10e6;
const SEVERAL_NS: f64 = 1e9;
/// Cost of a trial, in round trips.
const ROUNDS_OF_A_TRY: f64 = 5.0;
/// Minimum interval between comparisons of choices: one comparison takes about as long as sending a small command.
const LOOK: Duration = Duration::from_micros(100);
/// Upper bound of the assumed cost of a change.
const PUT_OFF_NS: f64 = 3e9;
/// How long a measured rate takes precedence over a lower one that the route's own requests show, and how long an idle
/// route's round-trip sample is valid.
const RECENT: Duration = Duration::from_secs(1);
/// How long the measured rate of an unused choice is valid: only a trial shows that it has changed. Also how long a
/// busy route's minimum round trip is valid: an increase shows in the rate.
const BELIEVED: Duration = Duration::from_secs(30);
/// TCP's window may keep growing slowly: after this multiple of the measurement's duration, a choice may carry more by
/// this factor.
const TRIES: u32 = 50;
const GROWN: f64 = 2.0;
/// A measurement is out of date once a round trip has become shorter by this factor and by more than pings vary, or
/// once the sum of its routes' own rates has changed by this factor.
const CHANGED: f64 = 1.25;
const VARIES_NS: f64 = 0.5e6;
/// The routes are at a standstill if no request completes for this many times what all requests take, and for longer
/// than TCP's minimum retransmission timeout (TCP_RTO_MIN in Linux).
const STANDSTILL: f64 = 2.0;
const STANDSTILL_NS: f64 = 200e6;
/// Trials of out-of-date choices may cost this share of the time, and at most this much in a burst.
const TRIAL_SHARE: f64 = 0.01;
const MOST_TRIAL_NS: f64 = 2e9;

/// The state of a route that takes requests.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Route {
    /// Time since its oldest unanswered ping was sent, in ns; 0 without one.
    pub unanswered_ns: f64,
    /// Its rate while requests queue on it; `None` if they do not.
    pub full_bytes_per_ns: Option<f64>,
    /// Requests in flight on it.
    pub under_way: u64,
    /// Their data, in bytes.
    pub under_way_bytes: u64,
}

/// A set of routes to use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Choice {
    /// Only the route at this place.
    Alone(usize),
    /// The routes with the shortest round trips, this many of them.
    Shortest(usize),
}

/// The measured rate of a choice.
#[derive(Debug, Clone, Copy)]
struct Measured {
    carried: Carried,
    /// Bytes in flight or waiting during the measurement. Below capacity, more of them would give a higher rate.
    bytes: f64,
    /// Its longest round trip at that time, and the sum of its routes' own rates.
    rtt_ns: f64,
    alone_bytes_per_ns: f64,
    first_at: Instant,
    at: Instant,
    is_out_of_date: bool,
}

/// Chooses the routes on which all of a session's requests, which complete in the order in which they were sent, take
/// the least time.
///
/// A request on a short route waits for earlier ones on a longer route. So several routes may carry less than one of
/// them alone, and the latency of a request on a route beside others does not predict what that route would carry
/// alone. With N bytes in flight or waiting, a choice takes N ÷ its measured rate, and no less than its longest round
/// trip. An unmeasured route is assumed to take its round trip only, and several unmeasured ones slightly more than
/// their own rates suggest; if that beats the current choice, it is tried until its rate stops growing. During a trial
/// of one route, the bytes in flight on it grow no faster than in TCP's slow start, so that a slow route causes little
/// delay.
///
/// At first, trials begin at once. Later the choice changes when keeping to it has cost as much time as a change does,
/// so that a short dip changes nothing. A measurement is out of date, and the choice is tried again, once it is old or
/// one of its routes is lost or replaced, has a clearly shorter round trip, or carries clearly more or less by itself.
/// The time that these trials may lose is bounded.
///
/// Before each request, call [`set`](InOrder::set) with each route's state, then [`choose`](InOrder::choose), then ask
/// [`takes`](InOrder::takes) and [`has_room`](InOrder::has_room) of each route. Report completions to
/// [`done`](InOrder::done), answered pings to [`pinged`](InOrder::pinged), and lost routes to [`lost`](InOrder::lost).
#[derive(Debug)]
pub struct InOrder {
    /// By place; `None` for routes that take no requests.
    routes: Vec<Option<Route>>,
    rtts: Vec<RoundTrip>,
    /// Places of routes with a known round trip, shortest first.
    order: Vec<usize>,
    /// By place, what each route carries alone; by count, what this many of the shortest carry together.
    alone: Vec<Option<Measured>>,
    shortest: Vec<Option<Measured>>,
    chosen: Option<Choice>,
    plateau: Plateau,
    /// Recent maximum of bytes in flight or waiting, as completions come in bursts.
    bytes: Extreme,
    request_bytes: u64,
    /// The time that keeping to the current choice has cost, in ns, up to `missed_at`.
    missed_ns: f64,
    missed_at: Instant,
    /// When choices were compared last.
    looked_at: Instant,
    /// The time that trials of out-of-date choices may still lose, in ns.
    credit_ns: f64,
    /// During such a trial, the time that all requests took with the previous choice.
    left_ns: Option<f64>,
}

impl Default for InOrder {
    fn default() -> InOrder {
        InOrder {
            routes: Vec::new(),
            rtts: Vec::new(),
            order: Vec::new(),
            alone: Vec::new(),
            shortest: Vec::new(),
            chosen: None,
            plateau: Plateau::default(),
            bytes: Extreme::most(RECENT),
            request_bytes: 0,
            missed_ns: 0.0,
            missed_at: Instant::ZERO,
            looked_at: Instant::ZERO,
            credit_ns: MOST_TRIAL_NS,
            left_ns: None,
        }
    }
}

impl InOrder {
    /// Sets the state of the route at `place`; `None` if it takes no requests.
    pub fn set(&mut self, place: usize, route: Option<Route>) {
        self.admit(place);
        self.routes[place] = route;
    }

    /// Records that a ping on the route at `place` took `took`; `is_idle` if no request was in flight on it.
    pub fn pinged(&mut self, place: usize, took: Duration, is_idle: bool, now: Instant) {
        self.admit(place);
        self.rtts[place].add(took, is_idle, now);
    }

    /// Marks the route at `place` as lost and forgets what was measured on it, which does not apply to its replacement.
    pub fn lost(&mut self, place: usize) {
        self.admit(place);
        self.routes[place] = None;
        self.rtts[place] = RoundTrip::unknown();
        self.alone[place] = None;
        // Which routes are the shortest may change.
        self.shortest.fill(None);
        if self.takes(place) {
            self.chosen = None;
        }
    }

    fn admit(&mut self, place: usize) {
        let places = self.routes.len().max(place + 1);
        self.routes.resize(places, None);
        self.rtts.resize(places, RoundTrip::unknown());
        self.alone.resize(places, None);
        self.shortest.resize(places + 1, None);
    }

    /// Chooses routes before a request of `request_bytes` (0 without data) is sent; `bytes` of data are in flight or
    /// waiting, including its own.
    pub fn choose(&mut self, request_bytes: u64, bytes: u64, now: Instant) {
        let mut routes = self.routes.iter().flatten();
        if routes.all(|route| route.under_way == 0) {
            let idle = self.plateau.was_idle(now);
            self.missed_at = (self.missed_at + idle).min(now);
        }
        if request_bytes == 0 {
            // A request without data uses the current choice, and measures nothing.
            return;
        }
        self.request_bytes = request_bytes;
        self.bytes.add(bytes as f64, now);
        let is_there = |choice: &Choice| self.rtt_ns(*choice).is_finite();
        if self.chosen.as_ref().is_some_and(is_there) && now < self.looked_at + LOOK {
            return;
        }
        self.looked_at = now;
        self.sort();
        let passed_ns = now.since(self.missed_at).as_nanos() as f64;
        self.missed_at = now;
        self.credit_ns = (self.credit_ns + TRIAL_SHARE * passed_ns).min(MOST_TRIAL_NS);
        self.outdate(now);
        let Some((best_ns, best)) = self.best(now) else {
            return;
        };
        let is_there = |choice: &Choice| self.rtt_ns(*choice).is_finite();
        let mut left_ns = None;
        if let Some(chosen) = self.chosen.filter(is_there) {
            let silent_ns = self.plateau.silent_ns(now);
            // A trial ends early only at a standstill: otherwise none would ever end.
            let (takes_ns, enough_ns) = match self.measured_of(chosen) {
                Some(_) => (self.takes_ns(chosen, now).max(silent_ns), best_ns / LESS),
                None => (silent_ns, CHANGED * best_ns + VARIES_NS),
            };
            if best == chosen || takes_ns <= enough_ns {
                self.missed_ns = 0.0;
                return;
            }
            self.missed_ns += passed_ns * (1.0 - best_ns / takes_ns);
            let measured = self.measured_of(chosen);
            let is_new = measured.is_none_or(|measured| now < measured.first_at + RECENT);
            if !is_new && self.missed_ns < self.change_ns(takes_ns, best_ns, best, now) {
                return;
            }
            // A choice at a standstill is tried again once its pings are answered as before.
            let carried = self.plateau.so_far(now);
            if let Some(carried) = carried.filter(|_| silent_ns > best_ns) {
                self.record(chosen, carried, silent_ns, now);
            }
            left_ns = Some(takes_ns);
        }
        self.left_ns = None;
        if self.rate(best, now).is_none() && self.memory(best).take().is_some() {
            self.left_ns = left_ns;
        }
        self.chosen = Some(best);
        self.missed_ns = 0.0;
        let older = self.routes.iter().flatten();
        let older = older.map(|route| route.under_way).sum();
        self.plateau = Plateau::begin(older, now);
    }

    /// Choice `number`: first each route alone, shortest first, then the shortest two together, three, and so on.
    fn choice(&self, number: usize) -> Choice {
        match self.order.get(number) {
            Some(place) => Choice::Alone(*place),
            None => Choice::Shortest(number - self.order.len() + 2),
        }
    }

    /// Number of choices.
    fn choices(&self) -> usize {
        (2 * self.order.len()).saturating_sub(1)
    }

    /// The choice that takes the least time for all requests, and that time in ns.
    fn best(&self, now: Instant) -> Option<(f64, Choice)> {
        let possible = (0..self.choices()).map(|number| self.choice(number));
        let times = possible.map(|choice| (self.takes_ns(choice, now), choice));
        times.min_by(|a, b| a.0.total_cmp(&b.0))
    }

    /// What a change costs, in ns: requests in flight have to complete first, and a trial takes some round trips.
    fn change_ns(&self, takes_ns: f64, best_ns: f64, best: Choice, now: Instant) -> f64 {
        let rounds = match self.rate(best, now) {
            Some(_) => 0.0,
            None => ROUNDS_OF_A_TRY,
        };
        let costs_ns = takes_ns + best_ns + rounds * self.rtt_ns(best).max(ROUND_NS);
        costs_ns.min(PUT_OFF_NS)
    }

    /// Sorts routes by round trip. Routes whose round trips hardly differ keep their order, so that the set of the
    /// shortest ones stays the same: measurements do not apply to another set.
    fn sort(&mut self) {
        let rtt_ns = |place: usize| self.route_rtt_ns(place).unwrap_or(f64::INFINITY);
        let is_known = |place: &usize| rtt_ns(*place).is_finite();
        let is_shorter =
            |one: usize, other: usize| CHANGED * rtt_ns(one) + VARIES_NS < rtt_ns(other);
        let is_complete = (0..self.routes.len()).filter(is_known).count() == self.order.len();
        let is_sorted = self.order.windows(2).all(|of| !is_shorter(of[1], of[0]));
        if is_complete && is_sorted && self.order.iter().all(is_known) {
            return;
        }
        let mut order: Vec<usize> = self.order.iter().copied().filter(is_known).collect();
        let new =
            (0..self.routes.len()).filter(|place| is_known(place) && !self.order.contains(place));
        order.extend(new);
        for end in 1..order.len() {
            for at in (1..=end).rev() {
                if is_shorter(order[at], order[at - 1]) {
                    order.swap(at, at - 1);
                }
            }
        }
        for count in 2..=order.len() {
            let before = self.order.iter().take(count);
            if !before.clone().all(|place| order[..count].contains(place)) || before.len() < count {
                self.shortest[count] = None;
                self.chosen = self
                    .chosen
                    .filter(|chosen| *chosen != Choice::Shortest(count));
            }
        }
        self.order = order;
    }

    /// The round trip of a route that takes requests.
    fn route_rtt_ns(&self, place: usize) -> Option<f64> {
        self.routes[place]?;
        self.rtts[place].least_ns()
    }

    /// Whether the route at `place` is in use.
    #[must_use]
    pub fn takes(&self, place: usize) -> bool {
        self.chosen.is_none_or(|chosen| match chosen {
            Choice::Alone(only) => place == only,
            Choice::Shortest(count) => self.order.iter().take(count).any(|taken| *taken == place),
        })
    }

    /// Whether a request of `bytes` may go to the route at `place` now.
    #[must_use]
    pub fn has_room(&self, place: usize, bytes: u64) -> bool {
        let is_tried = self.chosen == Some(Choice::Alone(place)) && self.alone[place].is_none();
        let route = self.routes.get(place).copied().flatten();
        let under_way_bytes = route.map_or(0, |route| route.under_way_bytes);
        let first_bytes = FIRST_BYTES.max(2 * bytes);
        let room = self.plateau.growth().saturating_mul(first_bytes);
        bytes == 0 || !is_tried || under_way_bytes + bytes <= room
    }

    /// Records that a request with `bytes` of data has completed on the route at `place`.
    pub fn done(&mut self, place: usize, bytes: u64, now: Instant) {
        let Some(chosen) = self.chosen else {
            return;
        };
        if bytes == 0 || !self.takes(place) {
            self.plateau.older_done(now);
            return;
        }
        let rtt_ns = self.rtt_ns(chosen);
        let stands_still_ns = (STANDSTILL * self.takes_ns(chosen, now)).max(STANDSTILL_NS);
        if self.measured_of(chosen).is_some() && self.plateau.silent_ns(now) > stands_still_ns {
            *self.memory(chosen) = None;
            self.plateau = Plateau::begin(0, now);
            (self.missed_ns, self.missed_at) = (0.0, now);
        }
        let (round_ns, is_tried) = match chosen {
            Choice::Alone(_) => (ROUND_NS, self.measured_of(chosen).is_none()),
            Choice::Shortest(_) => (SEVERAL_NS, false),
        };
        let round = Round {
            least_ns: (2.0 * rtt_ns).max(round_ns),
            // A slow route would take too long for all of them.
            least_bytes: if is_tried { 0.0 } else { self.all_bytes() } as u64,
        };
        if let Some(carried) = self.plateau.done(bytes, round, now) {
            self.record(chosen, carried, rtt_ns, now);
        }
    }

    fn record(&mut self, choice: Choice, carried: Carried, rtt_ns: f64, now: Instant) {
        if let Some(left_ns) = self.left_ns.take() {
            let takes_ns = self.all_bytes() / carried.bytes_per_ns;
            let took_ns = carried.took.as_nanos() as f64;
            self.credit_ns -= took_ns * (1.0 - left_ns / takes_ns).max(0.0);
        }
        let bytes = self.all_bytes();
        let alone_bytes_per_ns = self.alone_bytes_per_ns(choice);
        let first_at = self
            .memory(choice)
            .map_or(now, |measured| measured.first_at);
        *self.memory(choice) = Some(Measured {
            carried,
            bytes,
            rtt_ns,
            alone_bytes_per_ns,
            first_at,
            at: now,
            is_out_of_date: false,
        });
    }

    fn memory(&mut self, choice: Choice) -> &mut Option<Measured> {
        match choice {
            Choice::Alone(place) => &mut self.alone[place],
            Choice::Shortest(count) => &mut self.shortest[count],
        }
    }

    fn measured_of(&self, choice: Choice) -> Option<Measured> {
        match choice {
            Choice::Alone(place) => self.alone[place],
            Choice::Shortest(count) => self.shortest[count],
        }
    }

    /// Marks measurements that are out of date.
    fn outdate(&mut self, now: Instant) {
        let chosen = self.chosen.map(|chosen| self.takes_ns(chosen, now));
        let chosen_ns = chosen.unwrap_or(f64::INFINITY);
        for number in 0..self.choices() {
            let choice = self.choice(number);
            let Some(measured) = self.measured_of(choice) else {
                continue;
            };
            let is_shorter = measured.rtt_ns > CHANGED * self.pinged_ns(choice) + VARIES_NS;
            let (then, alone) = (measured.alone_bytes_per_ns, self.alone_bytes_per_ns(choice));
            let is_known = (then + alone).is_finite();
            let has_changed = is_known && then.max(alone) > CHANGED * then.min(alone);
            let grown_ns = self.all_bytes() / (GROWN * measured.carried.bytes_per_ns);
            let may_be_better = grown_ns < LESS * chosen_ns;
            let has_grown = may_be_better && now >= measured.at + measured.carried.took * TRIES;
            let is_old = has_grown || now >= measured.at + BELIEVED;
            if let Some(measured) = self.memory(choice) {
                measured.is_out_of_date |= is_shorter || has_changed || is_old;
            }
        }
    }

    /// Whether a measurement is used: an out-of-date one is, if it is the current choice's or no trial is affordable.
    fn is_believed(&self, choice: Choice, measured: &Measured) -> bool {
        self.chosen == Some(choice) || self.credit_ns <= 0.0 || !measured.is_out_of_date
    }

    /// The sum of the own rates of the routes in a choice of several; infinite if one is unmeasured, 0 for a single
    /// route.
    fn alone_bytes_per_ns(&self, choice: Choice) -> f64 {
        let Choice::Shortest(_) = choice else {
            return 0.0;
        };
        let rates = self.places(choice).map(|place| self.alone[place]);
        let rates = rates.map(|measured| {
            measured.map_or(f64::INFINITY, |measured| measured.carried.bytes_per_ns)
        });
        rates.sum()
    }

    fn all_bytes(&self) -> f64 {
        self.bytes.get().unwrap_or(0.0)
    }

    fn places(&self, choice: Choice) -> impl Iterator<Item = usize> {
        let (only, count) = match choice {
            Choice::Alone(place) => (Some(place), 0),
            Choice::Shortest(count) => (None, count),
        };
        only.into_iter()
            .chain(self.order.iter().take(count).copied())
    }

    /// The longest round trip of pings on a choice's routes.
    fn pinged_ns(&self, choice: Choice) -> f64 {
        let rtts = self.places(choice).map(|place| self.route_rtt_ns(place));
        rtts.map(|rtt_ns| rtt_ns.unwrap_or(f64::INFINITY))
            .fold(0.0, f64::max)
    }

    /// The longest round trip of a choice's routes; for one not in use, at least the time that its oldest ping has
    /// waited.
    fn rtt_ns(&self, choice: Choice) -> f64 {
        let left = self.places(choice).filter(|place| !self.takes(*place));
        let unanswered = left.filter_map(|place| Some(self.routes[place]?.unanswered_ns));
        unanswered.fold(self.pinged_ns(choice), f64::max)
    }

    /// The rate of the routes in use, if they are several and at capacity and `choice` is one of them alone: it bounds
    /// an older measurement of that one.
    fn full_several(&self, choice: Choice) -> Option<f64> {
        let (Choice::Alone(place), Some(chosen @ Choice::Shortest(_))) = (choice, self.chosen)
        else {
            return None;
        };
        let measured = self.measured_of(chosen).filter(|_| self.takes(place))?;
        let takes_ns = measured.bytes / measured.carried.bytes_per_ns;
        (takes_ns > FULL * self.pinged_ns(chosen)).then_some(measured.carried.bytes_per_ns)
    }

    /// The time that a choice takes for all bytes in flight or waiting, in ns.
    fn takes_ns(&self, choice: Choice, now: Instant) -> f64 {
        let rtt_ns = self.rtt_ns(choice);
        let takes_ns = |rate: f64| rtt_ns.max(self.all_bytes() / rate);
        match (choice, self.rate(choice, now)) {
            (_, Some(rate)) => takes_ns(rate),
            (Choice::Alone(_), None) => rtt_ns,
            (Choice::Shortest(count), None) => {
                let (mut sum, mut longest_ns) = (0.0, 0.0_f64);
                for place in self.order.iter().take(count) {
                    let alone = Choice::Alone(*place);
                    let rate = self.rate(alone, now).unwrap_or(f64::INFINITY);
                    sum += rate;
                    let one_ns = self.rtt_ns(alone) + self.request_bytes as f64 / rate;
                    longest_ns = longest_ns.max(one_ns);
                }
                MORE * longest_ns.max(self.all_bytes() / sum)
            }
        }
    }

    /// The rate of a choice; `None` if unknown.
    fn rate(&self, choice: Choice, now: Instant) -> Option<f64> {
        let rtt_ns = self.rtt_ns(choice);
        let measured = self.measured_of(choice).filter(|measured| {
            let took_ns = measured.bytes / measured.carried.bytes_per_ns;
            let was_full = took_ns > ALIKE * rtt_ns;
            let is_alike = was_full || self.all_bytes() <= ALIKE * measured.bytes;
            is_alike && self.is_believed(choice, measured)
        });
        let full = match choice {
            Choice::Alone(place) if self.chosen != Some(choice) => {
                self.routes[place].and_then(|route| route.full_bytes_per_ns)
            }
            _ => None,
        };
        let rate = match (measured, full) {
            (Some(measured), Some(full)) if now > measured.at + RECENT => {
                Some(full.min(measured.carried.bytes_per_ns))
            }
            (Some(measured), _) => Some(measured.carried.bytes_per_ns),
            (None, full) => full,
        };
        match self.full_several(choice) {
            Some(several) => Some(rate.map_or(several, |rate| rate.min(several))),
            None => rate,
        }
    }
}

#[cfg(test)]
mod tests;
