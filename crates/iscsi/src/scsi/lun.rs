//! Logical unit numbers as eight bytes (SAM-5 4.7).
//!
//! A single-level LUN stands in the first two bytes, in one of two forms: numbers up to 255 in
//! peripheral device addressing, larger ones up to [`MAX_NUMBER`] in flat space addressing.

/// The largest number that flat space addressing can hold: 14 bits.
pub const MAX_NUMBER: u16 = 0x3fff;

/// The number of the logical unit at this address: peripheral device addressing on bus 0 or flat
/// space addressing, one level. `None` for all other forms.
#[must_use]
pub fn number(lun: &[u8; 8]) -> Option<u16> {
    let [high, low, rest @ ..] = *lun;
    if rest != [0; 6] {
        return None;
    }
    match high >> 6 {
        0b00 if high == 0 => Some(u16::from(low)),
        0b01 => Some(u16::from_be_bytes([high & 0x3f, low])),
        _ => None,
    }
}

/// The address of logical unit `number`, in the form that REPORT LUNS lists; `None` above
/// [`MAX_NUMBER`].
#[must_use]
pub fn address(number: u16) -> Option<[u8; 8]> {
    let [high, low] = number.to_be_bytes();
    let method = match number {
        0..=0xff => 0x00,
        0x100..=MAX_NUMBER => 0x40,
        _ => return None,
    };
    Some([method | high, low, 0, 0, 0, 0, 0, 0])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_addresses() {
        assert_eq!(address(0), Some([0; 8]));
        assert_eq!(address(255), Some([0, 255, 0, 0, 0, 0, 0, 0]));
        assert_eq!(address(256), Some([0x41, 0, 0, 0, 0, 0, 0, 0]));
        assert_eq!(address(16383), Some([0x7f, 0xff, 0, 0, 0, 0, 0, 0]));
        assert_eq!(address(16384), None);
    }

    #[test]
    fn all_numbers_round_trip() {
        for n in 0..=MAX_NUMBER {
            assert_eq!(address(n).as_ref().and_then(number), Some(n));
        }
    }

    #[test]
    fn flat_addressing_reaches_small_numbers_too() {
        assert_eq!(number(&[0x40, 7, 0, 0, 0, 0, 0, 0]), Some(7));
    }

    #[test]
    fn other_forms_name_no_unit() {
        for lun in [
            [0, 0, 0, 1, 0, 0, 0, 0],    // two levels
            [1, 0, 0, 0, 0, 0, 0, 0],    // bus 1
            [0x80, 0, 0, 0, 0, 0, 0, 0], // logical unit addressing
            [0xc1, 1, 0, 0, 0, 0, 0, 0], // REPORT LUNS well known logical unit
        ] {
            assert_eq!(number(&lun), None, "{lun:02x?}");
        }
    }
}
