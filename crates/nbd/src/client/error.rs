//! What a server did wrong, and what a caller cannot ask for.

use crate::wire::{
    BlockSizesError, ChunkType, CommandCode, Errno, OptionCode, OptionReplyCode, ParseError,
};

/// How a server broke the protocol, so that the connection has to be closed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ClientError {
    /// It sent something else than what should be there.
    #[error(transparent)]
    Message(#[from] ParseError),
    /// It cannot list exports ("Newstyle negotiation").
    #[error("the server knows no fixed newstyle negotiation, so it cannot list exports")]
    NotFixedNewstyle,
    /// It replied to another option than the last one.
    #[error("the server replied to {found} when {expected} was asked for")]
    WrongOption {
        /// What was asked for.
        expected: OptionCode,
        /// What it replied to.
        found: OptionCode,
    },
    /// It replied what is no reply to the option.
    #[error("the server replied {reply} to {option}, which does not go together")]
    WrongOptionReply {
        /// What was asked for.
        option: OptionCode,
        /// What it replied.
        reply: OptionReplyCode,
    },
    /// It replied more than is taken.
    #[error(
        "the server replied {data_bytes} bytes to {option}, more than {}",
        super::MAX_OPTION_REPLY_BYTES
    )]
    LongOptionReply {
        /// What was asked for.
        option: OptionCode,
        /// Length of the reply's data.
        data_bytes: u32,
    },
    /// It listed more exports than are taken.
    #[error("the server lists more than {} exports", super::MAX_LISTED)]
    LongList,
    /// It opened the export without a word on its size.
    #[error("the server opened the export without NBD_INFO_EXPORT")]
    NoExportInfo,
    /// It left out the flag that is always set ("Transmission flags").
    #[error("the server sent transmission flags {0:#x} without NBD_FLAG_HAS_FLAGS")]
    NoFlags(u16),
    /// Its block sizes are not those of the standard.
    #[error("the server sent block sizes that are not allowed: {0}")]
    BlockSizes(#[from] BlockSizesError),
    /// It chose a metadata context that was not asked for, or one twice.
    #[error(
        "the server chose metadata context {name:?}, which was not asked for, or chose it twice"
    )]
    WrongContext {
        /// The context.
        name: String,
    },
    /// It replied to a request that is not open.
    #[error("the server replied to cookie {0:#x}, of which no request is open")]
    UnknownCookie(u64),
    /// It repeated another offset than that of the request ("Extended reply chunk message").
    #[error("the server replied with offset {found} to {command} at offset {expected}")]
    WrongOffset {
        /// The request.
        command: CommandCode,
        /// Its offset.
        expected: u64,
        /// The offset in the reply.
        found: u64,
    },
    /// It sent a simple reply where chunks are due ("Structured reply chunk message").
    #[error("the server sent a simple reply to {0}, which needs a structured one")]
    SimpleReply(CommandCode),
    /// It sent a chunk that is no reply to the request, or has a wrong length ("Structured reply types").
    #[error(
        "the server sent {kind} with {payload_bytes} bytes in reply to {command}, which is not allowed"
    )]
    WrongChunk {
        /// The request.
        command: CommandCode,
        /// What the chunk says.
        kind: ChunkType,
        /// Length of its payload.
        payload_bytes: u64,
    },
    /// It sent content or an error about other bytes than those of the request.
    #[error(
        "the server replied about byte {offset_bytes} to {command} of {length_bytes} bytes at {start_bytes}"
    )]
    OutOfRange {
        /// The request.
        command: CommandCode,
        /// Its offset.
        start_bytes: u64,
        /// Its length.
        length_bytes: u64,
        /// Where the content or the error is, or ends.
        offset_bytes: u64,
    },
    /// It sent the same bytes twice.
    #[error("the server sent byte {offset_bytes} of a read twice")]
    Overlap {
        /// Where the second content begins.
        offset_bytes: u64,
    },
    /// It sent a read in too many pieces out of order.
    #[error(
        "the server sent a read in more than {} pieces out of order",
        super::coverage::MAX_PIECES
    )]
    TooManyPieces,
    /// It ended the reply to a read before all bytes were there.
    #[error("the server ended the reply to a read before all of its data came")]
    Incomplete,
    /// It said what is allocated twice, never, or of more than was asked for.
    #[error("the server replied to NBD_CMD_BLOCK_STATUS with {0}")]
    WrongStatus(&'static str),
}

/// Why a command was not sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SubmitError {
    /// The export is not open, or the client has said goodbye.
    #[error("no export is open")]
    NotReady,
    /// The export does not allow it.
    #[error("the server would fail the command with {errno}: {text}")]
    NotAllowed {
        /// What the server would reply.
        errno: Errno,
        /// Why.
        text: &'static str,
    },
    /// A length of more than 32 bits needs extended headers.
    #[error("a length of {0} bytes needs extended headers, which the server does not know")]
    TooLong(u64),
}
