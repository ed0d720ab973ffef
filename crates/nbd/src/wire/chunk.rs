//! Payloads of chunks that answer any request, or reads ("Structured reply types").

use super::bytes::{Fields, put, u32_at, u64_at};
use super::string::MAX_STRING_BYTES;
use super::{ChunkType, Errno, ParseError};

/// Length of the offset before the data of `NBD_REPLY_TYPE_OFFSET_DATA`.
pub const OFFSET_BYTES: usize = 8;

/// The payload of `NBD_REPLY_TYPE_OFFSET_HOLE`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hole {
    /// Where in the export.
    pub offset_bytes: u64,
    /// How many zeros; never none.
    pub length_bytes: u32,
}

impl Hole {
    /// Its length.
    pub const BYTES: usize = 12;

    /// Parses it.
    ///
    /// # Errors
    /// [`ParseError::Value`] for a hole of no bytes.
    pub fn parse(bytes: &[u8; Self::BYTES]) -> Result<Self, ParseError> {
        let length_bytes = u32_at(bytes, 8);
        if length_bytes == 0 {
            return Err(ParseError::Value {
                message: "NBD_REPLY_TYPE_OFFSET_HOLE",
                field: "hole size",
                value: 0,
            });
        }
        Ok(Hole {
            offset_bytes: u64_at(bytes, 0),
            length_bytes,
        })
    }

    /// As bytes.
    #[must_use]
    pub fn emit(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        put(&mut bytes, 0, self.offset_bytes.to_be_bytes());
        put(&mut bytes, 8, self.length_bytes.to_be_bytes());
        bytes
    }
}

/// The payload of `NBD_REPLY_TYPE_ERROR`, `NBD_REPLY_TYPE_ERROR_OFFSET` and other chunks of errors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErrorChunk {
    /// What is wrong.
    pub errno: Errno,
    /// The same for a human being, as the peer has it: print it with care. May be empty.
    pub message: String,
    /// Where in the export; only in `NBD_REPLY_TYPE_ERROR_OFFSET`.
    pub offset_bytes: Option<u64>,
}

impl ErrorChunk {
    /// Parses the payload of a chunk of type `kind`. What kinds that are not known here have behind the message is
    /// ignored.
    ///
    /// # Errors
    /// [`ParseError::Length`]; [`ParseError::Value`] for an error of 0 or a message above [`MAX_STRING_BYTES`].
    pub fn parse(kind: ChunkType, payload: &[u8]) -> Result<Self, ParseError> {
        let message = "a chunk that reports an error";
        let bytes = payload.len();
        let length = ParseError::Length { message, bytes };
        let mut fields = Fields(payload);
        let errno = Errno::from_wire(fields.u32().ok_or(length)?).ok_or(ParseError::Value {
            message,
            field: "error",
            value: 0,
        })?;
        let text_bytes = usize::from(fields.u16().ok_or(length)?);
        if text_bytes > MAX_STRING_BYTES {
            return Err(ParseError::Value {
                message,
                field: "message length",
                value: text_bytes as u64,
            });
        }
        let text = fields.take(text_bytes).ok_or(length)?;
        let offset_bytes = match kind {
            ChunkType::ErrorOffset => Some(fields.u64().ok_or(length)?),
            _ => None,
        };
        if matches!(kind, ChunkType::Error | ChunkType::ErrorOffset) && !fields.0.is_empty() {
            return Err(length);
        }
        Ok(ErrorChunk {
            errno,
            message: String::from_utf8_lossy(text).into_owned(),
            offset_bytes,
        })
    }

    /// The type of the chunk that has it as its payload.
    #[must_use]
    pub const fn kind(&self) -> ChunkType {
        match self.offset_bytes {
            Some(_) => ChunkType::ErrorOffset,
            None => ChunkType::Error,
        }
    }

    /// Appends it.
    pub fn emit(&self, to: &mut Vec<u8>) {
        to.extend_from_slice(&self.errno.to_wire().to_be_bytes());
        to.extend_from_slice(&(self.message.len() as u16).to_be_bytes());
        to.extend_from_slice(self.message.as_bytes());
        if let Some(offset_bytes) = self.offset_bytes {
            to.extend_from_slice(&offset_bytes.to_be_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn round_trips(
            offset_bytes: u64,
            length_bytes in 1..u32::MAX,
            errno in proptest::sample::select(Errno::ALL),
            message in "[^\0]{0,40}",
            has_offset: bool,
        ) {
            let hole = Hole { offset_bytes, length_bytes };
            prop_assert_eq!(Hole::parse(&hole.emit()), Ok(hole));
            let offset_bytes = has_offset.then_some(offset_bytes);
            let error = ErrorChunk { errno, message, offset_bytes };
            let mut payload = Vec::new();
            error.emit(&mut payload);
            prop_assert_eq!(ErrorChunk::parse(error.kind(), &payload), Ok(error.clone()));
            payload.push(0);
            prop_assert!(ErrorChunk::parse(error.kind(), &payload).is_err());
            let unknown = ChunkType::from_wire(0x8123);
            prop_assert!(ErrorChunk::parse(unknown, &payload).is_ok());
            payload.truncate(payload.len() - 2);
            prop_assert!(ErrorChunk::parse(error.kind(), &payload).is_err());
        }
    }

    #[test]
    fn errors_and_holes_of_nothing_are_refused() {
        assert!(Hole::parse(&[0; 12]).is_err());
        let error = ErrorChunk::parse(ChunkType::Error, &[0; 6]).unwrap_err();
        assert!(matches!(error, ParseError::Value { value: 0, .. }));
        let long = [0, 0, 0, 5, 0x10, 1];
        let error = ErrorChunk::parse(ChunkType::Error, &long).unwrap_err();
        assert!(matches!(error, ParseError::Value { value: 4097, .. }));
    }
}
