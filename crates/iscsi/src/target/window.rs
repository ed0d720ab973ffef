//! The command window: which commands may arrive now (RFC 7143 §4.2.2.1).

use crate::login::AnnouncedWindow;
use crate::sequence::Sn;

/// The decision on a command, by its CmdSN.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Admission {
    /// It is the next one: deliver it.
    Deliver,
    /// It is this many positions ahead of the next one: hold it until the gap has closed.
    Hold(u32),
    /// It is outside the window or a duplicate: "the target MUST silently ignore" it.
    Ignore,
}

/// One session's command window at the target.
///
/// A slot is taken when a command is delivered and freed when its response is queued, so the window bounds all commands
/// at the target, not only those in flight to it. MaxCmdSN never decreases (§4.2.2.1), whatever the size.
#[derive(Debug)]
pub(super) struct CommandWindow {
    expected: Sn,
    max: Sn,
    size: u32,
    in_hand: u32,
}

impl CommandWindow {
    /// A window of `size` commands (1 to 2^31 − 1) that opens at CmdSN `first`.
    pub(super) fn new(first: Sn, size: u32) -> Self {
        debug_assert!(size >= 1);
        CommandWindow {
            expected: first,
            max: first.add(size - 1),
            size,
            in_hand: 0,
        }
    }

    /// ExpCmdSN for every response.
    pub(super) fn exp_cmd_sn(&self) -> Sn {
        self.expected
    }

    /// MaxCmdSN for every response.
    pub(super) fn max_cmd_sn(&self) -> Sn {
        self.max
    }

    /// Both, for a response that frees a slot if `released`.
    pub(super) fn announced_after(&self, released: bool) -> AnnouncedWindow {
        AnnouncedWindow {
            exp_cmd_sn: self.expected,
            max_cmd_sn: self.max_cmd_sn_after(released),
        }
    }

    /// MaxCmdSN after a slot has been freed, if `released`.
    fn max_cmd_sn_after(&self, released: bool) -> Sn {
        let in_hand = self.in_hand - u32::from(released && self.in_hand > 0);
        // One below ExpCmdSN means "closed" (§4.2.2.1).
        let open = self.expected.add(self.size.saturating_sub(in_hand)).sub(1);
        if self.max.lt(open) { open } else { self.max }
    }

    /// Slots in use.
    pub(super) fn in_hand(&self) -> u32 {
        self.in_hand
    }

    /// Whether no command may arrive until a slot is freed.
    pub(super) fn is_closed(&self) -> bool {
        self.max.lt(self.expected)
    }

    /// Decides on a non-immediate command that has just arrived. [`Admission::Deliver`] takes its slot and advances to
    /// the next CmdSN.
    pub(super) fn admit(&mut self, cmd_sn: Sn) -> Admission {
        if cmd_sn == self.expected && cmd_sn.le(self.max) {
            self.expected = self.expected.next();
            self.in_hand += 1;
            Admission::Deliver
        } else if self.expected.lt(cmd_sn) && cmd_sn.le(self.max) {
            Admission::Hold(cmd_sn.distance(self.expected))
        } else {
            Admission::Ignore
        }
    }

    /// Resizes the window to `size` commands (1 to 2^31 − 1). A larger one opens at once, so that announced values hold
    /// whatever the size becomes before the next slot is freed; a smaller one takes effect as slots are freed.
    pub(super) fn resize(&mut self, size: u32) {
        debug_assert!(size >= 1);
        self.size = size;
        self.max = self.max_cmd_sn_after(false);
    }

    /// Frees the slot of a delivered command.
    pub(super) fn release(&mut self) {
        debug_assert!(self.in_hand > 0);
        self.max = self.max_cmd_sn_after(true);
        self.in_hand = self.in_hand.saturating_sub(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closes_when_full_and_opens_by_one_per_release() {
        let mut window = CommandWindow::new(Sn(u32::MAX - 1), 3);
        for n in 0..3 {
            assert_eq!(window.admit(Sn(u32::MAX - 1).add(n)), Admission::Deliver);
        }
        assert_eq!(window.admit(Sn(1)), Admission::Ignore);
        assert_eq!(window.exp_cmd_sn().distance(window.max_cmd_sn()), 1);
        window.release();
        assert_eq!(window.max_cmd_sn(), Sn(1));
        assert_eq!(window.admit(Sn(1)), Admission::Deliver);
    }

    #[test]
    fn a_smaller_window_opens_when_enough_slots_are_free_and_max_cmd_sn_never_goes_back() {
        let mut window = CommandWindow::new(Sn(1), 4);
        assert_eq!(window.admit(Sn(1)), Admission::Deliver);
        window.resize(2);
        assert_eq!(window.max_cmd_sn(), Sn(4), "what was allowed is");
        for n in 2..=4 {
            assert_eq!(window.admit(Sn(n)), Admission::Deliver);
        }
        for (max, closed) in [(4, true), (4, true), (5, false), (6, false)] {
            let announced = window.announced_after(true).max_cmd_sn;
            window.release();
            assert_eq!((window.max_cmd_sn(), window.is_closed()), (Sn(max), closed));
            assert_eq!(announced, Sn(max));
        }
        window.resize(4);
        assert_eq!(window.announced_after(false).max_cmd_sn, Sn(8));
        window.resize(1);
        assert_eq!(
            window.announced_after(false).max_cmd_sn,
            Sn(8),
            "said before"
        );
        for n in 5..=8 {
            assert_eq!(window.admit(Sn(n)), Admission::Deliver);
        }
    }

    #[test]
    fn holds_what_is_ahead_and_ignores_duplicates() {
        let mut window = CommandWindow::new(Sn(10), 4);
        assert_eq!(window.admit(Sn(12)), Admission::Hold(2));
        assert_eq!(window.admit(Sn(10)), Admission::Deliver);
        assert_eq!(window.admit(Sn(10)), Admission::Ignore);
        assert_eq!(window.admit(Sn(14)), Admission::Ignore);
    }
}
