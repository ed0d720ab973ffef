//! Requests ("Request message").

use super::bytes::{put, u16_at, u32_at, u64_at};
use super::error::check_magic;
use super::{CommandFlags, ParseError};

/// `NBD_REQUEST_MAGIC`.
const MAGIC: u32 = 0x2560_9513;

/// `NBD_EXTENDED_REQUEST_MAGIC`.
const EXTENDED_MAGIC: u32 = 0x21e4_1c71;

open_code! {
    /// What a client asks for during transmission ("Request types").
    CommandCode: u16 {
        /// Read.
        Read = 0 "NBD_CMD_READ",
        /// Write.
        Write = 1 "NBD_CMD_WRITE",
        /// End the connection; there is no reply.
        Disc = 2 "NBD_CMD_DISC",
        /// Bring finished writes to stable storage.
        Flush = 3 "NBD_CMD_FLUSH",
        /// Data is no longer needed.
        Trim = 4 "NBD_CMD_TRIM",
        /// Data will be needed soon.
        Cache = 5 "NBD_CMD_CACHE",
        /// Write zeros.
        WriteZeroes = 6 "NBD_CMD_WRITE_ZEROES",
        /// Say what is allocated.
        BlockStatus = 7 "NBD_CMD_BLOCK_STATUS",
    }
}

/// Before the payload of a request ("Request message").
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestHeader {
    /// How.
    pub flags: CommandFlags,
    /// What.
    pub command: CommandCode,
    /// By which the client knows the reply.
    pub cookie: u64,
    /// Where in the export.
    pub offset_bytes: u64,
    /// How much of the export or, in some extended requests, of payload: see [`payload_bytes`](Self::payload_bytes).
    pub length_bytes: u64,
}

impl RequestHeader {
    /// Length of a compact one.
    pub const BYTES: usize = 28;

    /// Length of an extended one.
    pub const EXTENDED_BYTES: usize = 32;

    /// Parses a compact one.
    ///
    /// # Errors
    /// [`ParseError::Magic`].
    pub fn parse(bytes: &[u8; Self::BYTES]) -> Result<Self, ParseError> {
        check_magic("a request", MAGIC, u32_at(bytes, 0))?;
        Ok(Self::with_length(bytes, u64::from(u32_at(bytes, 24))))
    }

    /// Parses an extended one.
    ///
    /// # Errors
    /// [`ParseError::Magic`].
    pub fn parse_extended(bytes: &[u8; Self::EXTENDED_BYTES]) -> Result<Self, ParseError> {
        check_magic("an extended request", EXTENDED_MAGIC, u32_at(bytes, 0))?;
        Ok(Self::with_length(bytes, u64_at(bytes, 24)))
    }

    fn with_length<const N: usize>(bytes: &[u8; N], length_bytes: u64) -> Self {
        RequestHeader {
            flags: CommandFlags::from_wire(u16_at(bytes, 4)),
            command: CommandCode::from_wire(u16_at(bytes, 6)),
            cookie: u64_at(bytes, 8),
            offset_bytes: u64_at(bytes, 16),
            length_bytes,
        }
    }

    /// As bytes of a compact one.
    ///
    /// # Panics
    /// When the length does not fit into 32 bits.
    #[must_use]
    pub fn emit(&self) -> [u8; Self::BYTES] {
        let length_bytes = self.length_bytes;
        let Ok(length) = u32::try_from(length_bytes) else {
            panic!("no compact request has a length of {length_bytes} bytes");
        };
        let mut bytes = self.without_length(MAGIC);
        put(&mut bytes, 24, length.to_be_bytes());
        bytes
    }

    /// As bytes of an extended one.
    #[must_use]
    pub fn emit_extended(&self) -> [u8; Self::EXTENDED_BYTES] {
        let mut bytes = self.without_length(EXTENDED_MAGIC);
        put(&mut bytes, 24, self.length_bytes.to_be_bytes());
        bytes
    }

    fn without_length<const N: usize>(&self, magic: u32) -> [u8; N] {
        let mut bytes = [0; N];
        put(&mut bytes, 0, magic.to_be_bytes());
        put(&mut bytes, 4, self.flags.to_wire().to_be_bytes());
        put(&mut bytes, 6, self.command.to_wire().to_be_bytes());
        put(&mut bytes, 8, self.cookie.to_be_bytes());
        put(&mut bytes, 16, self.offset_bytes.to_be_bytes());
        bytes
    }

    /// Length of the payload behind it: in compact requests only writes have one, in extended ones those whose flags
    /// say so.
    #[must_use]
    pub fn payload_bytes(&self, is_extended: bool) -> u64 {
        let has_payload = if is_extended {
            self.flags.has(CommandFlags::PAYLOAD_LEN)
        } else {
            self.command == CommandCode::Write
        };
        if has_payload { self.length_bytes } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_compact_write_is_as_the_standard_has_it() {
        let header = RequestHeader {
            flags: CommandFlags::FUA,
            command: CommandCode::Write,
            cookie: 0x0102_0304_0506_0708,
            offset_bytes: 0x1000,
            length_bytes: 0x200,
        };
        let bytes = [
            0x25, 0x60, 0x95, 0x13, 0, 1, 0, 1, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 0, 0, 0, 0x10, 0,
            0, 0, 2, 0,
        ];
        assert_eq!(header.emit(), bytes);
        assert_eq!(header.payload_bytes(false), 0x200);
        assert_eq!(header.payload_bytes(true), 0);
        let error = RequestHeader::parse_extended(&[0; 32]).unwrap_err();
        assert!(matches!(error, ParseError::Magic { found: 0, .. }));
    }

    proptest! {
        #[test]
        fn round_trips(flags: u16, command in 0..12u16, cookie: u64, offset_bytes: u64, length: u64) {
            let header = RequestHeader {
                flags: CommandFlags::from_wire(flags),
                command: CommandCode::from_wire(command),
                cookie,
                offset_bytes,
                length_bytes: length,
            };
            prop_assert_eq!(RequestHeader::parse_extended(&header.emit_extended()), Ok(header));
            let length_bytes = length & u64::from(u32::MAX);
            let header = RequestHeader { length_bytes, ..header };
            prop_assert_eq!(RequestHeader::parse(&header.emit()), Ok(header));
        }
    }
}
