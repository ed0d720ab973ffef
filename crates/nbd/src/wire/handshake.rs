//! The first bytes of both ends ("Newstyle negotiation").

use super::bytes::{put, u16_at, u64_at};
use super::error::check_magic;
use super::{HandshakeFlags, ParseError, TransmissionFlags};

/// `NBDMAGIC`, with which every server begins.
const INIT_MAGIC: u64 = 0x4e42_444d_4147_4943;

/// `IHAVEOPT`: of the newstyle greeting, and of each option.
pub(super) const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;

/// Length of the client's flags, bytes.
pub const CLIENT_FLAGS_BYTES: usize = 4;

/// Zeros after the answer to `NBD_OPT_EXPORT_NAME`, unless both ends agreed on none; bytes.
pub const EXPORT_NAME_PADDING_BYTES: usize = 124;

/// The server's first message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Greeting {
    /// What the server knows.
    pub flags: HandshakeFlags,
}

impl Greeting {
    /// Its length.
    pub const BYTES: usize = 18;

    /// Parses it.
    ///
    /// # Errors
    /// [`ParseError::Magic`], also for the greeting of an oldstyle server.
    pub fn parse(bytes: &[u8; Self::BYTES]) -> Result<Self, ParseError> {
        let message = "a newstyle greeting";
        for (at, expected) in [(0, INIT_MAGIC), (8, OPTION_MAGIC)] {
            check_magic(message, expected, u64_at(bytes, at))?;
        }
        let flags = HandshakeFlags::from_wire(u16_at(bytes, 16));
        Ok(Greeting { flags })
    }

    /// As bytes.
    #[must_use]
    pub fn emit(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        put(&mut bytes, 0, INIT_MAGIC.to_be_bytes());
        put(&mut bytes, 8, OPTION_MAGIC.to_be_bytes());
        put(&mut bytes, 16, self.flags.to_wire().to_be_bytes());
        bytes
    }
}

/// What a server says of the export that a client chose: the answer to `NBD_OPT_EXPORT_NAME`, and `NBD_INFO_EXPORT`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SizeAndFlags {
    /// Size of the export.
    pub size_bytes: u64,
    /// What it can do.
    pub flags: TransmissionFlags,
}

impl SizeAndFlags {
    /// Its length.
    pub const BYTES: usize = 10;

    /// Parses it.
    #[must_use]
    pub fn parse(bytes: &[u8; Self::BYTES]) -> Self {
        SizeAndFlags {
            size_bytes: u64_at(bytes, 0),
            flags: TransmissionFlags::from_wire(u16_at(bytes, 8)),
        }
    }

    /// As bytes.
    #[must_use]
    pub fn emit(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        put(&mut bytes, 0, self.size_bytes.to_be_bytes());
        put(&mut bytes, 8, self.flags.to_wire().to_be_bytes());
        bytes
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_greeting_begins_with_both_magic_words() {
        let flags = HandshakeFlags::FIXED_NEWSTYLE.with(HandshakeFlags::NO_ZEROES);
        let bytes = Greeting { flags }.emit();
        assert_eq!(&bytes, b"NBDMAGICIHAVEOPT\0\x03");
        let mut oldstyle = bytes;
        oldstyle[8..16].copy_from_slice(&0x0000_4202_8186_1253_u64.to_be_bytes());
        let error = Greeting::parse(&oldstyle).unwrap_err();
        assert!(matches!(error, ParseError::Magic { .. }), "{error}");
    }

    proptest! {
        #[test]
        fn round_trips(flags: u16, size_bytes: u64) {
            let greeting = Greeting { flags: HandshakeFlags::from_wire(flags) };
            prop_assert_eq!(Greeting::parse(&greeting.emit()), Ok(greeting));
            let flags = TransmissionFlags::from_wire(flags);
            let export = SizeAndFlags { size_bytes, flags };
            prop_assert_eq!(SizeAndFlags::parse(&export.emit()), export);
        }
    }
}
