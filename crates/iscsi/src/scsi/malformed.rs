//! Malformed data from logical units.

use crate::fault::Fault;

/// Malformed parameter data or sense data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// It is truncated.
    #[error("the logical unit's {what} is truncated: it has {bytes} bytes and needs {needed}")]
    Short {
        /// The data.
        what: &'static str,
        /// Bytes received.
        bytes: usize,
        /// Bytes required.
        needed: usize,
    },
    /// A field has an invalid or unusable value.
    #[error("the logical unit's {what} has an invalid {field}: {value:#x}")]
    Value {
        /// The data.
        what: &'static str,
        /// The field.
        field: &'static str,
        /// Its value.
        value: u64,
    },
}

impl Malformed {
    /// Always the peer's.
    #[must_use]
    pub const fn fault(&self) -> Fault {
        Fault::PeerMisbehaved
    }

    pub(super) fn value(what: &'static str, field: &'static str, value: impl Into<u64>) -> Self {
        Malformed::Value {
            what,
            field,
            value: value.into(),
        }
    }

    pub(super) fn check_bytes(
        what: &'static str,
        bytes: &[u8],
        needed: usize,
    ) -> Result<(), Malformed> {
        if bytes.len() < needed {
            return Err(Malformed::Short {
                what,
                bytes: bytes.len(),
                needed,
            });
        }
        Ok(())
    }
}
