//! Records as rows of 64-bit words: what a block holds, whatever their kind.

use crate::Instant;

/// What a recorder keeps, as words. Callers of the recorder never see this: the kinds are fixed.
pub trait Words: Copy + 'static {
    /// `[u64; N]`.
    type Row: Copy + AsRef<[u64]> + AsMut<[u64]>;
    /// A row of zeros.
    const BLANK_ROW: Self::Row;
    /// How many words a row has.
    const WORDS: usize;
    /// Takes it apart.
    fn row(&self) -> Self::Row;
    /// Puts it together again.
    fn of_row(row: &Self::Row) -> Self;
    /// When it happened.
    fn time(&self) -> Instant;
    /// The records of a file for which it stands.
    type Record;
    /// Those records, in the order in which they happened.
    fn unfold(self) -> impl Iterator<Item = Self::Record>;
}
