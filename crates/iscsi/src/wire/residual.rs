//! Residual counts (RFC 7143 §11.4.5).

use super::{Opcode, ParseError};

/// The residual of one direction of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Residual {
    /// Exactly the expected length was transferred.
    #[default]
    None,
    /// Bytes of the expected length that were not transferred.
    Underflow(u32),
    /// Bytes needed beyond the expected length.
    Overflow(u32),
}

impl Residual {
    /// The residual of a transfer of `expected_bytes` for the initiator, and `actual_bytes` for the device.
    #[inline]
    #[must_use]
    pub fn of(expected_bytes: u32, actual_bytes: u64) -> Self {
        let expected = u64::from(expected_bytes);
        if actual_bytes < expected {
            Residual::Underflow((expected - actual_bytes) as u32)
        } else if actual_bytes > expected {
            Residual::Overflow(u32::try_from(actual_bytes - expected).unwrap_or(u32::MAX))
        } else {
            Residual::None
        }
    }

    #[inline]
    pub(super) const fn from_wire(
        pdu: Opcode,
        overflow: bool,
        underflow: bool,
        count: u32,
    ) -> Result<Self, ParseError> {
        match (overflow, underflow) {
            (false, false) => Ok(Residual::None),
            (false, true) => Ok(Residual::Underflow(count)),
            (true, false) => Ok(Residual::Overflow(count)),
            (true, true) => Err(ParseError::InvalidField {
                pdu,
                field: "both overflow and underflow, count",
                value: count,
                section: "11.4.1",
            }),
        }
    }

    /// The count, and its flag.
    #[inline]
    pub(super) const fn to_wire(self, overflow_bit: u8, underflow_bit: u8) -> (u8, u32) {
        match self {
            Residual::None => (0, 0),
            Residual::Underflow(count) => (underflow_bit, count),
            Residual::Overflow(count) => (overflow_bit, count),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_compares_what_was_expected_with_what_was_moved() {
        assert_eq!(Residual::of(512, 512), Residual::None);
        assert_eq!(Residual::of(512, 36), Residual::Underflow(476));
        assert_eq!(Residual::of(0, 512), Residual::Overflow(512));
        assert_eq!(Residual::of(1, 1 << 40), Residual::Overflow(u32::MAX));
    }
}
