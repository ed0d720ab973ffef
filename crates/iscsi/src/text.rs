//! key=value text of Login and Text PDUs (RFC 7143 §6.1): parsing and printing pairs, text split over several PDUs, and
//! discovery with SendTargets.
//!
//! - [`pairs`] parses a complete text, [`push_pair`] appends one pair;
//! - [`continuation`] joins and splits text that does not fit one PDU (the C bit);
//! - [`send_targets`] builds and parses SendTargets responses (Appendix C);
//! - [`exchange`] runs the exchange of a Text Request and its Responses.

pub mod continuation;
pub mod exchange;
pub mod send_targets;

use thiserror::Error;

use crate::fault::Fault;

/// Longest key name in bytes (RFC 7143 §6.1: a standard-label of at most 63 characters).
pub const MAX_NAME_BYTES: usize = 63;

/// Longest simple value in bytes, where a key does not say otherwise (RFC 7143 §6.1).
pub const MAX_VALUE_BYTES: usize = 255;

/// Maximum bytes of text in one negotiation sequence. RFC 7143 §6.1 requires 8192 bytes, and 64 KiB
/// for authentication methods with large items.
pub const MAX_TEXT_BYTES: usize = 65_536;

/// One `key=value` of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pair<'a> {
    /// The key's name: 1 to [`MAX_NAME_BYTES`] bytes of visible ASCII without `=`.
    pub name: &'a str,
    /// The value, possibly empty.
    pub value: &'a str,
}

/// Why a text is malformed: always the sender's fault.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum TextError {
    /// A pair without `=`, or with an empty or invalid name.
    #[error(
        "text at byte {at_byte} is not a key=value pair; the peer must correct it (RFC 7143 §6.1)"
    )]
    NotAPair {
        /// The offset of the pair in the text.
        at_byte: usize,
    },
    /// A key name of more than [`MAX_NAME_BYTES`] bytes.
    #[error(
        "key name at byte {at_byte} is longer than 63 bytes; the peer must correct it (RFC 7143 §6.1)"
    )]
    NameTooLong {
        /// The offset of the pair in the text.
        at_byte: usize,
    },
    /// The text is not UTF-8.
    #[error("text at byte {at_byte} is not UTF-8; the peer must correct it (RFC 7143 §6.1)")]
    NotUtf8 {
        /// The offset of the pair in the text.
        at_byte: usize,
    },
    /// More than [`MAX_TEXT_BYTES`] in one sequence, or than the receiver currently accepts.
    #[error("text sequence is too long; the peer must send less (RFC 7143 §6.1)")]
    TooLong,
}

impl TextError {
    /// Which side is at fault.
    #[must_use]
    pub fn fault(&self) -> Fault {
        Fault::PeerMisbehaved
    }
}

/// Appends `name=value` and its terminating NUL to `text`.
pub fn push_pair(text: &mut Vec<u8>, name: &str, value: &str) {
    text.extend_from_slice(name.as_bytes());
    text.push(b'=');
    text.extend_from_slice(value.as_bytes());
    text.push(0);
}

/// Parses a complete text into its pairs, in order.
///
/// More than one NUL between pairs is skipped (§6.1 allows it), and a missing NUL after the last
/// pair is tolerated.
///
/// # Errors
/// A [`TextError`] if the text violates §6.1 or the limits of this module.
pub fn pairs(text: &[u8]) -> Result<Vec<Pair<'_>>, TextError> {
    if text.len() > MAX_TEXT_BYTES {
        return Err(TextError::TooLong);
    }
    let mut found = Vec::new();
    let mut at_byte = 0;
    for piece in text.split(|&byte| byte == 0) {
        if !piece.is_empty() {
            found.push(pair(piece, at_byte)?);
        }
        at_byte += piece.len() + 1;
    }
    Ok(found)
}

fn pair(piece: &[u8], at_byte: usize) -> Result<Pair<'_>, TextError> {
    let piece = str::from_utf8(piece).map_err(|_| TextError::NotUtf8 { at_byte })?;
    let (name, value) = piece
        .split_once('=')
        .ok_or(TextError::NotAPair { at_byte })?;
    if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(TextError::NotAPair { at_byte });
    }
    if name.len() > MAX_NAME_BYTES {
        return Err(TextError::NameTooLong { at_byte });
    }
    Ok(Pair { name, value })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn pairs_are_read_as_they_were_written() {
        let mut text = Vec::new();
        push_pair(&mut text, "InitiatorName", "iqn.2026-01.com.example:a");
        push_pair(&mut text, "SendTargets", "");
        push_pair(&mut text, "X-com.example.k", "a=b");
        assert_eq!(
            pairs(&text).unwrap(),
            [
                Pair {
                    name: "InitiatorName",
                    value: "iqn.2026-01.com.example:a"
                },
                Pair {
                    name: "SendTargets",
                    value: ""
                },
                Pair {
                    name: "X-com.example.k",
                    value: "a=b"
                },
            ]
        );
    }

    #[test]
    fn extra_nul_and_a_missing_last_nul_are_forgiven() {
        assert_eq!(pairs(b"\0a=1\0\0b=2").unwrap().len(), 2);
        assert_eq!(pairs(b"").unwrap(), []);
    }

    #[test]
    fn broken_text_is_refused_by_where_it_breaks() {
        assert_eq!(pairs(b"a=1\0b\0"), Err(TextError::NotAPair { at_byte: 4 }));
        assert_eq!(pairs(b"=1\0"), Err(TextError::NotAPair { at_byte: 0 }));
        assert_eq!(pairs(b"a b=1\0"), Err(TextError::NotAPair { at_byte: 0 }));
        assert_eq!(pairs(b"a=\xff\0"), Err(TextError::NotUtf8 { at_byte: 0 }));
        let mut long = vec![b'K'; MAX_NAME_BYTES];
        long.extend_from_slice(b"=1\0");
        assert!(pairs(&long).is_ok());
        long.insert(0, b'K');
        assert_eq!(pairs(&long), Err(TextError::NameTooLong { at_byte: 0 }));
        assert_eq!(pairs(&vec![0; MAX_TEXT_BYTES + 1]), Err(TextError::TooLong));
    }

    /// Any bytes, and those that texts consist of: of the former hardly any text can be parsed.
    fn any_text() -> impl Strategy<Value = Vec<u8>> {
        let likely = proptest::sample::select(&b"KX.-7= \0\0=="[..]);
        prop_oneof![
            proptest::collection::vec(any::<u8>(), 0..600),
            proptest::collection::vec(likely, 0..12),
        ]
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(text in any_text()) {
            if let Ok(found) = pairs(&text) {
                let mut again = Vec::new();
                for pair in &found {
                    push_pair(&mut again, pair.name, pair.value);
                }
                prop_assert_eq!(pairs(&again).unwrap(), found);
            }
        }
    }
}
