//! Numbers and headers of the NBD protocol, in network byte order.
//!
//! A handshake ("Newstyle negotiation", "Fixed newstyle negotiation") is a [`Greeting`], [`ClientFlags`], and options: an
//! [`OptionHeader`] with data, answered by [`OptionReplyHeader`]s with data. The transmission phase is a
//! [`RequestHeader`] with a payload for each request, and a [`SimpleReply`] or several [`ChunkHeader`]s with payloads for
//! each reply.
//!
//! Headers have a set length: `parse` takes an array, `emit` makes one. Data and payloads have any length: `parse` takes
//! all of it, `emit` appends.

#[macro_use]
mod code;

mod block_sizes;
mod bytes;
mod choice;
mod chunk;
mod errno;
mod error;
mod flags;
mod handshake;
mod info;
mod meta_context;
mod option;
mod reply;
mod request;
mod status;
mod string;

pub use block_sizes::{BlockSizes, BlockSizesError};
pub use choice::Choice;
pub use chunk::{ErrorChunk, Hole, OFFSET_BYTES};
pub use errno::Errno;
pub use error::{ParseError, StringProblem};
pub use flags::{
    ChunkFlags, ClientFlags, CommandFlags, HandshakeFlags, StateFlags, TransmissionFlags,
};
pub use handshake::{CLIENT_FLAGS_BYTES, EXPORT_NAME_PADDING_BYTES, Greeting, SizeAndFlags};
pub use info::{Info, InfoCode};
pub use meta_context::{BASE, BASE_ALLOCATION, MetaContext, MetaQuery};
pub use option::{ExportEntry, OptionCode, OptionHeader, OptionReplyCode, OptionReplyHeader};
pub use reply::{ChunkHeader, ChunkType, Replies, SimpleReply, is_simple};
pub use request::{CommandCode, RequestHeader};
pub use status::{Descriptor, MAX_DESCRIPTORS, Status, StatusQuery};
pub use string::{MAX_STRING_BYTES, check_string};

/// The longest payload that this crate takes or asks for, bytes: what is no denial of service ("Size constraints").
pub const MAX_PAYLOAD_BYTES: u32 = 32 << 20;
