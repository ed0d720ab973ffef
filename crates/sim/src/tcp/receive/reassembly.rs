//! Out-of-order data, as ranges (`tcp_data_queue_ofo`, `tcp_ofo_queue`, `tcp_prune_ofo_queue`).
//!
//! The kernel queues packets; here adjacent packets form one range, with the same acknowledgements, duplicates and
//! drops. Ranges are sorted and never touch. The receive buffer bounds their number, since each takes the memory of at
//! least one packet.

use std::collections::VecDeque;

use crate::tcp::segment::Range;

/// A range, and the memory of its packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) range: Range,
    pub(super) memory: u64,
}

/// The result of inserting a segment.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Inserted {
    /// The first part of it that had been received before.
    pub(super) duplicate: Option<Range>,
    /// Whether all of it had been received, so that it was dropped.
    pub(super) is_old: bool,
}

/// The out-of-order queue.
#[derive(Debug, Default)]
pub(super) struct Reassembly {
    pieces: VecDeque<Piece>,
    memory: u64,
}

impl Reassembly {
    pub(super) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// The memory of all ranges.
    pub(super) fn memory(&self) -> u64 {
        self.memory
    }

    /// The end of the last range.
    pub(super) fn end(&self) -> Option<u64> {
        self.pieces.back().map(|piece| piece.range.to)
    }

    /// The ranges, in order.
    #[cfg(test)]
    pub(super) fn ranges(&self) -> impl Iterator<Item = Range> + '_ {
        self.pieces.iter().map(|piece| piece.range)
    }

    /// Adds a segment.
    pub(super) fn insert(&mut self, range: Range, memory: u64) -> Inserted {
        let first = self
            .pieces
            .partition_point(|piece| piece.range.to < range.from);
        let mut merged = Piece { range, memory };
        let mut duplicate = None;
        let mut after = first;
        while let Some(piece) = self
            .pieces
            .get(after)
            .filter(|piece| piece.range.from <= range.to)
        {
            let old = piece.range;
            let both = Range {
                from: old.from.max(range.from),
                to: old.to.min(range.to),
            };
            if duplicate.is_none() && both.from < both.to {
                duplicate = Some(both);
            }
            if both == range {
                return Inserted {
                    duplicate,
                    is_old: true,
                };
            }
            // A range that the segment covers entirely is freed.
            match both == old {
                true => self.memory -= piece.memory,
                false => merged.memory += piece.memory,
            }
            merged.range.from = merged.range.from.min(old.from);
            merged.range.to = merged.range.to.max(old.to);
            after += 1;
        }
        self.memory += memory;
        if after == first {
            self.pieces.insert(first, merged);
        } else {
            self.pieces[first] = merged;
            self.pieces.drain(first + 1..after);
        }
        Inserted {
            duplicate,
            is_old: false,
        }
    }

    /// Takes the first range if it begins at or before `next`.
    pub(super) fn take(&mut self, next: u64) -> Option<Piece> {
        self.pieces
            .front()
            .filter(|piece| piece.range.from <= next)?;
        let piece = self.pieces.pop_front()?;
        self.memory -= piece.memory;
        Some(piece)
    }

    /// Drops all ranges.
    pub(super) fn clear(&mut self) {
        self.pieces.clear();
        self.memory = 0;
    }

    /// Sets the memory of each range to `collapsed` of its data and memory.
    pub(super) fn collapse(&mut self, collapsed: impl Fn(u64, u64) -> u64) {
        for piece in &mut self.pieces {
            let memory = collapsed(piece.range.to - piece.range.from, piece.memory);
            self.memory -= piece.memory - memory;
            piece.memory = memory;
        }
    }

    /// Makes room for a packet at `seq`: drops packets of about `packet` bytes from the end of the highest ranges that
    /// do not begin below `seq`, at least `step` bytes of memory at a time, until `fits` accepts the remaining memory.
    /// Returns whether any was dropped.
    pub(super) fn prune(
        &mut self,
        seq: u64,
        packet: u32,
        step: u64,
        fits: impl Fn(u64) -> bool,
    ) -> bool {
        let mut is_pruned = false;
        let mut goal = step;
        while let Some(last) = self.pieces.back_mut() {
            if seq > last.range.from {
                break;
            }
            is_pruned = true;
            let data = last.range.to - last.range.from;
            let packet = u64::from(packet);
            let cut = (goal * data).div_ceil(last.memory).div_ceil(packet) * packet;
            let freed = match cut < data {
                true => (last.memory * cut).div_ceil(data),
                false => last.memory,
            };
            self.memory -= freed;
            last.memory -= freed;
            last.range.to = last.range.to.saturating_sub(cut);
            if cut >= data {
                self.pieces.pop_back();
            }
            goal = goal.saturating_sub(freed);
            if goal == 0 || self.pieces.is_empty() {
                if fits(self.memory) {
                    break;
                }
                goal = step;
            }
        }
        is_pruned
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(from: u64, to: u64) -> Range {
        Range { from, to }
    }

    fn filled(ranges: &[(u64, u64)]) -> Reassembly {
        let mut reassembly = Reassembly::default();
        for &(from, to) in ranges {
            reassembly.insert(range(from, to), 10 * (to - from));
        }
        reassembly
    }

    #[test]
    fn ranges_that_touch_become_one() {
        let mut reassembly = filled(&[(10, 20), (30, 40), (50, 60)]);
        let inserted = reassembly.insert(range(20, 30), 100);
        assert_eq!(
            inserted,
            Inserted {
                duplicate: None,
                is_old: false
            }
        );
        assert_eq!(
            reassembly.ranges().collect::<Vec<_>>(),
            [range(10, 40), range(50, 60)]
        );
        assert_eq!(reassembly.memory(), 400);
    }

    #[test]
    fn the_first_overlap_is_the_duplicate_and_covered_packets_free_their_memory() {
        let mut reassembly = filled(&[(10, 20), (30, 40), (50, 60)]);
        let inserted = reassembly.insert(range(15, 55), 400);
        assert_eq!(inserted.duplicate, Some(range(15, 20)));
        assert_eq!(reassembly.ranges().collect::<Vec<_>>(), [range(10, 60)]);
        assert_eq!(reassembly.memory(), 100 + 100 + 400);
        let inserted = reassembly.insert(range(20, 30), 100);
        assert_eq!(
            inserted,
            Inserted {
                duplicate: Some(range(20, 30)),
                is_old: true
            }
        );
        assert_eq!(reassembly.memory(), 600);
    }

    #[test]
    fn taking_begins_at_the_first_hole() {
        let mut reassembly = filled(&[(10, 20), (30, 40)]);
        assert_eq!(reassembly.take(9), None);
        assert_eq!(
            reassembly.take(10).map(|piece| piece.range),
            Some(range(10, 20))
        );
        assert_eq!(reassembly.take(20), None);
        assert_eq!(reassembly.memory(), 100);
    }

    #[test]
    fn pruning_drops_from_the_end_whole_packets_and_spares_what_lies_before() {
        let mut reassembly = filled(&[(10, 20), (30, 130)]);
        // 145 bytes of memory hold 14.5 bytes of data: two packets of 10.
        assert!(reassembly.prune(5, 10, 145, |_| true));
        assert_eq!(
            reassembly.ranges().collect::<Vec<_>>(),
            [range(10, 20), range(30, 110)]
        );
        assert_eq!(reassembly.memory(), 900);
        assert!(!reassembly.prune(35, 10, 145, |_| false));
        assert!(reassembly.prune(25, 10, 145, |_| false));
        assert_eq!(reassembly.ranges().collect::<Vec<_>>(), [range(10, 20)]);
        assert_eq!(reassembly.memory(), 100);
    }
}
