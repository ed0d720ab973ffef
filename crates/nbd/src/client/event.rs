//! What a client is asked for, and what it tells its caller.

use crate::wire::{Errno, OptionCode, OptionReplyCode, Replies};
use crate::{Export, Extent};

/// What a client tries to agree on with a server, and does without where the server does not know it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wants {
    /// `NBD_OPT_EXTENDED_HEADERS`.
    pub extended_headers: bool,
    /// `NBD_OPT_STRUCTURED_REPLY`, where extended headers are not in use.
    pub structured_replies: bool,
    /// `base:allocation`, for [`Command::BlockStatus`].
    pub block_status: bool,
}

/// All of it.
impl Default for Wants {
    fn default() -> Self {
        Wants {
            extended_headers: true,
            structured_replies: true,
            block_status: true,
        }
    }
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// The export is open: commands can be sent.
    Ready(ExportInfo),
    /// The server refused the export or the list, and the client has said goodbye.
    Refused(Refusal),
    /// The exports that there are; the client has said goodbye.
    Listed(Vec<Listing>),
    /// The reply to a command has come.
    Done {
        /// What the caller gave with the command.
        user: u64,
        /// What became of it.
        result: Result<Done, Failure>,
    },
}

/// An export, and what was agreed on for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExportInfo {
    /// The export as the server describes it; block sizes that it does not say are
    /// [`BlockSizes::DEFAULT`](crate::BlockSizes::DEFAULT). Name and description are the server's: print them with care.
    pub export: Export,
    /// Which headers are in use.
    pub replies: Replies,
    /// Whether [`Command::BlockStatus`] can be asked.
    pub block_status: bool,
}

/// An export in a list. Print it with care: it is the server's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listing {
    /// Its name.
    pub name: String,
    /// What it is, for a human being; may be empty.
    pub description: String,
}

/// Why a server refuses an export or a list.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the server refused {option} with {reply}{}{}", if message.is_empty() { "" } else { ": " }, message.escape_debug())]
pub struct Refusal {
    /// What was asked for.
    pub option: OptionCode,
    /// The error.
    pub reply: OptionReplyCode,
    /// The same for a human being, as the server has it: print it with care. May be empty.
    pub message: String,
}

/// A command. Offsets and lengths are bytes of the export.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command<'a> {
    /// `NBD_CMD_READ`.
    Read {
        /// Where.
        offset_bytes: u64,
        /// Where the data goes; as much is read as it is long. It comes back with the reply.
        buffer: Vec<u8>,
    },
    /// `NBD_CMD_WRITE`.
    Write {
        /// Where.
        offset_bytes: u64,
        /// What.
        data: &'a [u8],
        /// It is on stable storage before the reply.
        fua: bool,
    },
    /// `NBD_CMD_FLUSH`.
    Flush,
    /// `NBD_CMD_TRIM`.
    Trim {
        /// Where.
        offset_bytes: u64,
        /// How much: more than 32 bits only with extended headers.
        length_bytes: u64,
        /// It is on stable storage before the reply.
        fua: bool,
    },
    /// `NBD_CMD_WRITE_ZEROES`.
    WriteZeroes {
        /// Where.
        offset_bytes: u64,
        /// How much: more than 32 bits only with extended headers.
        length_bytes: u64,
        /// It is on stable storage before the reply.
        fua: bool,
        /// It may become a hole.
        may_unmap: bool,
        /// It fails with [`Errno::NotSup`] unless it is faster than a write.
        fast: bool,
    },
    /// `NBD_CMD_CACHE`.
    Cache {
        /// Where.
        offset_bytes: u64,
        /// How much: more than 32 bits only with extended headers.
        length_bytes: u64,
    },
    /// `NBD_CMD_BLOCK_STATUS` of `base:allocation`.
    BlockStatus {
        /// Where.
        offset_bytes: u64,
        /// How much is of interest: more than 32 bits only with extended headers.
        length_bytes: u64,
        /// Only the first extent is.
        one: bool,
    },
}

/// The reply to a command that succeeded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Done {
    /// It is done.
    Plain,
    /// What was read: the buffer of the command.
    Data(Vec<u8>),
    /// Extents from the command's offset on; at least one. They may end before the range does, or behind it, but not
    /// behind the export.
    Status(Vec<Extent>),
}

/// The reply to a command that failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the server failed the command with {errno}{}{}", if message.is_empty() { "" } else { ": " }, message.escape_debug())]
pub struct Failure {
    /// Why. After [`Errno::Shutdown`] the client must disconnect ("Terminating the transmission phase").
    pub errno: Errno,
    /// The same for a human being, as the server has it: print it with care. May be empty.
    pub message: String,
    /// Where in the export, if the server says so.
    pub offset_bytes: Option<u64>,
    /// That of a read, with undefined content; else empty.
    pub buffer: Vec<u8>,
}
