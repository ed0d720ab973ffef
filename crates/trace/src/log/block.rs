//! A block of memory filled with records of one kind.

use std::iter;
use std::marker::PhantomData;

use super::predict::{Predictor, most_bytes};
use super::words::{Row as _, Words};
use crate::Instant;

/// Block size in bytes. Blocks are allocated one by one, so a short run stays small. When logs are merged, one or two of
/// each are decoded at a time, to a few MiB of records.
pub(crate) const BLOCK_BYTES: usize = 64 * 1024;
/// Smallest kernel page size.
const PAGE_BYTES: usize = 4096;

/// Memory for one block, whatever its kind.
pub(super) type Memory = Box<[u8]>;

/// Allocates memory and touches all of its pages: page faults on first touch would otherwise cost the recording thread,
/// which is busy with I/O.
pub(super) fn take_memory() -> Memory {
    let mut memory = vec![0; BLOCK_BYTES].into_boxed_slice();
    for page in memory.chunks_mut(PAGE_BYTES) {
        // Without black_box, the compiler might omit storing a value that is already there.
        page[0] = std::hint::black_box(0);
    }
    memory
}

/// Records in order of arrival.
#[derive(Debug)]
pub(super) struct Block<T: Words> {
    bytes: Memory,
    used_bytes: usize,
    records: usize,
    kind: PhantomData<T>,
    earliest: Instant,
}

impl<T: Words> Block<T> {
    pub(super) fn new(memory: Memory) -> Self {
        Block {
            bytes: memory,
            used_bytes: 0,
            records: 0,
            kind: PhantomData,
            earliest: Instant::FAR_FUTURE,
        }
    }

    /// Adds a record, with the state that all records before it have left; returns whether there was room.
    #[inline(always)]
    pub(super) fn push(&mut self, predictor: &mut Predictor<T>, record: &T) -> bool {
        let end = self.used_bytes + most_bytes(T::Row::WORDS);
        let Some(room) = self.bytes.get_mut(self.used_bytes..end) else {
            return false;
        };
        self.used_bytes += predictor.encode(record.group(), record.row(), room);
        self.records += 1;
        self.earliest = self.earliest.min(record.time());
        true
    }

    pub(super) fn len(&self) -> usize {
        self.records
    }

    /// The earliest time of its records; far in the future if it has none.
    pub(super) fn earliest(&self) -> Instant {
        self.earliest
    }

    /// The records in order of arrival.
    pub(super) fn iter(&self) -> impl Iterator<Item = T> {
        let mut bytes = &self.bytes[..self.used_bytes];
        let mut predictor = Predictor::<T>::new();
        iter::from_fn(move || {
            if bytes.is_empty() {
                return None;
            }
            let (row, size) = predictor.decode(bytes);
            bytes = &bytes[size..];
            Some(T::of_row(&row))
        })
    }
}
