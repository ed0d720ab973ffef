//! Which program's socket is polled busily before the thread waits for all of them.

use std::time::Duration;

use wansan_trace::Instant;

/// How long the socket of a program with one request in flight is polled, if its last request came that soon: to wait and be
/// woken for each request would take longer than the request.
pub(crate) const POLL_TIME: Duration = Duration::from_micros(20);

/// Requests of such a program that are taken before the session has its turn.
const MOST_TAKEN: u32 = 16;

/// After so many misses in a row only every so many requests are followed by polling: the next request comes too late, or its
/// program lacks the processor that polling takes.
const MOST_MISSES: u32 = 4;
const SELDOM: u32 = 64;

/// The choice of the program whose request came soon after the last reply.
#[derive(Debug, Default)]
pub(crate) struct BusyPoll {
    /// Which is to be polled now, and how many requests were taken since the session's turn.
    next: Option<u64>,
    taken: u32,
    /// When replies were last sent.
    replied: Instant,
    /// Requests since the last hit that came soon enough for polling.
    misses: u32,
}

impl BusyPoll {
    /// Replies are sent.
    pub(crate) fn replied(&mut self, now: Instant) {
        self.replied = now;
    }

    /// A program's request has come while the thread waited.
    pub(crate) fn missed(&mut self, id: u64, now: Instant) {
        if now - self.replied >= 2 * POLL_TIME {
            return;
        }
        self.misses = self.misses.wrapping_add(1);
        self.taken = 0;
        let is_worth_it = self.misses <= MOST_MISSES || self.misses.is_multiple_of(SELDOM);
        self.next = is_worth_it.then_some(id);
    }

    /// A request has come while its program's socket was polled.
    pub(crate) fn hit(&mut self, id: u64) {
        self.misses = 0;
        self.taken += 1;
        self.next = (self.taken < MOST_TAKEN).then_some(id);
    }

    /// The program whose socket is to be polled now.
    pub(crate) fn take(&mut self) -> Option<u64> {
        self.next.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Instant = Instant::ZERO;

    /// How many of so many requests, each of which comes soon, are followed by polling.
    fn polls(poll: &mut BusyPoll, requests: u32) -> usize {
        let each = (0..requests).map(|_| {
            poll.missed(7, NOW);
            poll.take()
        });
        each.flatten().count()
    }

    #[test]
    fn a_late_request_is_not_followed_by_polling() {
        let mut poll = BusyPoll::default();
        poll.replied(NOW);
        poll.missed(7, NOW + 2 * POLL_TIME);
        assert_eq!(poll.take(), None);
        poll.missed(7, NOW + POLL_TIME);
        assert_eq!(poll.take(), Some(7));
        assert_eq!(poll.take(), None);
    }

    #[test]
    fn the_session_has_its_turn() {
        let mut poll = BusyPoll::default();
        poll.missed(7, NOW);
        let mut hits = 0;
        while let Some(id) = poll.take() {
            poll.hit(id);
            hits += 1;
        }
        assert_eq!(hits, MOST_TAKEN);
    }

    #[test]
    fn misses_make_polling_rare_until_a_hit() {
        let mut poll = BusyPoll::default();
        assert_eq!(polls(&mut poll, 10 * SELDOM), MOST_MISSES as usize + 10);
        poll.hit(7);
        assert_eq!(poll.take(), Some(7));
        assert_eq!(polls(&mut poll, MOST_MISSES), MOST_MISSES as usize);
    }
}
