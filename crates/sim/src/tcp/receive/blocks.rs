//! The SACK blocks that acknowledgements report, newest first (`tcp_sack_new_ofo_skb`, `tcp_dsack_set`).

use crate::tcp::segment::{Range, Sack};

/// Blocks that the kernel remembers (TCP_NUM_SACKS), even if fewer fit into a segment.
const MOST: usize = 4;

/// Blocks that the sender is sure to learn of, even if some acknowledgements are lost (TCP_SACK_BLOCKS_EXPECTED).
const EXPECTED: usize = 2;

/// SACK blocks, and the DSACK to report.
#[derive(Debug, Default)]
pub(super) struct Blocks {
    blocks: [Range; MOST],
    count: usize,
    /// Data received twice since the last acknowledgement (RFC 2883 §4).
    duplicate: Option<Range>,
}

/// Extends `block` by a range if they touch; returns whether they do.
fn extend(block: &mut Range, by: Range) -> bool {
    let is_joined = by.from <= block.to && block.from <= by.to;
    if is_joined {
        block.from = block.from.min(by.from);
        block.to = block.to.max(by.to);
    }
    is_joined
}

impl Blocks {
    /// Puts a received range in front, merged with the first block that it touches. Returns whether this affects blocks
    /// beyond the first `EXPECTED`, which may not have been reported.
    pub(super) fn add(&mut self, range: Range) -> bool {
        let known = self.blocks[..self.count]
            .iter_mut()
            .position(|block| extend(block, range));
        let place = known.unwrap_or(self.count);
        if known.is_some() {
            self.blocks[..=place].rotate_right(1);
            self.coalesce();
        } else {
            self.count = (self.count + 1).min(MOST);
            self.blocks[..self.count].rotate_right(1);
            self.blocks[0] = range;
        }
        place >= EXPECTED
    }

    /// Merges the first block with all blocks that it touches.
    fn coalesce(&mut self) {
        let [first, others @ ..] = &mut self.blocks[..self.count] else {
            return;
        };
        let mut kept = 0;
        for at in 0..others.len() {
            if !extend(first, others[at]) {
                others[kept] = others[at];
                kept += 1;
            }
        }
        self.count = 1 + kept;
    }

    /// Drops blocks that are cumulatively acknowledged (`tcp_sack_remove`).
    pub(super) fn remove_until(&mut self, next: u64) {
        let mut kept = 0;
        for at in 0..self.count {
            if self.blocks[at].from > next {
                self.blocks[kept] = self.blocks[at];
                kept += 1;
            }
        }
        self.count = kept;
    }

    /// Drops all blocks (`tcp_sack_reset`).
    pub(super) fn clear(&mut self) {
        *self = Blocks::default();
    }

    /// A segment with data arrives: only duplicates of the last one are reported.
    pub(super) fn forget_duplicate(&mut self) {
        self.duplicate = None;
    }

    /// Notes data received twice; a second run of the same segment that does not touch the first is not reported (RFC
    /// 2883 §4, rule 2).
    pub(super) fn set_duplicate(&mut self, range: Range) {
        match &mut self.duplicate {
            Some(known) => {
                extend(known, range);
            }
            none => *none = Some(range),
        }
    }

    /// The SACK option of the next segment. The duplicate is reported once.
    pub(super) fn report(&mut self) -> Sack {
        let mut sack = Sack::default();
        for block in self
            .duplicate
            .take()
            .iter()
            .chain(&self.blocks[..self.count])
        {
            sack.push(*block);
        }
        sack
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reported(blocks: &mut Blocks) -> Vec<(u64, u64)> {
        blocks
            .report()
            .blocks()
            .iter()
            .map(|block| (block.from, block.to))
            .collect()
    }

    fn added(ranges: &[(u64, u64)]) -> Blocks {
        let mut blocks = Blocks::default();
        for &(from, to) in ranges {
            blocks.add(Range { from, to });
        }
        blocks
    }

    #[test]
    fn a_fourth_block_comes_back_once_there_is_room() {
        let mut blocks = added(&[(10, 20), (30, 40), (50, 60), (70, 80)]);
        assert_eq!(reported(&mut blocks), [(70, 80), (50, 60), (30, 40)]);
        blocks.remove_until(20);
        assert_eq!(reported(&mut blocks), [(70, 80), (50, 60), (30, 40)]);
        blocks.add(Range { from: 60, to: 70 });
        assert_eq!(reported(&mut blocks), [(50, 80), (30, 40)]);
    }

    #[test]
    fn the_block_that_grows_becomes_the_first() {
        let mut blocks = added(&[(10, 20), (30, 40), (50, 60)]);
        assert!(blocks.add(Range { from: 20, to: 25 }));
        assert_eq!(reported(&mut blocks), [(10, 25), (50, 60), (30, 40)]);
        assert!(!blocks.add(Range { from: 60, to: 65 }));
    }

    #[test]
    fn a_duplicate_is_reported_once_and_before_the_others() {
        let mut blocks = added(&[(10, 20), (30, 40), (50, 60)]);
        blocks.set_duplicate(Range { from: 30, to: 35 });
        blocks.set_duplicate(Range { from: 35, to: 40 });
        blocks.set_duplicate(Range { from: 50, to: 60 });
        assert_eq!(reported(&mut blocks), [(30, 40), (50, 60), (30, 40)]);
        assert_eq!(reported(&mut blocks), [(50, 60), (30, 40), (10, 20)]);
    }
}
