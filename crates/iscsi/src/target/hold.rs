//! Commands that came ahead of a gap in CmdSN.

use core::ops::Range;
use std::collections::{BTreeMap, BTreeSet};

/// Holds commands until those before them have come, so that all are delivered in CmdSN order.
///
/// The command window bounds how far ahead they are. A command costs the same wherever it stands:
/// there is nothing for those that have not come.
#[derive(Debug)]
pub(super) struct HoldQueue<T> {
    /// The place of the command with CmdSN = ExpCmdSN; places are counted from the session's
    /// first command and do not wrap.
    expected: u64,
    /// Commands that have come and wait for those before them, by place.
    held: BTreeMap<u64, T>,
    /// Places of commands that count as received and of which there is nothing to deliver: they
    /// were aborted or answered.
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
    /// Whether the command `ahead` places after the expected one has come: another one with its
    /// CmdSN is a duplicate.
    pub(super) fn has(&self, ahead: u32) -> bool {
        let place = self.place(ahead);
        self.held.contains_key(&place) || self.received.contains(&place)
    }

    /// Commands that are held.
    pub(super) fn len(&self) -> usize {
        self.held.len()
    }

    /// Puts a command `ahead` places after the expected one; a duplicate is let go.
    pub(super) fn put(&mut self, ahead: u32, command: T) {
        if !self.has(ahead) {
            self.held.insert(self.place(ahead), command);
        }
    }

    /// The last one in CmdSN order of the held commands that are `wanted`: what still comes for a
    /// command comes soon after it.
    pub(super) fn newest(&mut self, wanted: impl Fn(&T) -> bool) -> Option<&mut T> {
        let mut held = self.held.values_mut();
        held.rfind(|command| wanted(command))
    }

    /// Counts commands in `range`, in places after the expected one, as received, so that they
    /// will never be delivered: those that `affected` says, where a command that has not come is
    /// `None`. Gives those that were held.
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

    /// Takes out the commands that `unwanted` says, as if they had never come: their places are
    /// gaps again.
    pub(super) fn discard(&mut self, unwanted: impl Fn(&T) -> bool) -> Vec<T> {
        let places = self.held.iter().filter(|(_, command)| unwanted(command));
        let places: Vec<u64> = places.map(|(place, _)| *place).collect();
        let dropped = places.iter().filter_map(|place| self.held.remove(place));
        dropped.collect()
    }

    fn place(&self, ahead: u32) -> u64 {
        self.expected + u64::from(ahead)
    }

    /// Moves on by one CmdSN because the expected command has come just now.
    pub(super) fn advance(&mut self) {
        debug_assert!(!self.has(0));
        self.expected += 1;
    }

    /// Whether nothing has come ahead of a gap, as it is while no command is late.
    pub(super) fn is_empty(&self) -> bool {
        self.held.is_empty() && self.received.is_empty()
    }

    /// Moves on by one CmdSN if the command that is expected now counts as received without being
    /// here; says whether it did.
    pub(super) fn pass(&mut self) -> bool {
        if !self.received.remove(&self.expected) {
            return false;
        }
        self.expected += 1;
        true
    }

    /// The command that is expected now, if it is held, moving on by one CmdSN.
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
        held.advance(); // 'a' came and was delivered
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
