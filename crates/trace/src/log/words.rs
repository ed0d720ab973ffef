//! Records as rows of 64-bit words, whatever their kind; blocks hold their differences.

use crate::Instant;

/// A recorder's in-memory record, as words. Not visible to callers of the recorder: the kinds are fixed.
pub trait Words: Copy + 'static {
    /// `[u64; N]`.
    type Row: Copy + std::fmt::Debug + AsRef<[u64]> + AsMut<[u64]>;
    /// A row of zeros.
    const BLANK_ROW: Self::Row;
    /// Words per row.
    const WORDS: usize;
    /// Packs it into a row.
    fn row(&self) -> Self::Row;
    /// Unpacks it from a row.
    fn of_row(row: &Self::Row) -> Self;
    /// When it happened.
    fn time(&self) -> Instant;
    /// The type of the file records that it stands for.
    type Record;
    /// Its file records, in time order.
    fn unfold(self) -> impl Iterator<Item = Self::Record>;
}
