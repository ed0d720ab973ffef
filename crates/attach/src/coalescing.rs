//! Coalescing of what the session is to do while a program asks for one thing after the other.

use std::time::Duration;

use wansan_trace::Instant;

/// A program that asks for one thing at a time comes so soon after a reply, where it is not about something else.
const SOON: Duration = Duration::from_millis(1);

/// How long the session waits for its turn meanwhile: of a fast path it reads no more than 64 KiB in each.
const INTERVAL: Duration = Duration::from_micros(250);

/// How long such a program is waited for before the session has its turn. A shorter wait has the kernel set a timer for each
/// request, as its next tick is later; on a virtual machine that takes longer than the request.
pub(crate) const PATIENCE: Duration = Duration::from_millis(4);

/// What is answered from memory does not need the session. What comes for it then is not worth a wake-up of its own, and what it
/// has to send can wait for more.
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
    /// Replies are sent.
    pub(crate) fn replied(&mut self, now: Instant) {
        self.replied = now;
    }

    /// A program has sent something.
    pub(crate) fn heard(&mut self, now: Instant) {
        self.comes_soon = now - self.replied < SOON;
    }

    /// Programs alone were waited for, and none came.
    pub(crate) fn waited_in_vain(&mut self) {
        self.comes_soon = false;
    }

    /// The session has had its turn.
    pub(crate) fn turned(&mut self, now: Instant) {
        self.turned = now;
    }

    /// Whether the session may be left alone for now, if no request waits for it.
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
