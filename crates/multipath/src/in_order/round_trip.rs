//! The round trip of a route's pings, which wait for no request.

use std::time::Duration;

use wansan_trace::Instant;

use super::{BELIEVED, RECENT};
use crate::window::Extreme;

/// Minimum round trips of a route's pings.
#[derive(Debug, Clone, Copy)]
pub(super) struct RoundTrip {
    recent_ns: Extreme,
    /// Since the route was last idle, so that its queues do not count.
    least_ns: Extreme,
}

impl RoundTrip {
    pub(super) fn unknown() -> RoundTrip {
        RoundTrip {
            recent_ns: Extreme::least(RECENT),
            least_ns: Extreme::least(BELIEVED),
        }
    }

    /// Adds a ping that took `took`; `is_idle` if no request was in flight on the route.
    pub(super) fn add(&mut self, took: Duration, is_idle: bool, now: Instant) {
        let took_ns = took.as_nanos() as f64;
        self.recent_ns.add(took_ns, now);
        if is_idle {
            self.least_ns = Extreme::least(BELIEVED);
        }
        self.least_ns
            .add(self.recent_ns.get().unwrap_or(took_ns), now);
    }

    /// The round trip without queues, in ns; `None` until a ping was answered.
    pub(super) fn least_ns(&self) -> Option<f64> {
        self.least_ns.get()
    }
}
