//! Byte ranges of a disk.

/// `start..end`, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Range {
    /// The first byte.
    pub start: u64,
    /// One past the last byte; at least `start`.
    pub end: u64,
}

impl Range {
    /// `bytes` from `start` on, clipped at the largest 64-bit offset.
    #[must_use]
    pub const fn new(start: u64, bytes: u64) -> Range {
        Range {
            start,
            end: start.saturating_add(bytes),
        }
    }

    /// Its length, in bytes.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.end - self.start
    }

    /// Whether it is empty.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.start >= self.end
    }

    /// The common part; empty if there is none.
    #[must_use]
    pub fn intersection(&self, other: &Range) -> Range {
        let start = self.start.max(other.start);
        Range {
            start,
            end: self.end.min(other.end).max(start),
        }
    }

    /// Whether they share a byte.
    #[must_use]
    pub fn overlaps(&self, other: &Range) -> bool {
        self.start < other.end && other.start < self.end
    }

    /// Offsets of `part` within a buffer that holds this range.
    pub(crate) fn places(&self, part: &Range) -> std::ops::Range<usize> {
        (part.start - self.start) as usize..(part.end - self.start) as usize
    }
}

/// Removes `known` from `gaps` and calls `found` with each part of it that was in a gap.
pub(crate) fn fill(gaps: &mut Vec<Range>, known: &Range, mut found: impl FnMut(Range)) {
    if !gaps.iter().any(|gap| gap.overlaps(known)) {
        return;
    }
    let mut left = Vec::with_capacity(gaps.len() + 1);
    for gap in gaps.drain(..) {
        let part = gap.intersection(known);
        if part.is_empty() {
            left.push(gap);
            continue;
        }
        found(part);
        let around = [(gap.start, part.start), (part.end, gap.end)];
        let around = around.map(|(start, end)| Range { start, end });
        left.extend(around.into_iter().filter(|rest| !rest.is_empty()));
    }
    *gaps = left;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_leaves_gaps_around_it() {
        let mut gaps = vec![Range::new(0, 10), Range::new(20, 10)];
        let mut parts = Vec::new();
        fill(&mut gaps, &Range::new(5, 17), |part| parts.push(part));
        assert_eq!(parts, [Range::new(5, 5), Range::new(20, 2)]);
        assert_eq!(gaps, [Range::new(0, 5), Range::new(22, 8)]);
        fill(&mut gaps, &Range::new(2, 1), |part| parts.push(part));
        assert_eq!(
            gaps,
            [Range::new(0, 2), Range::new(3, 2), Range::new(22, 8)]
        );
    }

    #[test]
    fn ranges_that_adjoin_do_not_overlap() {
        assert!(!Range::new(0, 4).overlaps(&Range::new(4, 4)));
        assert!(Range::new(0, 4).intersection(&Range::new(4, 4)).is_empty());
    }
}
