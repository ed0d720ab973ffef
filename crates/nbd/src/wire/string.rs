//! Strings ("Conventions").

use super::{ParseError, StringProblem};

/// The longest string, bytes.
pub const MAX_STRING_BYTES: usize = 4096;

/// Holds bytes to what the standard says of strings.
///
/// # Errors
/// [`StringProblem`].
pub fn check_string(bytes: &[u8]) -> Result<&str, StringProblem> {
    if bytes.len() > MAX_STRING_BYTES {
        return Err(StringProblem::TooLong { bytes: bytes.len() });
    }
    let string = core::str::from_utf8(bytes).map_err(|_| StringProblem::NotUtf8)?;
    if string.contains('\0') {
        return Err(StringProblem::HasNul);
    }
    Ok(string)
}

/// A string in a message.
pub(super) fn string<'a>(message: &'static str, bytes: &'a [u8]) -> Result<&'a str, ParseError> {
    check_string(bytes).map_err(|problem| ParseError::String { message, problem })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_short_utf8_without_nul() {
        assert_eq!(check_string("żółw".as_bytes()), Ok("żółw"));
        assert_eq!(check_string(&[0xff]), Err(StringProblem::NotUtf8));
        assert_eq!(check_string(b"a\0b"), Err(StringProblem::HasNul));
        assert!(check_string(&[b'a'; MAX_STRING_BYTES]).is_ok());
        let bytes = MAX_STRING_BYTES + 1;
        let too_long = StringProblem::TooLong { bytes };
        assert_eq!(check_string(&vec![b'a'; bytes]), Err(too_long));
    }
}
