//! Commands that came ahead of a gap in CmdSN.

use core::ops::Range;
use std::collections::VecDeque;

/// Holds commands until those before them have come, so that all are delivered in CmdSN order.
///
/// The command window bounds the places: nothing further ahead is ever put in.
#[derive(Debug)]
pub(super) struct HoldQueue<T> {
    /// Place 0 is the command with CmdSN = ExpCmdSN.
    places: VecDeque<Place<T>>,
}

/// What is known of the command with one CmdSN.
#[derive(Debug)]
enum Place<T> {
    /// It has not come.
    Awaited,
    /// It has come, and waits for those before it.
    Held(T),
    /// It counts as received, and there is nothing to deliver: it was aborted or answered.
    Received,
}

impl<T> Default for HoldQueue<T> {
    fn default() -> Self {
        HoldQueue {
            places: VecDeque::new(),
        }
    }
}

impl<T> HoldQueue<T> {
    /// Whether the command `ahead` places after the expected one has come: another one with its
    /// CmdSN is a duplicate.
    pub(super) fn has(&self, ahead: u32) -> bool {
        let place = self.places.get(ahead as usize);
        place.is_some_and(|place| !matches!(place, Place::Awaited))
    }

    /// Puts a command `ahead` places after the expected one; a duplicate is let go.
    pub(super) fn put(&mut self, ahead: u32, command: T) {
        if !self.has(ahead) {
            *self.place(ahead) = Place::Held(command);
        }
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
        for ahead in range {
            let command = match self.places.get(ahead as usize) {
                Some(Place::Held(command)) => Some(command),
                Some(Place::Received) => continue,
                Some(Place::Awaited) | None => None,
            };
            if affected(command)
                && let Place::Held(command) = core::mem::replace(self.place(ahead), Place::Received)
            {
                dropped.push(command);
            }
        }
        dropped
    }

    fn place(&mut self, ahead: u32) -> &mut Place<T> {
        let place = ahead as usize;
        if self.places.len() <= place {
            self.places.resize_with(place + 1, || Place::Awaited);
        }
        &mut self.places[place]
    }

    /// Moves on by one CmdSN because the expected command has come just now.
    pub(super) fn advance(&mut self) {
        self.places.pop_front();
    }

    /// Moves on by one CmdSN if the command that is expected now counts as received without being
    /// here; says whether it did.
    pub(super) fn pass(&mut self) -> bool {
        let passes = matches!(self.places.front(), Some(Place::Received));
        if passes {
            self.places.pop_front();
        }
        passes
    }

    /// The command that is expected now, if it is held, moving on by one CmdSN.
    pub(super) fn take(&mut self) -> Option<T> {
        if !matches!(self.places.front()?, Place::Held(_)) {
            return None;
        }
        match self.places.pop_front()? {
            Place::Held(command) => Some(command),
            Place::Received | Place::Awaited => None,
        }
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
}
