//! Options and their replies ("Option types", "Option reply types").

use super::ParseError;
use super::bytes::{Fields, push_counted, put, u32_at, u64_at};
use super::error::check_magic;
use super::handshake::OPTION_MAGIC;
use super::string::string;

/// Of each reply to an option.
const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;

open_code! {
    /// What a client asks for during the handshake ("Option types").
    OptionCode: u32 {
        /// Open an export, as clients did before `NBD_OPT_GO`.
        ExportName = 1 "NBD_OPT_EXPORT_NAME",
        /// End the connection.
        Abort = 2 "NBD_OPT_ABORT",
        /// List the exports.
        List = 3 "NBD_OPT_LIST",
        /// Go on with TLS.
        StartTls = 5 "NBD_OPT_STARTTLS",
        /// Describe an export.
        Info = 6 "NBD_OPT_INFO",
        /// Open an export.
        Go = 7 "NBD_OPT_GO",
        /// Use structured replies.
        StructuredReply = 8 "NBD_OPT_STRUCTURED_REPLY",
        /// List metadata contexts.
        ListMetaContext = 9 "NBD_OPT_LIST_META_CONTEXT",
        /// Choose metadata contexts.
        SetMetaContext = 10 "NBD_OPT_SET_META_CONTEXT",
        /// Use extended headers, in place of structured replies.
        ExtendedHeaders = 11 "NBD_OPT_EXTENDED_HEADERS",
    }
}

open_code! {
    /// What a server replies to an option ("Option reply types").
    OptionReplyCode: u32 {
        /// Done; the last reply.
        Ack = 1 "NBD_REP_ACK",
        /// An export.
        Server = 2 "NBD_REP_SERVER",
        /// A fact about an export.
        Info = 3 "NBD_REP_INFO",
        /// A metadata context.
        MetaContext = 4 "NBD_REP_META_CONTEXT",
        /// The option is unknown.
        ErrUnsup = 0x8000_0001 "NBD_REP_ERR_UNSUP",
        /// The server's policy forbids it.
        ErrPolicy = 0x8000_0002 "NBD_REP_ERR_POLICY",
        /// Its data is invalid.
        ErrInvalid = 0x8000_0003 "NBD_REP_ERR_INVALID",
        /// The server's platform lacks it.
        ErrPlatform = 0x8000_0004 "NBD_REP_ERR_PLATFORM",
        /// It needs TLS.
        ErrTlsReqd = 0x8000_0005 "NBD_REP_ERR_TLS_REQD",
        /// There is no such export.
        ErrUnknown = 0x8000_0006 "NBD_REP_ERR_UNKNOWN",
        /// The server is being shut down.
        ErrShutdown = 0x8000_0007 "NBD_REP_ERR_SHUTDOWN",
        /// The client has to ask for the block sizes first.
        ErrBlockSizeReqd = 0x8000_0008 "NBD_REP_ERR_BLOCK_SIZE_REQD",
        /// The request or its reply is too large.
        ErrTooBig = 0x8000_0009 "NBD_REP_ERR_TOO_BIG",
        /// It needs extended headers.
        ErrExtHeaderReqd = 0x8000_000a "NBD_REP_ERR_EXT_HEADER_REQD",
    }
}

impl OptionReplyCode {
    /// Whether it refuses the option; it is the last reply then.
    #[must_use]
    pub const fn is_error(self) -> bool {
        self.to_wire() >= 1 << 31
    }
}

/// Before an option's data ("Newstyle negotiation").
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OptionHeader {
    /// What is asked for.
    pub option: OptionCode,
    /// Length of the data behind it.
    pub data_bytes: u32,
}

impl OptionHeader {
    /// Its length.
    pub const BYTES: usize = 16;

    /// Parses it.
    ///
    /// # Errors
    /// [`ParseError::Magic`].
    pub fn parse(bytes: &[u8; Self::BYTES]) -> Result<Self, ParseError> {
        check_magic("an option", OPTION_MAGIC, u64_at(bytes, 0))?;
        Ok(OptionHeader {
            option: OptionCode::from_wire(u32_at(bytes, 8)),
            data_bytes: u32_at(bytes, 12),
        })
    }

    /// As bytes.
    #[must_use]
    pub fn emit(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        put(&mut bytes, 0, OPTION_MAGIC.to_be_bytes());
        put(&mut bytes, 8, self.option.to_wire().to_be_bytes());
        put(&mut bytes, 12, self.data_bytes.to_be_bytes());
        bytes
    }
}

/// Before the data of a reply to an option ("Fixed newstyle negotiation").
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OptionReplyHeader {
    /// What was asked for.
    pub option: OptionCode,
    /// What it is answered.
    pub reply: OptionReplyCode,
    /// Length of the data behind it.
    pub data_bytes: u32,
}

impl OptionReplyHeader {
    /// Its length.
    pub const BYTES: usize = 20;

    /// Parses it.
    ///
    /// # Errors
    /// [`ParseError::Magic`].
    pub fn parse(bytes: &[u8; Self::BYTES]) -> Result<Self, ParseError> {
        check_magic("a reply to an option", OPTION_REPLY_MAGIC, u64_at(bytes, 0))?;
        Ok(OptionReplyHeader {
            option: OptionCode::from_wire(u32_at(bytes, 8)),
            reply: OptionReplyCode::from_wire(u32_at(bytes, 12)),
            data_bytes: u32_at(bytes, 16),
        })
    }

    /// As bytes.
    #[must_use]
    pub fn emit(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        put(&mut bytes, 0, OPTION_REPLY_MAGIC.to_be_bytes());
        put(&mut bytes, 8, self.option.to_wire().to_be_bytes());
        put(&mut bytes, 12, self.reply.to_wire().to_be_bytes());
        put(&mut bytes, 16, self.data_bytes.to_be_bytes());
        bytes
    }
}

/// An export in a list: the data of `NBD_REP_SERVER`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExportEntry<'a> {
    /// Its name.
    pub name: &'a str,
    /// What it is, for a human being; may be empty.
    pub description: &'a str,
}

impl<'a> ExportEntry<'a> {
    /// Parses it.
    ///
    /// # Errors
    /// [`ParseError::Length`] and [`ParseError::String`].
    pub fn parse(data: &'a [u8]) -> Result<Self, ParseError> {
        let message = "NBD_REP_SERVER";
        let bytes = data.len();
        let mut fields = Fields(data);
        let name = fields
            .counted()
            .ok_or(ParseError::Length { message, bytes })?;
        Ok(ExportEntry {
            name: string(message, name)?,
            description: string(message, fields.0)?,
        })
    }

    /// Appends it.
    pub fn emit(&self, to: &mut Vec<u8>) {
        push_counted(to, self.name.as_bytes());
        to.extend_from_slice(self.description.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn round_trips(
            option in 0..16u32,
            reply: u32,
            data_bytes: u32,
            name in "[^\0]{0,40}",
            description in "[^\0]{0,40}",
        ) {
            let option = OptionCode::from_wire(option);
            let header = OptionHeader { option, data_bytes };
            prop_assert_eq!(OptionHeader::parse(&header.emit()), Ok(header));
            let reply = OptionReplyCode::from_wire(reply & 0x8000_000f);
            let header = OptionReplyHeader { option, reply, data_bytes };
            prop_assert_eq!(OptionReplyHeader::parse(&header.emit()), Ok(header));
            let entry = ExportEntry { name: &name, description: &description };
            let mut data = Vec::new();
            entry.emit(&mut data);
            prop_assert_eq!(ExportEntry::parse(&data), Ok(entry));
        }
    }

    #[test]
    fn a_name_does_not_go_beyond_its_data() {
        let error = ExportEntry::parse(b"\0\0\0\x05name").unwrap_err();
        assert!(matches!(error, ParseError::Length { bytes: 8, .. }));
    }

    #[test]
    fn errors_have_bit_31() {
        assert!(OptionReplyCode::ErrUnsup.is_error());
        assert!(OptionReplyCode::from_wire(0x8000_1234).is_error());
        assert!(!OptionReplyCode::Ack.is_error());
    }
}
