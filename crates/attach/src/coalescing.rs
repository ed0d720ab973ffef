//! Coalesces the session's work while a program issues one request at a time.

use std::time::Duration;

use wansan_trace::Instant;

/// A program that issues one request at a time sends the next within this time of a reply, unless it is busy with
/// something else.
const SOON: Duration = Duration::from_millis(1);

/// Longest time between two turns of the session meanwhile: on a fast path each turn reads at most 64 KiB.
const INTERVAL: Duration = Duration::from_micros(250);

/// How long to wait for such a program's next request before the session gets its turn. A timeout that ends before the
/// kernel's next tick makes it program a timer for each request; on a virtual machine that costs more than the request.
pub(crate) const PATIENCE: Duration = Duration::from_millis(4);

/// Requests answered from memory do not need the session. Meanwhile, data that arrives for it does not justify a
/// wake-up of its own, and data to send can wait to be batched.
#[derive(Debug, Default)]
pub(crate) struct Coalescing {
    /// When replies were last sent.
    replied: Instant,
    /// When the session had its last turn.
    turned: Instant,
    /// The last request came soon after a reply.
    comes_soon: bool,
}

impl Coalescing {
    /// Notes that replies were sent.
    pub(crate) fn replied(&mut self, now: Instant) {
        self.replied = now;
    }

    /// Notes that a program sent something.
    pub(crate) fn heard(&mut self, now: Instant) {
        self.comes_soon = now - self.replied < SOON;
    }

    /// Notes that waiting for programs only brought no request.
    pub(crate) fn waited_in_vain(&mut self) {
        self.comes_soon = false;
    }

    /// Notes that the session has had its turn.
    pub(crate) fn turned(&mut self, now: Instant) {
        self.turned = now;
    }

    /// Whether the session can wait, provided that no request needs it.
    pub(crate) fn leaves_session(&self, now: Instant) -> bool {
        self.comes_soon && now - self.turned < INTERVAL
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MICROSECOND: Duration = Duration::from_micros(1);

    #[test]
    fn the_session_has_its_turn_while_a_program_goes_on() {
        let mut coalescing = Coalescing::default();
        let mut now = Instant::from_ns(1_000_000_000);
        let (mut requests, mut turns) = (0, 0);
        for _ in 0..1000 {
            coalescing.replied(now);
            now += 20 * MICROSECOND;
            coalescing.heard(now);
            requests += 1;
            if !coalescing.leaves_session(now) {
                coalescing.turned(now);
                turns += 1;
            }
        }
        assert!((10..=13).contains(&(requests / turns)), "{turns}");
    }

    #[test]
    fn the_session_waits_for_no_program_that_is_late() {
        let mut coalescing = Coalescing::default();
        let now = Instant::from_ns(1_000_000_000);
        coalescing.turned(now);
        coalescing.replied(now);
        coalescing.heard(now + SOON);
        assert!(!coalescing.leaves_session(now));
        coalescing.heard(now);
        assert!(coalescing.leaves_session(now));
        coalescing.waited_in_vain();
        assert!(!coalescing.leaves_session(now));
    }
}
