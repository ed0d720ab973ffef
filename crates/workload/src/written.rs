//! Pieces with known content.

/// The pieces of a LUN that were written with their verifiable content.
#[derive(Debug)]
pub(crate) struct Written {
    bits: Vec<u64>,
}

impl Written {
    pub(crate) fn new(pieces: u64) -> Self {
        Written {
            bits: vec![0; pieces.div_ceil(64) as usize],
        }
    }

    pub(crate) fn set(&mut self, piece: u64) {
        self.bits[(piece / 64) as usize] |= 1 << (piece % 64);
    }

    pub(crate) fn is_set(&self, piece: u64) -> bool {
        self.bits[(piece / 64) as usize] & (1 << (piece % 64)) != 0
    }

    /// The first written piece at `from` or after it.
    pub(crate) fn next_from(&self, from: u64) -> Option<u64> {
        let mut word = (from / 64) as usize;
        let mut bits = self.bits.get(word)? & (u64::MAX << (from % 64));
        while bits == 0 {
            word += 1;
            bits = *self.bits.get(word)?;
        }
        Some(word as u64 * 64 + u64::from(bits.trailing_zeros()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_what_was_set() {
        let mut written = Written::new(200);
        for piece in [0, 63, 64, 199] {
            assert!(!written.is_set(piece));
            written.set(piece);
            assert!(written.is_set(piece));
        }
        let mut found = Vec::new();
        let mut from = 0;
        while let Some(piece) = written.next_from(from) {
            found.push(piece);
            from = piece + 1;
        }
        assert_eq!(found, [0, 63, 64, 199]);
    }
}
