//! Which requests overlap.

use core::ops::Range;
use std::collections::BTreeMap;

/// Block ranges of requests.
#[derive(Debug, Default)]
pub(crate) struct Extents {
    /// Key: first block and request ID; value: end of the range.
    ends: BTreeMap<(u64, u64), u64>,
    /// An upper bound of the longest range, in blocks.
    longest: u64,
}

impl Extents {
    pub(crate) fn insert(&mut self, request: u64, blocks: &Range<u64>) {
        if blocks.is_empty() {
            return;
        }
        if self.ends.is_empty() {
            self.longest = 0;
        }
        self.longest = self.longest.max(blocks.end - blocks.start);
        self.ends.insert((blocks.start, request), blocks.end);
    }

    pub(crate) fn remove(&mut self, request: u64, blocks: &Range<u64>) {
        self.ends.remove(&(blocks.start, request));
    }

    /// The requests that overlap these blocks.
    pub(crate) fn overlapping(&self, blocks: &Range<u64>) -> impl Iterator<Item = u64> {
        let (start, end) = (blocks.start, blocks.end);
        let from = start.saturating_sub(self.longest);
        let to = end.max(from);
        let near = self.ends.range((from, 0)..(to, 0));
        near.filter(move |(_, its_end)| **its_end > start)
            .map(|((_, request), _)| *request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_that_share_a_block_overlap() {
        let mut extents = Extents::default();
        for (request, blocks) in [(1, 100..200), (2, 200..208), (3, 5..5), (4, 0..u64::MAX)] {
            extents.insert(request, &blocks);
        }
        let overlapping = |extents: &Extents, blocks: Range<u64>| {
            let mut found: Vec<u64> = extents.overlapping(&blocks).collect();
            found.sort_unstable();
            found
        };
        assert_eq!(overlapping(&extents, 199..201), [1, 2, 4]);
        extents.remove(4, &(0..u64::MAX));
        assert_eq!(overlapping(&extents, 199..201), [1, 2]);
        assert_eq!(overlapping(&extents, 208..300), [0; 0]);
        assert_eq!(overlapping(&extents, 5..5), [0; 0]);
        assert_eq!(overlapping(&extents, 150..151), [1]);
    }
}
