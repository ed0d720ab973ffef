//! Merges records of several logs by time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::vec::IntoIter;

use super::block::Block;
use super::{Log, Words};
use crate::Instant;

/// All records of `logs` by time, each with the index of its log; at the same time, earlier logs come first, and
/// records of one log keep their order of arrival.
///
/// A block is sorted when its earliest record is due. A thread records nearly in order, so one or two blocks of each
/// log are sorted at a time.
pub(crate) fn by_time<'a, T: Words>(logs: &[&'a Log<T>]) -> impl Iterator<Item = (usize, T)> {
    let mut pieces: Vec<Piece<'a, T>> = Vec::new();
    for (log, records) in logs.iter().enumerate() {
        let blocks = records.blocks().map(Source::Block);
        for source in blocks.chain(records.growing.map(Source::Record)) {
            let order = pieces.len();
            pieces.push(Piece { log, order, source });
        }
    }
    // The next piece to sort is the last.
    pieces.sort_by_key(|piece| Reverse((piece.source.earliest(), piece.order)));
    let mut open: Vec<Open<T>> = Vec::new();
    // The next record of each nonempty piece: its time, its order, and the piece's index.
    let mut heads: BinaryHeap<Reverse<(Instant, usize, usize)>> = BinaryHeap::new();
    std::iter::from_fn(move || {
        while let Some(piece) = pieces.pop_if(|piece| {
            let earliest = piece.source.earliest();
            heads
                .peek()
                .is_none_or(|Reverse((time, ..))| earliest <= *time)
        }) {
            let piece = piece.sort();
            let first = piece.records.as_slice().first();
            heads.extend(first.map(|first| Reverse((first.time(), piece.order, open.len()))));
            open.push(piece);
        }
        // The piece with the earliest record usually has the next one too, and stays first.
        let mut head = heads.peek_mut()?;
        let Reverse((time, _, place)) = &mut *head;
        let Open { log, records, .. } = &mut open[*place];
        let (log, record) = (*log, records.next()?);
        match records.as_slice().first() {
            Some(next) => *time = next.time(),
            None => {
                // Frees its memory for others.
                *records = Vec::new().into_iter();
                PeekMut::pop(head);
            }
        }
        Some((log, record))
    })
}

/// Records sorted together.
struct Piece<'a, T: Words> {
    log: usize,
    order: usize,
    source: Source<'a, T>,
}

enum Source<'a, T: Words> {
    Block(&'a Block<T>),
    Record(T),
}

impl<T: Words> Source<'_, T> {
    fn earliest(&self) -> Instant {
        match self {
            Source::Block(block) => block.earliest(),
            Source::Record(record) => record.time(),
        }
    }
}

/// A sorted piece's remaining records.
struct Open<T> {
    log: usize,
    order: usize,
    records: IntoIter<T>,
}

impl<T: Words> Piece<'_, T> {
    fn sort(self) -> Open<T> {
        let mut records = match self.source {
            Source::Block(block) => {
                let mut records = Vec::with_capacity(block.len());
                records.extend(block.iter());
                records
            }
            Source::Record(record) => vec![record],
        };
        records.sort_by_key(Words::time);
        Open {
            log: self.log,
            order: self.order,
            records: records.into_iter(),
        }
    }
}
