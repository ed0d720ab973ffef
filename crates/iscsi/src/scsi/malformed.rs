//! An answer of a logical unit that breaks its standard.

use crate::fault::Fault;

/// Parameter data or sense data that cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// It ends too soon.
    #[error("the logical unit's {what} is truncated: it has {bytes} bytes and needs {needed}")]
    Short {
        /// Which answer.
        what: &'static str,
        /// Bytes that came.
        bytes: usize,
        /// Bytes that it takes.
        needed: usize,
    },
    /// A field has a value that the standard does not allow, or that nothing can be done with.
    #[error("the logical unit's {what} has an invalid {field}: {value:#x}")]
    Value {
        /// Which answer.
        what: &'static str,
        /// Which field.
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
