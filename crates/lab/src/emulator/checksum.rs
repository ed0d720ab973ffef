//! The Internet checksum (RFC 1071), and whether a transport checksum is yet to be filled in.

/// A sum of 16-bit words, with carries not yet folded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Sum(u64);

impl Sum {
    /// Adds `bytes`; an odd last byte is padded with a zero, so only the last addition may have odd length.
    #[must_use]
    pub(super) fn of(self, bytes: &[u8]) -> Sum {
        let (words, rest) = bytes.as_chunks::<4>();
        let mut sum = self.0;
        for word in words {
            sum += u64::from(u32::from_be_bytes(*word));
        }
        let (pairs, rest) = rest.as_chunks::<2>();
        for pair in pairs {
            sum += u64::from(u16::from_be_bytes(*pair));
        }
        if let [last] = rest {
            sum += u64::from(*last) << 8;
        }
        Sum(sum)
    }

    /// Adds a 16-bit word.
    #[must_use]
    pub(super) fn word(self, word: u16) -> Sum {
        Sum(self.0 + u64::from(word))
    }

    /// The sum folded to 16 bits. The checksum is its complement.
    #[must_use]
    pub(super) fn folded(self) -> u16 {
        let mut sum = self.0;
        while sum > 0xffff {
            sum = (sum >> 16) + (sum & 0xffff);
        }
        sum as u16
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_rfc_1071() {
        let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(Sum::default().of(&bytes).folded(), 0xddf2);
        assert_eq!(Sum::default().of(&bytes[..6]).word(0xf6f7).folded(), 0xddf2);
    }

    #[test]
    fn an_odd_byte_is_the_high_one() {
        assert_eq!(Sum::default().of(&[0, 1, 2, 3, 4]).folded(), 0x0604);
    }
}
