//! Commands received ahead of a gap in CmdSN.

use core::ops::Range;
use std::collections::{BTreeMap, BTreeSet};

/// Holds commands until those before them arrive, so that all are delivered in CmdSN order.
///
/// The command window bounds how far ahead they are. A command costs the same wherever it is: missing commands cost
/// nothing.
#[derive(Debug)]
pub(super) struct HoldQueue<T> {
    /// The position of the command with CmdSN = ExpCmdSN; positions count from the session's first command and do not
    /// wrap.
    expected: u64,
    /// Commands that wait for those before them, by position.
    held: BTreeMap<u64, T>,
    /// Positions of commands that count as received but are not to be delivered: they were aborted or answered.
    received: BTreeSet<u64>,
}

impl<T> Default for HoldQueue<T> {
    fn default() -> Self {
        HoldQueue {
            expected: 0,
            held: BTreeMap::new(),
            received: BTreeSet::new(),
        }
    }
}

impl<T> HoldQueue<T> {
    /// Whether the command `ahead` positions after the expected one was received: another one with its CmdSN is a
    /// duplicate.
    pub(super) fn has(&self, ahead: u32) -> bool {
        let place = self.place(ahead);
        self.held.contains_key(&place) || self.received.contains(&place)
    }

    /// Number of held commands.
    pub(super) fn len(&self) -> usize {
        self.held.len()
    }

    /// Holds a command `ahead` positions after the expected one; drops a duplicate.
    pub(super) fn put(&mut self, ahead: u32, command: T) {
        if !self.has(ahead) {
            self.held.insert(self.place(ahead), command);
        }
    }

    /// The last held command in CmdSN order that is `wanted`: remaining PDUs of a command arrive soon after it.
    pub(super) fn newest(&mut self, wanted: impl Fn(&T) -> bool) -> Option<&mut T> {
        let mut held = self.held.values_mut();
        held.rfind(|command| wanted(command))
    }

    /// Marks commands in `range`, in positions after the expected one, as received, so that they will never be
    /// delivered: those selected by `affected`, where a missing command is `None`. Returns those that were held.
    pub(super) fn pass_over(
        &mut self,
        range: Range<u32>,
        affected: impl Fn(Option<&T>) -> bool,
    ) -> Vec<T> {
        let mut dropped = Vec::new();
        for place in self.place(range.start)..self.place(range.end) {
            if !self.received.contains(&place) && affected(self.held.get(&place)) {
                dropped.extend(self.held.remove(&place));
                self.received.insert(place);
            }
        }
        dropped
    }

    /// Removes the commands selected by `unwanted`, as if they had never been received: their positions are gaps again.
    pub(super) fn discard(&mut self, unwanted: impl Fn(&T) -> bool) -> Vec<T> {
        let places = self.held.iter().filter(|(_, command)| unwanted(command));
        let places: Vec<u64> = places.map(|(place, _)| *place).collect();
        let dropped = places.iter().filter_map(|place| self.held.remove(place));
        dropped.collect()
    }

    fn place(&self, ahead: u32) -> u64 {
        self.expected + u64::from(ahead)
    }

    /// Advances by one CmdSN because the expected command was just received.
    pub(super) fn advance(&mut self) {
        debug_assert!(!self.has(0));
        self.expected += 1;
    }

    /// Whether nothing is held, as while no command is late.
    pub(super) fn is_empty(&self) -> bool {
        self.held.is_empty() && self.received.is_empty()
    }

    /// Advances by one CmdSN if the expected command counts as received without being held; returns whether it did.
    pub(super) fn pass(&mut self) -> bool {
        if !self.received.remove(&self.expected) {
            return false;
        }
        self.expected += 1;
        true
    }

    /// Takes the expected command, if it is held, and advances by one CmdSN.
    pub(super) fn take(&mut self) -> Option<T> {
        let command = self.held.remove(&self.expected)?;
        self.expected += 1;
        Some(command)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn yields_in_order_once_the_gap_closes() {
        let mut held = HoldQueue::default();
        held.put(2, 'c');
        held.put(1, 'b');
        held.put(1, 'x');
        assert_eq!(held.take(), None);
        held.advance(); // 'a' was received and delivered
        assert_eq!(held.take(), Some('b'));
        assert_eq!(held.take(), Some('c'));
        assert_eq!(held.take(), None);
    }

    #[test]
    fn what_is_passed_over_is_not_delivered_when_it_comes_late() {
        let mut held = HoldQueue::default();
        held.put(1, 'b');
        held.put(3, 'd');
        assert_eq!(held.pass_over(0..3, |command| command != Some(&'x')), ['b']);
        held.put(0, 'a');
        held.put(2, 'c');
        assert_eq!(held.take(), None);
        assert!(held.pass() && held.pass() && held.pass() && !held.pass());
        assert_eq!(held.take(), Some('d'));
    }

    #[test]
    fn what_is_discarded_may_come_again() {
        let mut held = HoldQueue::default();
        held.put(1, 'b');
        held.put(2, 'c');
        assert_eq!(held.discard(|command| *command == 'b'), ['b']);
        assert!(!held.has(1));
        held.advance();
        assert_eq!(held.take(), None);
        held.put(0, 'B');
        assert_eq!((held.take(), held.take()), (Some('B'), Some('c')));
    }

    #[test]
    fn nothing_is_kept_of_commands_that_have_not_come() {
        let mut held = HoldQueue::default();
        held.put(65_535, 'z');
        assert_eq!(held.pass_over(65_534..65_535, |_| true), []);
        assert_eq!((held.held.len(), held.received.len()), (1, 1));
        assert!(held.has(65_535) && held.has(65_534) && !held.has(65_533));
        (0..65_534).for_each(|_| held.advance());
        assert!(held.pass());
        assert_eq!(held.take(), Some('z'));
        assert_eq!((held.held.len(), held.received.len()), (0, 0));
    }
}
