//! What a server tells its caller, and what the caller answers.

use crate::Extent;

/// What a client did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// It opened an export; requests follow.
    Opened {
        /// The export's place among those of [`Server::new`](super::Server::new).
        export: usize,
    },
    /// It asks for something. Everything about it that the protocol can tell was checked: that the export can do it and
    /// is not read-only, that the range lies within it, is aligned to the minimum block size, and is not empty, and that
    /// payloads are not too long. Requests that fail that were refused already.
    Request(Request),
    /// It said goodbye, and nothing more is taken from it. Open requests are to be answered still; then close the
    /// connection, when [`Server::is_finished`](super::Server::is_finished).
    Disconnect,
}

/// Which request is meant.
///
/// It is not the client's cookie: clients that use one for several open requests get as many replies with it, and it is
/// up to them which is which.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RequestId(pub(super) u64);

/// A request to be answered by [`Server::reply`](super::Server::reply).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Which one it is.
    pub id: RequestId,
    /// What it asks for.
    pub command: Command,
}

/// What a request asks for ("Request types"). Offsets and lengths are bytes of the export.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// `NBD_CMD_READ`.
    Read {
        /// Where.
        offset_bytes: u64,
        /// How much: up to the maximum payload.
        length_bytes: u32,
    },
    /// `NBD_CMD_WRITE`.
    Write {
        /// Where.
        offset_bytes: u64,
        /// What: up to the maximum payload.
        data: Vec<u8>,
        /// It is on stable storage before the reply.
        fua: bool,
    },
    /// `NBD_CMD_FLUSH`: all writes that were answered before are on stable storage before the reply.
    Flush,
    /// `NBD_CMD_TRIM`: the data is no longer needed.
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
        /// It may become a hole (no `NBD_CMD_FLAG_NO_HOLE`).
        may_unmap: bool,
        /// It fails at once, with [`Errno::NotSup`](crate::wire::Errno::NotSup), unless it is faster than a write
        /// (`NBD_CMD_FLAG_FAST_ZERO`).
        fast: bool,
    },
    /// `NBD_CMD_CACHE`: the data will be needed soon.
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
        /// Only the first extent is (`NBD_CMD_FLAG_REQ_ONE`).
        one: bool,
    },
}

/// The answer to a request that succeeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reply<'a> {
    /// It is done.
    Done,
    /// What was read, of the length that was asked for.
    Data(&'a [u8]),
    /// All that was read are zeros: structured and extended replies say so in a few bytes.
    Hole,
    /// Extents from the request's offset on; neighbours should differ. They may end before the request does, or behind
    /// it: what the protocol has no room for is left out. If there are none, the whole range is said to be allocated, as
    /// it may always be.
    Status(&'a [Extent]),
}
