//! Which program is listened to before anything else is waited for.

use std::time::Duration;

use wansan_trace::Instant;

/// How long a program that asks for one thing at a time is listened to, if its last request came that soon: two waits for
/// each would take longer than what it asks for.
pub(crate) const LISTEN: Duration = Duration::from_micros(20);

/// Requests of such a program that are taken before the session has its turn.
const MOST_TAKEN: u32 = 16;

/// After so many times in vain, one after another, it is listened to only each time of so many: it asks too late, or has no
/// processor to ask sooner, and listening takes more of that than to wait.
const MOST_VAIN: u32 = 4;
const SELDOM: u32 = 64;

/// A program whose request came soon after the last answer.
#[derive(Debug, Default)]
pub(crate) struct Talker {
    /// Which is to be listened to now, and how many requests were taken since the session's turn.
    next: Option<u64>,
    taken: u32,
    /// When replies were last sent.
    answered: Instant,
    /// Times that one would have been listened to since one was heard.
    vain: u32,
}

impl Talker {
    /// Replies are sent.
    pub(crate) fn answered(&mut self, now: Instant) {
        self.answered = now;
    }

    /// A program asks for something, after a wait for all.
    pub(crate) fn asks(&mut self, id: u64, now: Instant) {
        if now - self.answered >= 2 * LISTEN {
            return;
        }
        self.vain = self.vain.wrapping_add(1);
        self.taken = 0;
        let is_worth_it = self.vain <= MOST_VAIN || self.vain.is_multiple_of(SELDOM);
        self.next = is_worth_it.then_some(id);
    }

    /// The one that was listened to has asked for something.
    pub(crate) fn heard(&mut self, id: u64) {
        self.vain = 0;
        self.taken += 1;
        self.next = (self.taken < MOST_TAKEN).then_some(id);
    }

    /// The one to be listened to now.
    pub(crate) fn take(&mut self) -> Option<u64> {
        self.next.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Instant = Instant::ZERO;

    /// How many of so many requests, each of which comes soon, are followed by listening.
    fn listens(talker: &mut Talker, requests: u32) -> usize {
        let each = (0..requests).map(|_| {
            talker.asks(7, NOW);
            talker.take()
        });
        each.flatten().count()
    }

    #[test]
    fn who_asks_late_is_not_listened_to() {
        let mut talker = Talker::default();
        talker.answered(NOW);
        talker.asks(7, NOW + 2 * LISTEN);
        assert_eq!(talker.take(), None);
        talker.asks(7, NOW + LISTEN);
        assert_eq!(talker.take(), Some(7));
        assert_eq!(talker.take(), None);
    }

    #[test]
    fn the_session_has_its_turn() {
        let mut talker = Talker::default();
        talker.asks(7, NOW);
        let mut heard = 0;
        while let Some(id) = talker.take() {
            talker.heard(id);
            heard += 1;
        }
        assert_eq!(heard, MOST_TAKEN);
    }

    #[test]
    fn who_is_listened_to_in_vain_seldom_is_again() {
        let mut talker = Talker::default();
        assert_eq!(listens(&mut talker, 10 * SELDOM), MOST_VAIN as usize + 10);
        talker.heard(7);
        assert_eq!(talker.take(), Some(7));
        assert_eq!(listens(&mut talker, MOST_VAIN), MOST_VAIN as usize);
    }
}
