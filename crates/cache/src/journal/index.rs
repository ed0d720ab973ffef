//! Index of the latest data in the journal that the disk does not have.

use std::collections::BTreeMap;

use super::record::{Kind, Record};
use crate::range::Range;

/// The latest record of a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) range: Range,
    /// Offset of the range's data in the ring; `None` for zeros.
    pub(super) place: Option<u64>,
    number: u64,
}

/// By first byte, without overlaps.
#[derive(Debug, Default)]
pub(super) struct Index {
    entries: BTreeMap<u64, Entry>,
}

impl Index {
    /// Adds a record as the latest of its range.
    pub(super) fn add(&mut self, record: &Record) {
        if record.range.is_empty() {
            return;
        }
        self.cut(&record.range, |_| true);
        let place = (record.kind == Kind::Write).then(|| record.data_place());
        self.entries.insert(
            record.range.start,
            Entry {
                range: record.range,
                place,
                number: record.number,
            },
        );
    }

    /// Removes a record that was written back, where it is still the latest.
    pub(super) fn remove(&mut self, record: &Record) {
        self.cut(&record.range, |entry| entry.number == record.number);
    }

    pub(super) fn overlapping(&self, range: &Range) -> Vec<Entry> {
        let before = self.entries.range(..range.start).next_back();
        let first = before.map_or(range.start, |(place, _)| *place);
        let entries = self.entries.range(first..range.end.max(first));
        let entries = entries.map(|(_, entry)| *entry);
        entries
            .filter(|entry| entry.range.overlaps(range))
            .collect()
    }

    /// Cuts `range` out of the entries that satisfy `meant`.
    fn cut(&mut self, range: &Range, meant: impl Fn(&Entry) -> bool) {
        for entry in self.overlapping(range).into_iter().filter(meant) {
            self.entries.remove(&entry.range.start);
            let around = [
                (entry.range.start, range.start),
                (range.end, entry.range.end),
            ];
            for (start, end) in around.into_iter().filter(|(start, end)| start < end) {
                let part = Range { start, end };
                let skipped = start - entry.range.start;
                self.entries.insert(
                    start,
                    Entry {
                        range: part,
                        place: entry.place.map(|place| place + skipped),
                        number: entry.number,
                    },
                );
            }
        }
    }
}
