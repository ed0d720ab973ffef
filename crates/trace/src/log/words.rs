//! Records as rows of 64-bit words, whatever their kind; blocks hold their differences from predictions.

use crate::Instant;

/// A recorder's in-memory record, as words. Not visible to callers of the recorder: the kinds are fixed.
pub trait Words: Copy + 'static {
    /// Its words.
    type Row: Row;
    /// Packs it into a row.
    fn row(&self) -> Self::Row;
    /// Unpacks it from a row.
    fn of_row(row: &Self::Row) -> Self;
    /// Which records predict it: those of the same group, a number below [`GROUPS`](super::GROUPS), are alike.
    fn group(&self) -> usize;
    /// When it happened: the first word of its row.
    fn time(&self) -> Instant;
    /// The type of the file records that it stands for.
    type Record;
    /// Its file records, in time order.
    fn unfold(self) -> impl Iterator<Item = Self::Record>;
}

/// The words of a record, `[u64; N]`. Operations on all words are unrolled, so that those of a new row need not pass through
/// memory: a load of several words just after they were stored one by one waits until they are in the cache, as no store
/// forwards all of them, and takes longer than all the rest.
pub trait Row: Copy + std::fmt::Debug {
    /// Zeros.
    const BLANK: Self;
    /// Number of words.
    const WORDS: usize;
    /// The words.
    fn words(&self) -> &[u64];
    /// The words, to be changed.
    fn words_mut(&mut self) -> &mut [u64];
    /// Whether it has the same words as `other`, except the first.
    fn is_like(&self, other: &Self) -> bool;
    /// The sums, modulo 2⁶⁴, of its words and those of `other`.
    #[must_use]
    fn plus(&self, other: &Self) -> Self;
}

impl<const N: usize> Row for [u64; N] {
    const BLANK: Self = [0; N];
    const WORDS: usize = N;
    fn words(&self) -> &[u64] {
        self
    }
    fn words_mut(&mut self) -> &mut [u64] {
        self
    }
    #[inline(always)]
    fn is_like(&self, other: &Self) -> bool {
        (1..N).fold(0, |differs, word| differs | (self[word] ^ other[word])) == 0
    }
    #[inline(always)]
    fn plus(&self, other: &Self) -> Self {
        std::array::from_fn(|word| self[word].wrapping_add(other[word]))
    }
}
