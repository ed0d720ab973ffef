//! Data that were read ahead and not requested yet.

use std::collections::{BTreeMap, BTreeSet};

use crate::range::Range;

/// What one operation brought.
#[derive(Debug)]
struct Piece {
    data: Vec<u8>,
    /// Bytes of it that were read.
    read_bytes: u64,
    /// Its number: pieces that came earlier have smaller ones.
    number: u64,
}

/// The pieces by their first byte. They do not overlap. A piece that was read is gone: a program that reads in
/// sequence does not come back, and the kernel keeps what it has read.
#[derive(Debug, Default)]
pub(crate) struct Clean {
    pieces: BTreeMap<u64, Piece>,
    by_age: BTreeSet<(u64, u64)>,
    next: u64,
    bytes: u64,
}

impl Clean {
    /// All data in it, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn keep(&mut self, offset_bytes: u64, data: Vec<u8>) {
        self.bytes += data.len() as u64;
        self.by_age.insert((self.next, offset_bytes));
        let piece = Piece {
            data,
            read_bytes: 0,
            number: self.next,
        };
        self.next += 1;
        self.pieces.insert(offset_bytes, piece);
    }

    /// The ranges of pieces that have data of `range`.
    pub(crate) fn overlapping(&self, range: &Range) -> Vec<Range> {
        let before = self.pieces.range(..range.start).next_back();
        let first = before.map_or(range.start, |(place, _)| *place);
        self.pieces
            .range(first..range.end.max(first))
            .map(|(place, piece)| Range::new(*place, piece.data.len() as u64))
            .filter(|piece| piece.overlaps(range))
            .collect()
    }

    /// Copies a part of the piece at `place`, which is gone when all of it was read.
    pub(crate) fn read(&mut self, place: u64, part: &Range, into: &mut [u8]) {
        let Some(piece) = self.pieces.get_mut(&place) else {
            return;
        };
        let whole = Range::new(place, piece.data.len() as u64);
        into.copy_from_slice(&piece.data[whole.places(part)]);
        self.was_read(place, part.bytes());
    }

    /// So much of the piece at `place` has been read.
    pub(crate) fn was_read(&mut self, place: u64, bytes: u64) {
        let Some(piece) = self.pieces.get_mut(&place) else {
            return;
        };
        piece.read_bytes += bytes;
        if piece.read_bytes >= piece.data.len() as u64 {
            self.drop(place);
        }
    }

    /// Throws the pieces away that have data of a range; returns the bytes that nobody has read.
    pub(crate) fn invalidate(&mut self, range: &Range) -> u64 {
        let pieces = self.overlapping(range);
        pieces.iter().map(|piece| self.drop(piece.start)).sum()
    }

    /// Throws the oldest piece away; returns the bytes of it that nobody has read.
    pub(crate) fn drop_oldest(&mut self) -> Option<u64> {
        let (_, place) = *self.by_age.first()?;
        Some(self.drop(place))
    }

    fn drop(&mut self, place: u64) -> u64 {
        let Some(piece) = self.pieces.remove(&place) else {
            return 0;
        };
        self.by_age.remove(&(piece.number, place));
        let bytes = piece.data.len() as u64;
        self.bytes -= bytes;
        bytes.saturating_sub(piece.read_bytes)
    }
}
