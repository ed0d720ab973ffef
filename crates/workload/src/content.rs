//! The content of verified blocks: a pattern that depends on position.

/// Fills `data` with the content that belongs at `offset_bytes` of a LUN under `seed`.
///
/// Each 8-byte word depends on its position and on the seed, which reveals blocks that were moved, torn, skipped or
/// mixed up. `offset_bytes` and the length are multiples of 8.
pub fn fill(data: &mut [u8], offset_bytes: u64, seed: u64) {
    for (word, place) in data.chunks_exact_mut(8).zip(offset_bytes / 8..) {
        word.copy_from_slice(&word_at(place, seed).to_le_bytes());
    }
}

/// The first byte, as an offset in the LUN, where `data` differs from what [`fill`] puts at `offset_bytes`.
#[must_use]
pub fn first_difference(data: &[u8], offset_bytes: u64, seed: u64) -> Option<u64> {
    let mut places = data.chunks_exact(8).zip(offset_bytes / 8..);
    places
        .find(|(word, place)| **word != word_at(*place, seed).to_le_bytes())
        .map(|(word, place)| {
            let expected = word_at(place, seed).to_le_bytes();
            let within = word
                .iter()
                .zip(expected)
                .position(|(got, wanted)| *got != wanted);
            place * 8 + within.unwrap_or(0) as u64
        })
}

/// The mixing function of SplitMix64 (Steele, Lea, Flood 2014).
fn word_at(place: u64, seed: u64) -> u64 {
    let mut z = place.wrapping_add(seed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flipped_bit_is_found_where_it_is() {
        let mut data = vec![0; 4096];
        fill(&mut data, 8192, 42);
        assert_eq!(first_difference(&data, 8192, 42), None);
        data[1003] ^= 1;
        assert_eq!(first_difference(&data, 8192, 42), Some(8192 + 1003));
    }

    #[test]
    fn another_place_or_seed_differs() {
        let mut data = vec![0; 512];
        fill(&mut data, 512, 1);
        assert!(first_difference(&data, 1024, 1).is_some());
        assert!(first_difference(&data, 512, 2).is_some());
    }
}
