//! Read-ahead data not requested yet.

use std::collections::{BTreeMap, BTreeSet};

use crate::range::Range;

/// The data of one operation.
#[derive(Debug)]
struct Piece {
    data: Vec<u8>,
    /// Bytes of it already read.
    read_bytes: u64,
    /// Its sequence number, in order of arrival.
    number: u64,
}

/// Pieces by first byte, without overlaps. A piece that was read is dropped: a sequential reader does not return, and
/// the kernel caches what it has read.
#[derive(Debug, Default)]
pub(crate) struct Clean {
    pieces: BTreeMap<u64, Piece>,
    by_age: BTreeSet<(u64, u64)>,
    next: u64,
    bytes: u64,
}

impl Clean {
    /// Total data, in bytes.
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

    /// Ranges of the pieces that overlap `range`.
    pub(crate) fn overlapping(&self, range: &Range) -> Vec<Range> {
        let before = self.pieces.range(..range.start).next_back();
        let first = before.map_or(range.start, |(place, _)| *place);
        self.pieces
            .range(first..range.end.max(first))
            .map(|(place, piece)| Range::new(*place, piece.data.len() as u64))
            .filter(|piece| piece.overlaps(range))
            .collect()
    }

    /// Copies a part of the piece at `place`, and drops the piece once all of it was read.
    pub(crate) fn read(&mut self, place: u64, part: &Range, into: &mut [u8]) {
        let Some(piece) = self.pieces.get_mut(&place) else {
            return;
        };
        let whole = Range::new(place, piece.data.len() as u64);
        into.copy_from_slice(&piece.data[whole.places(part)]);
        self.was_read(place, part.bytes());
    }

    /// Notes that `bytes` of the piece at `place` were read.
    pub(crate) fn was_read(&mut self, place: u64, bytes: u64) {
        let Some(piece) = self.pieces.get_mut(&place) else {
            return;
        };
        piece.read_bytes += bytes;
        if piece.read_bytes >= piece.data.len() as u64 {
            self.drop(place);
        }
    }

    /// Drops the pieces that overlap a range; returns the bytes that were never read.
    pub(crate) fn invalidate(&mut self, range: &Range) -> u64 {
        let pieces = self.overlapping(range);
        pieces.iter().map(|piece| self.drop(piece.start)).sum()
    }

    /// Drops the oldest piece; returns its bytes that were never read.
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
