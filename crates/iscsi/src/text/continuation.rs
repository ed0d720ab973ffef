//! Text split over several PDUs (RFC 7143 §6.2: the C bit of Login and Text PDUs).
//!
//! A pair may be split anywhere, even inside its name, so text is joined before it is parsed.

use super::{MAX_TEXT_BYTES, TextError};

/// Joins the data segments of one sequence up to a PDU without the C bit.
#[derive(Debug)]
pub struct Joiner {
    text: Vec<u8>,
    max_bytes: usize,
}

impl Default for Joiner {
    fn default() -> Self {
        Joiner::with_bound(MAX_TEXT_BYTES)
    }
}

impl Joiner {
    /// Accepts sequences of at most `max_bytes`.
    #[must_use]
    pub const fn with_bound(max_bytes: usize) -> Self {
        Joiner {
            text: Vec::new(),
            max_bytes,
        }
    }

    /// Takes the data segment of the next PDU. `continued` is its C bit. Returns the complete text at the PDU without
    /// the C bit, and is then ready for the next sequence.
    ///
    /// # Errors
    /// [`TextError::TooLong`] if the sequence exceeds its limit, [`MAX_TEXT_BYTES`] by default.
    pub fn join(&mut self, data: &[u8], continued: bool) -> Result<Option<Vec<u8>>, TextError> {
        if self.text.len() + data.len() > self.max_bytes {
            return Err(TextError::TooLong);
        }
        self.text.extend_from_slice(data);
        Ok((!continued).then(|| std::mem::take(&mut self.text)))
    }

    /// Whether a sequence is incomplete.
    #[must_use]
    pub fn is_joining(&self) -> bool {
        !self.text.is_empty()
    }
}

/// The text of one PDU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// The data segment.
    pub data: Vec<u8>,
    /// The C bit: more text follows in another PDU.
    pub continued: bool,
}

/// Text to send, split into the length that the receiver accepts in one PDU. The default has nothing to send.
#[derive(Debug, Default)]
pub struct Splitter {
    text: Vec<u8>,
    sent_bytes: usize,
    unfinished: bool,
}

impl Splitter {
    /// Starts sending `text`. An empty text is one empty piece.
    #[must_use]
    pub fn new(text: Vec<u8>) -> Self {
        Splitter {
            text,
            sent_bytes: 0,
            unfinished: true,
        }
    }

    /// The next piece, of at most `max_bytes` (at least 1, so that it always ends). After the last piece, empty ones.
    #[must_use]
    pub fn next_piece(&mut self, max_bytes: usize) -> Piece {
        let rest = &self.text[self.sent_bytes..];
        let data = rest[..rest.len().min(max_bytes.max(1))].to_vec();
        self.sent_bytes += data.len();
        self.unfinished = self.sent_bytes < self.text.len();
        Piece {
            data,
            continued: self.unfinished,
        }
    }

    /// Whether more pieces remain.
    #[must_use]
    pub fn has_more(&self) -> bool {
        self.unfinished
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_split_joins_again(
            text in proptest::collection::vec(any::<u8>(), 0..3000),
            max_bytes in 0_usize..600,
        ) {
            let mut splitter = Splitter::new(text.clone());
            let mut joiner = Joiner::default();
            let joined = loop {
                prop_assert!(splitter.has_more());
                let piece = splitter.next_piece(max_bytes);
                prop_assert!(piece.data.len() <= max_bytes.max(1));
                if let Some(joined) = joiner.join(&piece.data, piece.continued).unwrap() {
                    break joined;
                }
            };
            prop_assert_eq!(joined, text);
            prop_assert!(!splitter.has_more());
            prop_assert!(!joiner.is_joining());
        }
    }

    #[test]
    fn a_sequence_cannot_grow_without_bound() {
        let mut joiner = Joiner::default();
        assert_eq!(joiner.join(&vec![b'a'; MAX_TEXT_BYTES], true), Ok(None));
        assert_eq!(joiner.join(b"a", true), Err(TextError::TooLong));
    }
}
