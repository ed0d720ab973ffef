//! Logical blocks of the units.

/// Size of a logical block, and the unit in which writes are torn.
pub(crate) const BLOCK_BYTES: usize = 512;

/// The first word of a block.
pub(crate) fn word_of(block: &[u8]) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&block[..8]);
    u64::from_be_bytes(word)
}
