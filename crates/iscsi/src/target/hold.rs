//! Commands that came ahead of a gap in CmdSN.

use std::collections::VecDeque;

/// Holds commands until those before them have come, so that all are delivered in CmdSN order.
///
/// The command window bounds the places: nothing further ahead is ever put in.
#[derive(Debug)]
pub struct HoldQueue<T> {
    /// Place 0 is the command with CmdSN = ExpCmdSN.
    places: VecDeque<Option<T>>,
}

impl<T> Default for HoldQueue<T> {
    fn default() -> Self {
        HoldQueue {
            places: VecDeque::new(),
        }
    }
}

impl<T> HoldQueue<T> {
    /// Puts a command `ahead` places after the expected one. A second one for the same place is a
    /// duplicate and is let go.
    pub fn put(&mut self, ahead: u32, command: T) {
        let place = ahead as usize;
        if self.places.len() <= place {
            self.places.resize_with(place + 1, || None);
        }
        self.places[place].get_or_insert(command);
    }

    /// Whether the command that is expected now is held.
    #[must_use]
    pub fn next_is_here(&self) -> bool {
        matches!(self.places.front(), Some(Some(_)))
    }

    /// Moves on by one CmdSN; yields the command of that number if it was held.
    pub fn advance(&mut self) -> Option<T> {
        self.places.pop_front().flatten()
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
        assert!(!held.next_is_here());
        assert_eq!(held.advance(), None); // 'a' came and was delivered
        assert!(held.next_is_here());
        assert_eq!(held.advance(), Some('b'));
        assert_eq!(held.advance(), Some('c'));
        assert_eq!(held.advance(), None);
    }
}
