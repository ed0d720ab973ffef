//! Header and data digests: CRC32C (RFC 7143 §11.2.3, §13.1).

use core::fmt;

/// Length of a digest on the wire.
pub const DIGEST_BYTES: usize = 4;

/// A CRC32C digest, by its value.
///
/// On the wire it is little-endian: 32 zero bytes give `aa 36 91 8a` (RFC 7143 Appendix A.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Digest(pub u32);

impl Digest {
    /// The digest of `bytes`.
    #[inline]
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Digest(crc32c::crc32c(bytes))
    }

    /// The digest from its bytes in a PDU.
    #[inline]
    #[must_use]
    pub const fn from_wire(bytes: [u8; DIGEST_BYTES]) -> Self {
        Digest(u32::from_le_bytes(bytes))
    }

    /// Its bytes in a PDU.
    #[inline]
    #[must_use]
    pub const fn to_wire(self) -> [u8; DIGEST_BYTES] {
        self.0.to_le_bytes()
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#010x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 7143 Appendix A.4, all five of its CRC examples.
    #[test]
    fn known_answers() {
        let ascending: [u8; 32] = core::array::from_fn(|i| i as u8);
        let descending: [u8; 32] = core::array::from_fn(|i| 31 - i as u8);
        let read_10 = [
            0x01, 0xc0, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
            0x00, 0x00, 0x14, 0x00, 0x00, 0x00, 0x00, 0x00, 0x04, 0x00, 0x00, 0x00, 0x00, 0x14,
            0x00, 0x00, 0x00, 0x18, 0x28, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0x00,
            0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
        ];
        for (bytes, wire) in [
            (&[0x00; 32][..], [0xaa, 0x36, 0x91, 0x8a]),
            (&[0xff; 32][..], [0x43, 0xab, 0xa8, 0x62]),
            (&ascending[..], [0x4e, 0x79, 0xdd, 0x46]),
            (&descending[..], [0x5c, 0xdb, 0x3f, 0x11]),
            (&read_10[..], [0x56, 0x3a, 0x96, 0xd9]),
        ] {
            assert_eq!(Digest::of(bytes).to_wire(), wire);
            assert_eq!(Digest::from_wire(wire), Digest::of(bytes));
        }
    }
}
