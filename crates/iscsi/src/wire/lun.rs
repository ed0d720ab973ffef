//! Logical unit numbers (RFC 7143 §11.2.1.7, SAM-5 clause 4.7).

use core::fmt;

/// A logical unit number as it is in a PDU or in REPORT LUNS data: eight bytes, not an integer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Lun(pub [u8; 8]);

impl Lun {
    /// The single-level encoding of logical unit `number`: peripheral device addressing on bus 0
    /// below 256, flat space addressing up to 16383 (SAM-5 clauses 4.7.7.2 and 4.7.7.3); `None`
    /// above.
    #[must_use]
    pub const fn single_level(number: u16) -> Option<Self> {
        let [high, low] = number.to_be_bytes();
        match number {
            0..=0xff => Some(Lun([0, low, 0, 0, 0, 0, 0, 0])),
            0x100..=0x3fff => Some(Lun([0x40 | high, low, 0, 0, 0, 0, 0, 0])),
            _ => None,
        }
    }

    /// The logical unit of a single-level encoding; `None` for every other encoding (several levels, another bus,
    /// extended and well-known logical units). Both peripheral device and flat space addressing are accepted for
    /// numbers below 256.
    #[inline]
    #[must_use]
    pub const fn number(self) -> Option<u16> {
        let Lun([high, low, 0, 0, 0, 0, 0, 0]) = self else {
            return None;
        };
        match high {
            0x00 => Some(low as u16),
            0x40..=0x7f => Some(u16::from_be_bytes([high & 0x3f, low])),
            _ => None,
        }
    }
}

impl fmt::Display for Lun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.number() {
            Some(number) => fmt::Display::fmt(&number, f),
            None => write!(f, "{:#018x}", u64::from_be_bytes(self.0)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_single_level_number_comes_back() {
        for number in 0..0x4000 {
            assert_eq!(
                Lun::single_level(number).and_then(Lun::number),
                Some(number)
            );
        }
        assert_eq!(Lun::single_level(0x4000), None);
    }

    #[test]
    fn other_encodings_have_no_number() {
        let flat_space_5 = Lun([0x40, 5, 0, 0, 0, 0, 0, 0]);
        assert_eq!(flat_space_5.number(), Some(5));
        for other in [
            [1, 0, 0, 0, 0, 0, 0, 0],
            [0, 1, 0, 1, 0, 0, 0, 0],
            [0xc1, 1, 0, 0, 0, 0, 0, 0],
        ] {
            assert_eq!(Lun(other).number(), None);
        }
        assert_eq!(
            Lun([0xc1, 1, 0, 0, 0, 0, 0, 0]).to_string(),
            "0xc101000000000000"
        );
    }
}
