//! A piece of memory filled with records of one kind.

use std::marker::PhantomData;

use super::words::Words;
use crate::Instant;

/// Bytes in one block. Blocks are taken one by one, so a short run stays small.
pub(crate) const BLOCK_BYTES: usize = 1024 * 1024;
/// Words in one block.
const BLOCK_WORDS: usize = BLOCK_BYTES / size_of::<u64>();
/// Words in the smallest page that a kernel has.
const PAGE_WORDS: usize = 4096 / size_of::<u64>();

/// Memory for one block, whatever its kind.
pub(super) type Memory = Box<[u64]>;

/// Takes memory from the kernel, all of its pages at once: the first touch of a page is what
/// recording would cost a thread that is busy with I/O.
pub(super) fn take_memory() -> Memory {
    let mut memory = vec![0; BLOCK_WORDS].into_boxed_slice();
    for page in memory.chunks_mut(PAGE_WORDS) {
        // Without it the compiler might leave out a store of what is there already.
        page[0] = std::hint::black_box(0);
    }
    memory
}

/// Records in the order in which they came.
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

    /// Adds a record; says whether there was room for it.
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

    /// The least time of its records; far in the future when there are none.
    pub(super) fn earliest(&self) -> Instant {
        self.earliest
    }

    /// The records in the order in which they came.
    pub(super) fn iter(&self) -> impl Iterator<Item = T> {
        let rows = self.words[..self.used_words].chunks_exact(T::WORDS);
        rows.map(|words| {
            let mut row = T::BLANK_ROW;
            row.as_mut().copy_from_slice(words);
            T::of_row(&row)
        })
    }
}
