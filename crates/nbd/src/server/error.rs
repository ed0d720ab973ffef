//! What ends a connection.

use crate::wire::{CommandCode, ParseError, StringProblem};

/// What a client did that no reply can answer, so that the connection has to be closed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ServerError {
    /// It sent something else where a header should be.
    #[error(transparent)]
    Header(#[from] ParseError),
    /// It set flags that the greeting does not offer ("Client flags").
    #[error("the client set client flags {0:#x}, of which the server offers only 0x3")]
    UnknownClientFlags(u32),
    /// It asked for an export that there is not, by an option that has no reply to refuse it.
    #[error("the client asked by NBD_OPT_EXPORT_NAME for export {name:?}, which does not exist")]
    UnknownExport {
        /// The name.
        name: String,
    },
    /// It asked for an export by something that is no name.
    #[error("the client asked by NBD_OPT_EXPORT_NAME for an export whose name {0}")]
    InvalidExportName(StringProblem),
    /// It must use `NBD_OPT_GO` with extended headers ("`NBD_OPT_EXTENDED_HEADERS`").
    #[error("the client sent NBD_OPT_EXPORT_NAME after it had agreed on extended headers")]
    ExportNameWithExtendedHeaders,
    /// It must wait for the final reply to an option before it sends the next ("Fixed newstyle negotiation").
    #[error("the client sent another option while it had {pending_bytes} bytes of replies to read")]
    UnreadReplies {
        /// Length of the replies.
        pending_bytes: usize,
    },
    /// It announced a payload that would be a denial of service ("Request message").
    #[error("the client sent {command} with a payload of {payload_bytes} bytes, more than {max_bytes}", max_bytes = crate::MAX_PAYLOAD_BYTES)]
    PayloadTooLong {
        /// The command.
        command: CommandCode,
        /// Length of the payload.
        payload_bytes: u64,
    },
}
