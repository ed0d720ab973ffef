//! A block of memory filled with records of one kind.

use std::marker::PhantomData;

use super::words::Words;
use crate::Instant;

/// Block size in bytes. Blocks are allocated one by one, so a short run stays small.
pub(crate) const BLOCK_BYTES: usize = 1024 * 1024;
/// Block size in words.
const BLOCK_WORDS: usize = BLOCK_BYTES / size_of::<u64>();
/// Smallest kernel page size, in words.
const PAGE_WORDS: usize = 4096 / size_of::<u64>();

/// Memory for one block, whatever its kind.
pub(super) type Memory = Box<[u64]>;

/// Allocates memory and touches all of its pages: page faults on first touch would otherwise cost the recording thread,
/// which is busy with I/O.
pub(super) fn take_memory() -> Memory {
    let mut memory = vec![0; BLOCK_WORDS].into_boxed_slice();
    for page in memory.chunks_mut(PAGE_WORDS) {
        // Without black_box, the compiler might omit storing a value that is already there.
        page[0] = std::hint::black_box(0);
    }
    memory
}

/// Records in order of arrival.
#[derive(Debug)]
pub(super) struct Block<T> {
    words: Memory,
    used_words: usize,
    earliest: Instant,
    kind: PhantomData<T>,
}

impl<T: Words> Block<T> {
    pub(super) fn new(memory: Memory) -> Self {
        Block {
            words: memory,
            used_words: 0,
            earliest: Instant::FAR_FUTURE,
            kind: PhantomData,
        }
    }

    /// Adds a record; returns whether there was room.
    #[inline]
    pub(super) fn push(&mut self, record: &T) -> bool {
        let end = self.used_words + T::WORDS;
        let Some(room) = self.words.get_mut(self.used_words..end) else {
            return false;
        };
        room.copy_from_slice(record.row().as_ref());
        self.used_words = end;
        self.earliest = self.earliest.min(record.time());
        true
    }

    pub(super) fn len(&self) -> usize {
        self.used_words / T::WORDS
    }

    /// The earliest time of its records; far in the future if it has none.
    pub(super) fn earliest(&self) -> Instant {
        self.earliest
    }

    /// The records in order of arrival.
    pub(super) fn iter(&self) -> impl Iterator<Item = T> {
        let rows = self.words[..self.used_words].chunks_exact(T::WORDS);
        rows.map(|words| {
            let mut row = T::BLANK_ROW;
            row.as_mut().copy_from_slice(words);
            T::of_row(&row)
        })
    }
}
