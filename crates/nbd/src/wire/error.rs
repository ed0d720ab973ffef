//! Errors of headers and of data.

/// A message that is not as the standard has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// Another magic number than that of the message.
    #[error("the peer sent {found:#x} where {message} begins with {expected:#x}")]
    Magic {
        /// The message that should be there.
        message: &'static str,
        /// Its magic number.
        expected: u64,
        /// What is there.
        found: u64,
    },
    /// Fields that need more bytes than there are, or less.
    #[error("the peer sent {message} of {bytes} bytes, which its fields do not fill")]
    Length {
        /// The message.
        message: &'static str,
        /// Its length.
        bytes: usize,
    },
    /// A field with a value that it must not have.
    #[error("the peer sent {message} with {field} {value:#x}, which is not allowed")]
    Value {
        /// The message.
        message: &'static str,
        /// The field, by its name in the standard.
        field: &'static str,
        /// Its value.
        value: u64,
    },
    /// A string that is none.
    #[error("the peer sent {message} with a string that {problem}")]
    String {
        /// The message.
        message: &'static str,
        /// What is wrong with it.
        problem: StringProblem,
    },
}

/// What is wrong with a string ("Conventions").
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum StringProblem {
    /// It is longer than [`MAX_STRING_BYTES`](super::MAX_STRING_BYTES).
    #[error("has {bytes} bytes, more than {}", super::MAX_STRING_BYTES)]
    TooLong {
        /// Its length.
        bytes: usize,
    },
    /// It is not UTF-8.
    #[error("is not UTF-8")]
    NotUtf8,
    /// It contains NUL.
    #[error("contains NUL")]
    HasNul,
}

/// Whether a message begins with its magic number.
pub(super) fn check_magic<Magic: Into<u64>>(
    message: &'static str,
    expected: Magic,
    found: Magic,
) -> Result<(), ParseError> {
    let (expected, found) = (expected.into(), found.into());
    if found == expected {
        return Ok(());
    }
    Err(ParseError::Magic {
        message,
        expected,
        found,
    })
}
