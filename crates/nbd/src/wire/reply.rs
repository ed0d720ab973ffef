//! Replies ("Simple reply message", "Structured reply chunk message", "Extended reply chunk message").

use super::bytes::{put, u16_at, u32_at, u64_at};
use super::error::check_magic;
use super::{ChunkFlags, Errno, ParseError};

/// `NBD_SIMPLE_REPLY_MAGIC`.
const SIMPLE_MAGIC: u32 = 0x6744_6698;

/// `NBD_STRUCTURED_REPLY_MAGIC`.
const STRUCTURED_MAGIC: u32 = 0x668e_33ef;

/// `NBD_EXTENDED_REPLY_MAGIC`.
const EXTENDED_MAGIC: u32 = 0x6e8a_278c;

/// Which headers both ends agreed on ("Transmission").
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Replies {
    /// Compact requests, simple replies.
    Simple,
    /// Compact requests, structured replies (`NBD_OPT_STRUCTURED_REPLY`).
    Structured,
    /// Extended requests and replies (`NBD_OPT_EXTENDED_HEADERS`).
    Extended,
}

open_code! {
    /// What a chunk says ("Structured reply types").
    ChunkType: u16 {
        /// Nothing more; the last chunk.
        None = 0 "NBD_REPLY_TYPE_NONE",
        /// Data that was read.
        OffsetData = 1 "NBD_REPLY_TYPE_OFFSET_DATA",
        /// Zeros that were read.
        OffsetHole = 2 "NBD_REPLY_TYPE_OFFSET_HOLE",
        /// What is allocated, in structured replies.
        BlockStatus = 5 "NBD_REPLY_TYPE_BLOCK_STATUS",
        /// What is allocated, in extended replies.
        BlockStatusExt = 6 "NBD_REPLY_TYPE_BLOCK_STATUS_EXT",
        /// The request failed.
        Error = 0x8001 "NBD_REPLY_TYPE_ERROR",
        /// The request failed at an offset.
        ErrorOffset = 0x8002 "NBD_REPLY_TYPE_ERROR_OFFSET",
    }
}

impl ChunkType {
    /// Whether it says that the request failed.
    #[must_use]
    pub const fn is_error(self) -> bool {
        self.to_wire() >= 1 << 15
    }
}

/// A reply without chunks; data follows a successful one of `NBD_CMD_READ` ("Simple reply message").
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SimpleReply {
    /// Whether the request succeeded.
    pub result: Result<(), Errno>,
    /// That of the request.
    pub cookie: u64,
}

impl SimpleReply {
    /// Its length.
    pub const BYTES: usize = 16;

    /// Parses it.
    ///
    /// # Errors
    /// [`ParseError::Magic`].
    pub fn parse(bytes: &[u8; Self::BYTES]) -> Result<Self, ParseError> {
        check_magic("a simple reply", SIMPLE_MAGIC, u32_at(bytes, 0))?;
        Ok(SimpleReply {
            result: Errno::from_wire(u32_at(bytes, 4)).map_or(Ok(()), Err),
            cookie: u64_at(bytes, 8),
        })
    }

    /// As bytes.
    #[must_use]
    pub fn emit(&self) -> [u8; Self::BYTES] {
        let error = self.result.err().map_or(0, Errno::to_wire);
        let mut bytes = [0; Self::BYTES];
        put(&mut bytes, 0, SIMPLE_MAGIC.to_be_bytes());
        put(&mut bytes, 4, error.to_be_bytes());
        put(&mut bytes, 8, self.cookie.to_be_bytes());
        bytes
    }
}

/// Whether a reply that begins so is simple, where it may also be structured.
#[must_use]
pub fn is_simple(magic: [u8; 4]) -> bool {
    magic == SIMPLE_MAGIC.to_be_bytes()
}

/// Before the payload of a chunk ("Structured reply chunk message", "Extended reply chunk message").
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChunkHeader {
    /// Whether it is the last one.
    pub flags: ChunkFlags,
    /// What it says.
    pub kind: ChunkType,
    /// That of the request.
    pub cookie: u64,
    /// Length of the payload behind it; 32 bits in structured replies.
    pub payload_bytes: u64,
}

impl ChunkHeader {
    /// Length of a structured one.
    pub const BYTES: usize = 20;

    /// Length of an extended one.
    pub const EXTENDED_BYTES: usize = 32;

    /// Parses a structured one.
    ///
    /// # Errors
    /// [`ParseError::Magic`].
    pub fn parse(bytes: &[u8; Self::BYTES]) -> Result<Self, ParseError> {
        check_magic("a structured reply", STRUCTURED_MAGIC, u32_at(bytes, 0))?;
        Ok(Self::with_length(bytes, u64::from(u32_at(bytes, 16))))
    }

    /// Parses an extended one, and the request's offset, which it repeats.
    ///
    /// # Errors
    /// [`ParseError::Magic`].
    pub fn parse_extended(bytes: &[u8; Self::EXTENDED_BYTES]) -> Result<(Self, u64), ParseError> {
        check_magic("an extended reply", EXTENDED_MAGIC, u32_at(bytes, 0))?;
        let header = Self::with_length(bytes, u64_at(bytes, 24));
        Ok((header, u64_at(bytes, 16)))
    }

    fn with_length<const N: usize>(bytes: &[u8; N], payload_bytes: u64) -> Self {
        ChunkHeader {
            flags: ChunkFlags::from_wire(u16_at(bytes, 4)),
            kind: ChunkType::from_wire(u16_at(bytes, 6)),
            cookie: u64_at(bytes, 8),
            payload_bytes,
        }
    }

    /// As bytes of a structured one.
    ///
    /// # Panics
    /// When the payload's length does not fit into 32 bits.
    #[must_use]
    pub fn emit(&self) -> [u8; Self::BYTES] {
        let payload_bytes = self.payload_bytes;
        let Ok(length) = u32::try_from(payload_bytes) else {
            panic!("no structured reply has a payload of {payload_bytes} bytes");
        };
        let mut bytes = self.without_length(STRUCTURED_MAGIC);
        put(&mut bytes, 16, length.to_be_bytes());
        bytes
    }

    /// As bytes of an extended one, with the request's offset.
    #[must_use]
    pub fn emit_extended(&self, request_offset_bytes: u64) -> [u8; Self::EXTENDED_BYTES] {
        let mut bytes = self.without_length(EXTENDED_MAGIC);
        put(&mut bytes, 16, request_offset_bytes.to_be_bytes());
        put(&mut bytes, 24, self.payload_bytes.to_be_bytes());
        bytes
    }

    fn without_length<const N: usize>(&self, magic: u32) -> [u8; N] {
        let mut bytes = [0; N];
        put(&mut bytes, 0, magic.to_be_bytes());
        put(&mut bytes, 4, self.flags.to_wire().to_be_bytes());
        put(&mut bytes, 6, self.kind.to_wire().to_be_bytes());
        put(&mut bytes, 8, self.cookie.to_be_bytes());
        bytes
    }

    /// Whether it is the last one of its reply.
    #[must_use]
    pub const fn is_last(&self) -> bool {
        self.flags.has(ChunkFlags::DONE)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn round_trips(
            flags: u16,
            kind in 0..9u16,
            is_error: bool,
            cookie: u64,
            offset_bytes: u64,
            payload_bytes: u64,
        ) {
            let header = ChunkHeader {
                flags: ChunkFlags::from_wire(flags),
                kind: ChunkType::from_wire(kind | u16::from(is_error) << 15),
                cookie,
                payload_bytes,
            };
            prop_assert_eq!(header.kind.is_error(), is_error);
            let emitted = header.emit_extended(offset_bytes);
            prop_assert_eq!(ChunkHeader::parse_extended(&emitted), Ok((header, offset_bytes)));
            let payload_bytes = payload_bytes & u64::from(u32::MAX);
            let header = ChunkHeader { payload_bytes, ..header };
            let emitted = header.emit();
            prop_assert_eq!(ChunkHeader::parse(&emitted), Ok(header));
            prop_assert!(emitted.first_chunk().is_some_and(|magic| !is_simple(*magic)));
        }

        #[test]
        fn simple_replies_round_trip(
            errno in proptest::option::of(proptest::sample::select(Errno::ALL)),
            cookie: u64,
        ) {
            let reply = SimpleReply { result: errno.map_or(Ok(()), Err), cookie };
            let emitted = reply.emit();
            prop_assert_eq!(SimpleReply::parse(&emitted), Ok(reply));
            prop_assert!(emitted.first_chunk().is_some_and(|magic| is_simple(*magic)));
        }
    }
}
