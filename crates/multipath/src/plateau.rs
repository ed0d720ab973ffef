//! Measures the rate at which requests complete, once it stops growing.

use std::time::Duration;

use wansan_trace::Instant;

/// Growth by less than this factor does not count.
const GROWTH: f64 = 1.25;
/// Rounds without growth after which the rate is known.
const ROUNDS: u32 = 2;
/// Bounds the growth of bytes in flight to more than any route holds.
const MOST_DOUBLINGS: u32 = 30;

/// A measured rate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Carried {
    pub(crate) bytes_per_ns: f64,
    /// How long the measurement took, from the choice of routes on.
    pub(crate) took: Duration,
}

/// The least length of a round, in time and in bytes completed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Round {
    pub(crate) least_ns: f64,
    pub(crate) least_bytes: u64,
}

/// Measures the rate at which requests complete. TCP's slow start doubles it with each round trip until the route is at
/// capacity or all requests are in flight. As in BBR's detection of a full pipe, that is once the rate has grown by
/// less than 25 % (Cardwell et al., "BBR: Congestion-Based Congestion Control", 2016; draft-ietf-ccwg-bbr), here over
/// two rounds of two round trips each: one in which more is sent, and one in which that completes. From then on the
/// rate is the mean over two rounds.
#[derive(Debug, Clone, Default)]
pub(crate) struct Plateau {
    began_at: Instant,
    took: Option<Duration>,
    /// Requests in flight that were sent before the choice.
    older: u64,
    best: f64,
    doublings: u32,
    /// Start and bytes completed of the current round, and of all rounds since the rate last grew.
    round: (Instant, u64),
    flat: (Instant, u64),
    flat_rounds: u32,
    done_at: Instant,
}

impl Plateau {
    /// Begins with a new choice of routes, while `older` requests are in flight.
    pub(crate) fn begin(older: u64, now: Instant) -> Plateau {
        Plateau {
            began_at: now,
            older,
            round: (now, 0),
            flat: (now, 0),
            done_at: now,
            ..Plateau::default()
        }
    }

    /// Factor by which bytes in flight may exceed those at the beginning: they double in each of a round's two round
    /// trips while the rate grows.
    pub(crate) fn growth(&self) -> u64 {
        1 << (2 * self.doublings)
    }

    /// Records completion of a request sent before the choice. Rounds begin once all of these have completed, as later
    /// ones wait for them.
    pub(crate) fn older_done(&mut self, now: Instant) {
        self.done_at = now;
        if self.older > 0 {
            self.older -= 1;
            (self.round, self.flat) = ((now, 0), (now, 0));
        }
    }

    /// Time since the last completion, in ns.
    pub(crate) fn silent_ns(&self, now: Instant) -> f64 {
        now.since(self.done_at).as_nanos() as f64
    }

    /// Excludes the time since the last completion, as nothing was in flight, and returns it.
    pub(crate) fn was_idle(&mut self, now: Instant) -> Duration {
        let idle = now.since(self.done_at);
        self.round.0 += idle;
        self.flat.0 += idle;
        self.done_at = now;
        idle
    }

    /// The rate measured so far, before it has stopped growing.
    pub(crate) fn so_far(&self, now: Instant) -> Option<Carried> {
        let since = now.since(self.flat.0);
        (!since.is_zero()).then(|| Carried {
            bytes_per_ns: (self.flat.1 + self.round.1) as f64 / since.as_nanos() as f64,
            took: now.since(self.began_at),
        })
    }

    /// Records completion of a request of `bytes`; returns a rate once two rounds have measured one.
    pub(crate) fn done(&mut self, bytes: u64, least: Round, now: Instant) -> Option<Carried> {
        if self.older > 0 {
            self.older_done(now);
            return None;
        }
        self.done_at = now;
        self.round.1 += bytes;
        let round_ns = now.since(self.round.0).as_nanos() as f64;
        if round_ns < least.least_ns || self.round.1 < least.least_bytes {
            return None;
        }
        let rate = self.round.1 as f64 / round_ns;
        self.flat.1 += self.round.1;
        self.flat_rounds += 1;
        self.round = (now, 0);
        if rate >= GROWTH * self.best {
            (self.best, self.flat, self.flat_rounds) = (rate, (now, 0), 0);
            self.doublings = (self.doublings + 1).min(MOST_DOUBLINGS);
        }
        if self.flat_rounds < ROUNDS {
            return None;
        }
        let took = *self.took.get_or_insert(now.since(self.began_at));
        let bytes_per_ns = self.flat.1 as f64 / now.since(self.flat.0).as_nanos() as f64;
        (self.best, self.flat, self.flat_rounds) = (bytes_per_ns, (now, 0), 0);
        Some(Carried { bytes_per_ns, took })
    }
}
