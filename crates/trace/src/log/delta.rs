//! Rows as bytes: each 32-bit half of a word as its difference from the same half of the row before.
//!
//! Most fields of a record repeat, count up, or change little. A new page of memory costs more than encoding the rows
//! that fit into it, so smaller rows make recording cheaper, and the same memory holds more of them.
//!
//! A row begins with two bits per half, which say how many bytes of its difference follow: 0, 1, 2 or 4. The bytes of
//! all halves come after that, lowest first. Differences are modulo 2³² and alternate in sign (0, −1, 1, −2, …), so
//! that small negative ones are short too.

/// Bytes of the length bits of a row of `words` words.
const fn length_bytes(words: usize) -> usize {
    words.div_ceil(2)
}

/// Maximum size in bytes of a row of `words` words.
pub(super) const fn most_bytes(words: usize) -> usize {
    length_bytes(words) + words * size_of::<u64>()
}

/// Writes `row` after `before` to `bytes`, which has room for [`most_bytes`]; returns its size.
#[inline]
pub(super) fn encode(before: &[u64], row: &[u64], bytes: &mut [u8]) -> usize {
    let mut end = length_bytes(row.len());
    for (place, (before, word)) in before.iter().zip(row).enumerate() {
        let mut lengths = 0;
        if before != word {
            let [low, high] = [0, 32].map(|shift| difference(before >> shift, word >> shift));
            let [low_length, high_length] = [low, high].map(length);
            // Writes all eight bytes; the next word overwrites those that do not count.
            let both = u64::from(low) | u64::from(high) << (8 * size(low_length));
            bytes[end..end + 8].copy_from_slice(&both.to_le_bytes());
            end += size(low_length) + size(high_length);
            lengths = low_length | high_length << 2;
        }
        match place % 2 {
            0 => bytes[place / 2] = lengths,
            _ => bytes[place / 2] |= lengths << 4,
        }
    }
    end
}

/// Reads the row after `row` from `bytes` into `row`; returns its size.
#[inline]
pub(super) fn decode(row: &mut [u64], bytes: &[u8]) -> usize {
    let mut end = length_bytes(row.len());
    for (place, word) in row.iter_mut().enumerate() {
        let lengths = bytes[place / 2] >> (4 * (place % 2)) & 0xf;
        if lengths == 0 {
            continue;
        }
        let sizes = [lengths & 3, lengths >> 2].map(size);
        let both = up_to_eight(&bytes[end..]);
        let [low, high] = [both, both >> (8 * sizes[0])];
        end += sizes[0] + sizes[1];
        let [low, high] =
            [(low, sizes[0], *word), (high, sizes[1], *word >> 32)].map(|(bytes, size, before)| {
                let difference = (bytes & !(u64::MAX << (8 * size))) as u32;
                let difference = difference >> 1 ^ (difference & 1).wrapping_neg();
                (before as u32).wrapping_add(difference)
            });
        *word = u64::from(high) << 32 | u64::from(low);
    }
    end
}

/// The first eight bytes, lowest first; zeros beyond the end.
#[inline]
fn up_to_eight(bytes: &[u8]) -> u64 {
    let eight = bytes.first_chunk().copied().unwrap_or_else(|| {
        let mut eight = [0; 8];
        eight[..bytes.len()].copy_from_slice(bytes);
        eight
    });
    u64::from_le_bytes(eight)
}

/// The difference of the lower 32 bits, with alternating signs.
#[inline]
fn difference(before: u64, word: u64) -> u32 {
    let difference = (word as u32).wrapping_sub(before as u32);
    difference << 1 ^ ((difference as i32) >> 31) as u32
}

/// The length bits of a difference.
#[inline]
fn length(difference: u32) -> u8 {
    u8::from(difference > 0)
        + u8::from(difference > u32::from(u8::MAX))
        + u8::from(difference > u32::from(u16::MAX))
}

/// Bytes of a difference with these length bits.
#[inline]
fn size(length: u8) -> usize {
    (1 << length) >> 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_takes_the_bytes_of_what_changed() {
        let before = [7 << 32 | 1000, 5, u64::MAX];
        let mut bytes = [0; most_bytes(3)];
        for (row, size) in [
            (before, 2),
            ([7 << 32 | 1001, 5, u64::MAX], 3),
            ([7 << 32 | 999, 4, u64::MAX - 1], 5),
            ([8 << 32 | 2000, 5 + 70_000, u64::MAX], 2 + 1 + 2 + 4),
            // From the highest to 0 is one step.
            ([before[0], before[1], 0], 4),
        ] {
            assert_eq!(encode(&before, &row, &mut bytes), size, "{row:?}");
            let mut back = before;
            assert_eq!(decode(&mut back, &bytes), size);
            assert_eq!(back, row);
        }
        let far = before.map(|word| word ^ 0x8000_0000_8000_0000);
        assert_eq!(encode(&before, &far, &mut bytes), most_bytes(3));
    }
}
