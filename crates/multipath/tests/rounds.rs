//! Rounds of random requests over routes that are cut, recover and change their delays: every block read, and every
//! block at the end, has the content that the order of requests requires, whatever a lost route still executes.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use wansan_multipath::{Flapping, Kind, Multipath, Request, RequestId};
use wansan_trace::Instant;

const ROUTES: usize = 3;
const BLOCKS: u64 = 48;
const REQUESTS: u64 = 3000;
const PARALLEL: usize = 16;

/// How writes of a lost route are fenced.
#[derive(Clone, Copy, PartialEq)]
enum Fence {
    /// The target ends the session before the queue learns of it.
    Target,
    /// The queue learns of an end of the session that does not happen.
    Pretended,
}

#[derive(Debug, Clone)]
enum Event {
    /// A command reaches the target on a session of that route.
    Arrives {
        route: usize,
        session: u64,
        id: RequestId,
    },
    /// The response arrives, with the data read.
    Answers {
        route: usize,
        session: u64,
        id: RequestId,
        data: Vec<u64>,
    },
    /// The route carries nothing for `time`.
    Cut { route: usize, time: Duration },
    /// The initiator notices the loss.
    Notice { route: usize, session: u64 },
    /// Asks the target to end the session.
    Fence { route: usize },
    /// A new session.
    Login { route: usize },
}

/// A route in the simulated network.
struct Route {
    delay: Duration,
    cut_until: Instant,
    /// The current or last session, and the first one whose commands the target accepts.
    session: u64,
    lives_from: u64,
    is_up: bool,
    flapping: Flapping,
}

struct World {
    random: Pcg64Mcg,
    now: Instant,
    events: BTreeMap<(Instant, u64), Event>,
    numbered: u64,
    routes: Vec<Route>,
    queue: Multipath,
    fence: Fence,
    /// Open requests, and the data that a read must return.
    open: BTreeMap<RequestId, (Request, u64, Vec<u64>)>,
    done: BTreeMap<RequestId, (Request, u64, Vec<u64>)>,
    /// Actual content of the blocks, and the content that the order of requests requires.
    blocks: Vec<u64>,
    model: Vec<u64>,
    wrong: u64,
    /// Route losses.
    losses: u64,
}

impl World {
    fn new(seed: u64, fence: Fence) -> World {
        let mut queue = Multipath::new(ROUTES);
        let route = |delay_ms| Route {
            delay: Duration::from_millis(delay_ms),
            cut_until: Instant::ZERO,
            session: 0,
            lives_from: 0,
            is_up: true,
            flapping: Flapping::up(Instant::ZERO),
        };
        for place in 0..ROUTES {
            queue.up(place, 0);
        }
        World {
            random: Pcg64Mcg::seed_from_u64(seed),
            now: Instant::from_ns(1),
            events: BTreeMap::new(),
            numbered: 0,
            routes: [1, 5, 20].map(route).into(),
            queue,
            fence,
            open: BTreeMap::new(),
            done: BTreeMap::new(),
            blocks: vec![0; BLOCKS as usize],
            model: vec![0; BLOCKS as usize],
            wrong: 0,
            losses: 0,
        }
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.random.next_u64() % bound
    }

    fn ms(&mut self, bound: u64) -> Duration {
        Duration::from_micros(self.below(bound * 1000))
    }

    fn at(&mut self, when: Instant, event: Event) {
        self.numbered += 1;
        self.events.insert((when, self.numbered), event);
    }

    /// When a message sent now on a route arrives: after the route has recovered.
    fn carried(&mut self, route: usize) -> Instant {
        let jitter = self.ms(3);
        let route = &self.routes[route];
        self.now.max(route.cut_until) + route.delay + jitter
    }

    fn submit(&mut self, value: u64) {
        let start = self.below(BLOCKS);
        let blocks = start..(start + 1 + self.below(6)).min(BLOCKS);
        let kind = match self.below(10) {
            0..4 => Kind::Read,
            4..9 => Kind::Write,
            _ => Kind::Flush,
        };
        let blocks = if kind == Kind::Flush { 0..0 } else { blocks };
        let place = blocks.start as usize..blocks.end as usize;
        if kind == Kind::Write {
            self.model[place.clone()].fill(value);
        }
        let request = Request {
            kind,
            bytes: (blocks.end - blocks.start) * 4096,
            blocks,
        };
        let expected = self.model[place].to_vec();
        let id = self.queue.submit(request.clone());
        self.open.insert(id, (request, value, expected));
    }

    fn give(&mut self) {
        let mut given = VecDeque::new();
        while let Some(chosen) = self.queue.poll(self.now) {
            given.push_back(chosen);
        }
        for (route, id) in given {
            let when = self.carried(route);
            let session = self.routes[route].session;
            self.at(when, Event::Arrives { route, session, id });
        }
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Arrives { route, session, id } => {
                if session < self.routes[route].lives_from {
                    return;
                }
                let Some((request, value, _)) =
                    self.open.get(&id).cloned().or_else(|| self.late(id))
                else {
                    return;
                };
                let place = request.blocks.start as usize..request.blocks.end as usize;
                if request.kind == Kind::Write {
                    self.blocks[place.clone()].fill(value);
                }
                let data = self.blocks[place].to_vec();
                let when = self.carried(route);
                let answer = Event::Answers {
                    route,
                    session,
                    id,
                    data,
                };
                self.at(when, answer);
            }
            Event::Answers {
                route,
                session,
                id,
                data,
            } => {
                let of = &self.routes[route];
                if !of.is_up
                    || session != of.session
                    || !self.queue.completed(route, id, true, self.now)
                {
                    return;
                }
                if let Some((request, _, expected)) = self.open.get(&id)
                    && request.kind == Kind::Read
                {
                    self.wrong += u64::from(*expected != data);
                }
                self.finish(id);
            }
            Event::Cut { route, time } => {
                self.routes[route].cut_until = self.now + time;
                let when = self.now + self.ms(40);
                let session = self.routes[route].session;
                self.at(when, Event::Notice { route, session });
                let next = self.now + time + self.ms(400);
                let time = self.ms(150);
                self.at(next, Event::Cut { route, time });
                self.routes[route].delay = self.ms(40);
            }
            Event::Notice { route, session } => {
                // A short cut goes unnoticed.
                let of = &mut self.routes[route];
                if !of.is_up || session != of.session || of.cut_until < self.now {
                    return;
                }
                of.is_up = false;
                let next = of.flapping.lost(self.now);
                let before = self.queue.open();
                self.queue.lost(route);
                assert_eq!(self.queue.open(), before);
                self.losses += 1;
                if self.fence == Fence::Pretended {
                    self.queue.fenced(route);
                }
                let fenced = self.now + self.ms(60);
                self.at(fenced, Event::Fence { route });
                let login = fenced.max(next.min(self.now + Duration::from_millis(300)));
                self.at(login, Event::Login { route });
            }
            Event::Fence { route } => {
                if self.fence == Fence::Target {
                    self.routes[route].lives_from = self.routes[route].session + 1;
                    self.queue.fenced(route);
                    assert!(!self.queue.lingers(route));
                }
            }
            Event::Login { route } => {
                let of = &mut self.routes[route];
                of.session += 1;
                if self.fence == Fence::Target {
                    of.lives_from = of.session;
                }
                of.is_up = true;
                of.flapping.back(self.now);
                self.queue.up(route, 0);
            }
        }
    }

    /// A completed write that a lost route executes again.
    fn late(&self, id: RequestId) -> Option<(Request, u64, Vec<u64>)> {
        self.done.get(&id).cloned()
    }

    fn finish(&mut self, id: RequestId) {
        if let Some(done) = self.open.remove(&id) {
            self.done.insert(id, done);
        }
    }

    fn run(mut self) -> World {
        for route in 0..ROUTES {
            let (when, time) = (self.now + self.ms(300), self.ms(150));
            self.at(when, Event::Cut { route, time });
        }
        let mut submitted = 0;
        while submitted < REQUESTS || self.queue.open() > 0 {
            while submitted < REQUESTS && self.queue.open() < PARALLEL {
                submitted += 1;
                self.submit(submitted);
            }
            self.give();
            let ((when, _), event) = self.events.pop_first().expect("routes come back");
            assert!(when - Instant::ZERO < Duration::from_secs(600), "stuck");
            self.now = when;
            self.happen(event);
        }
        self
    }
}

#[test]
fn no_request_is_carried_out_after_a_later_one_of_the_same_blocks() {
    let mut losses = 0;
    for seed in 0..100 {
        let world = World::new(seed, Fence::Target).run();
        assert_eq!(world.wrong, 0, "seed {seed}");
        assert_eq!(world.blocks, world.model, "seed {seed}");
        losses += world.losses;
    }
    assert!(losses > 1000, "{losses}");
}

#[test]
fn these_rounds_notice_writes_of_a_route_that_has_come_back_to_life() {
    let worlds = (0..20).map(|seed| World::new(seed, Fence::Pretended).run());
    assert!(worlds.map(|world| world.wrong).sum::<u64>() > 0);
}
