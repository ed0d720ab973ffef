//! Which bytes of a read have come.

use std::collections::BTreeMap;

/// How many pieces a read may be in that do not follow on each other.
pub(super) const MAX_PIECES: usize = 4096;

/// Which bytes of a read have come, counted from its offset.
#[derive(Debug, Default)]
pub(super) struct Coverage {
    /// All bytes before it have come. Servers that send chunks in order need no more.
    front: u64,
    /// Pieces behind it, from start to end; they neither overlap nor touch.
    pieces: BTreeMap<u64, u64>,
}

/// What is wrong with a piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Problem {
    /// Some of it has come before.
    Overlap,
    /// There are too many.
    TooMany,
}

impl Coverage {
    /// The bytes from `start` to `end` come, at least one.
    pub(super) fn add(&mut self, mut start: u64, mut end: u64) -> Result<(), Problem> {
        let before = self.pieces.range(..end).next_back();
        let before = before.map(|(start, end)| (*start, *end));
        if start < self.front || before.is_some_and(|(_, end)| end > start) {
            return Err(Problem::Overlap);
        }
        if let Some(behind) = self.pieces.remove(&end) {
            end = behind;
        }
        if start == self.front {
            self.front = end;
            return Ok(());
        }
        if let Some((earlier, _)) = before.filter(|(_, end)| *end == start) {
            start = earlier;
        }
        self.pieces.insert(start, end);
        if self.pieces.len() > MAX_PIECES {
            return Err(Problem::TooMany);
        }
        Ok(())
    }

    /// Whether the first `length` bytes have come.
    pub(super) fn is_full(&self, length: u64) -> bool {
        self.front >= length
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Against a model that knows each byte.
        #[test]
        fn pieces_join_and_overlaps_are_seen(
            pieces in proptest::collection::vec((0..40u64, 1..12u64), 1..40),
        ) {
            let mut coverage = Coverage::default();
            let mut model = [false; 64];
            for (start, length) in pieces {
                let bytes = &mut model[start as usize..(start + length) as usize];
                let is_new = bytes.iter().all(|has_come| !has_come);
                let expected = if is_new { Ok(()) } else { Err(Problem::Overlap) };
                if is_new {
                    bytes.fill(true);
                }
                prop_assert_eq!(coverage.add(start, start + length), expected);
                let front = model.iter().position(|has_come| !has_come).unwrap_or(64);
                prop_assert!(coverage.is_full(front as u64));
                prop_assert!(!coverage.is_full(front as u64 + 1));
            }
        }
    }

    #[test]
    fn pieces_are_bounded() {
        let mut coverage = Coverage::default();
        for piece in 0..MAX_PIECES as u64 {
            assert_eq!(coverage.add(2 * piece + 1, 2 * piece + 2), Ok(()));
        }
        let most = 2 * MAX_PIECES as u64;
        assert_eq!(coverage.add(most + 1, most + 2), Err(Problem::TooMany));
    }
}
