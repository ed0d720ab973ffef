//! Records of several logs in the order of their times.

use std::iter::Peekable;
use std::vec::IntoIter;

use super::block::Block;
use super::{Log, Words};
use crate::Instant;

/// All records of `logs` by time, each with the place of its log; at the same moment, earlier logs
/// come first, and records of one log stay in the order in which they came.
///
/// A block is sorted when the first of its records is due. A thread records nearly in order,
/// so one or two blocks of each log are sorted at a time.
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
    pieces.sort_by_key(|piece| std::cmp::Reverse((piece.source.earliest(), piece.order)));
    let mut open: Vec<Open<T>> = Vec::new();
    std::iter::from_fn(move || {
        loop {
            let head = open.iter_mut().enumerate().filter_map(|(place, open)| {
                let time = open.records.peek()?.time();
                Some((time, open.order, place))
            });
            let head = head.min();
            let due = pieces
                .last()
                .is_some_and(|piece| head.is_none_or(|(time, ..)| piece.source.earliest() <= time));
            match (due, head) {
                (true, _) => open.extend(pieces.pop().map(Piece::sort)),
                (false, None) => return None,
                (false, Some((_, _, place))) => {
                    let log = open[place].log;
                    let record = open[place].records.next();
                    if open[place].records.peek().is_none() {
                        open.swap_remove(place);
                    }
                    return record.map(|record| (log, record));
                }
            }
        }
    })
}

/// Records that are sorted together.
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

/// A piece's records, sorted, as far as they are not given yet.
struct Open<T> {
    log: usize,
    order: usize,
    records: Peekable<IntoIter<T>>,
}

impl<T: Words> Piece<'_, T> {
    fn sort(self) -> Open<T> {
        let mut records = match self.source {
            Source::Block(block) => block.iter().collect(),
            Source::Record(record) => vec![record],
        };
        records.sort_by_key(Words::time);
        Open {
            log: self.log,
            order: self.order,
            records: records.into_iter().peekable(),
        }
    }
}
