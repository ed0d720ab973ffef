//! When to retry a lost route.

use std::time::Duration;

use wansan_trace::Instant;

/// The first and the longest hold-off of a route that is lost again.
const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(64);
/// A route that was up for this long, and for this multiple of its hold-off, does not flap.
const STEADY: Duration = Duration::from_secs(30);
const STEADY_FACTOR: u32 = 4;
/// Time between attempts to reach a route that does not answer.
const RETRY: Duration = Duration::from_secs(1);

/// A route's losses. After the first loss the route is retried at once; if it is soon lost again, it is held off for 1
/// s, 2 s and so on, up to 64 s.
#[derive(Debug, Clone, Copy)]
pub struct Flapping {
    up_since: Instant,
    /// The last hold-off.
    pause: Option<Duration>,
}

impl Flapping {
    /// A route that is up.
    #[must_use]
    pub fn up(now: Instant) -> Flapping {
        Flapping {
            up_since: now,
            pause: None,
        }
    }

    /// The route is up again.
    pub fn back(&mut self, now: Instant) {
        self.up_since = now;
    }

    /// The route was lost; returns when to retry it.
    pub fn lost(&mut self, now: Instant) -> Instant {
        let pause = match self.pause {
            Some(pause) if now - self.up_since < STEADY.max(pause * STEADY_FACTOR) => {
                LONGEST.min(FIRST.max(pause * 2))
            }
            _ => Duration::ZERO,
        };
        self.pause = Some(pause);
        now + pause
    }

    /// An attempt failed; returns when to make the next one.
    pub fn failed(&self, now: Instant) -> Instant {
        now + RETRY
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_route_that_flaps_is_left_alone_longer_and_longer() {
        let mut now = Instant::ZERO;
        let mut route = Flapping::up(now);
        let mut pauses = Vec::new();
        for _ in 0..10 {
            now += Duration::from_secs(2);
            let next = route.lost(now);
            pauses.push((next - now).as_secs());
            now = next;
            route.back(now);
        }
        assert_eq!(pauses, [0, 1, 2, 4, 8, 16, 32, 64, 64, 64]);
        // After a steady time this long, the loss counts as a first one.
        now += LONGEST * STEADY_FACTOR;
        assert_eq!(route.lost(now), now);
    }
}
