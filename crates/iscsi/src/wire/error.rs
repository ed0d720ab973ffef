//! What can be wrong with a PDU.

use super::{Bhs, Opcode, RejectReason};
use crate::digest::Digest;
use crate::fault::Fault;

/// A header that has no meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// The header is of another PDU than the one that the parser was written for.
    #[error("header with opcode {:#04x} was passed to the parser of {expected:?}; check the opcode first", found.to_wire())]
    WrongOpcode {
        /// What the parser reads.
        expected: Opcode,
        /// What the header says.
        found: Opcode,
    },
    /// The opcode has no meaning in RFC 7143.
    #[error("the peer sent a PDU with opcode {0:#04x}, which RFC 7143 §11.2.1.2 does not define")]
    UnknownOpcode(u8),
    /// A field holds a value that the standard forbids or reserves.
    #[error(
        "the peer sent {pdu:?} with {field} {value:#x}, which RFC 7143 §{section} does not allow"
    )]
    InvalidField {
        /// The PDU.
        pdu: Opcode,
        /// The field, by its name in the standard.
        field: &'static str,
        /// What it holds.
        value: u32,
        /// The section that says what it may hold.
        section: &'static str,
    },
    /// An additional header segment does not fit into TotalAHSLength or into its own kind.
    #[error(
        "the peer sent an additional header segment at byte {offset} that does not fit (RFC 7143 §11.2.2)"
    )]
    MalformedAhs {
        /// Where it begins, from the end of the Basic Header Segment.
        offset: usize,
    },
}

impl ParseError {
    /// Whose fault it is.
    #[must_use]
    pub const fn fault(&self) -> Fault {
        match self {
            ParseError::WrongOpcode { .. } => Fault::CallerMisused,
            ParseError::UnknownOpcode(_)
            | ParseError::InvalidField { .. }
            | ParseError::MalformedAhs { .. } => Fault::PeerMisbehaved,
        }
    }

    /// What a target answers in a Reject (RFC 7143 §11.17.1).
    #[must_use]
    pub const fn reject_reason(&self) -> RejectReason {
        match self {
            ParseError::WrongOpcode { .. } => RejectReason::ProtocolError,
            ParseError::UnknownOpcode(_) => RejectReason::CommandNotSupported,
            ParseError::InvalidField { .. } | ParseError::MalformedAhs { .. } => {
                RejectReason::InvalidPduField
            }
        }
    }
}

/// A PDU that could not be taken out of the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The header digest does not match. The lengths in the header cannot be trusted, so nothing
    /// that follows can be found: the connection has to be closed (RFC 7143 §7.8).
    #[error(
        "header digest of the PDU at byte {stream_offset} is {received}, computed {computed}: the PDU was corrupted in transit; close the connection"
    )]
    HeaderDigest {
        /// Where the PDU begins in the stream.
        stream_offset: u64,
        /// What the PDU carries.
        received: Digest,
        /// What its header gives.
        computed: Digest,
    },
    /// The peer sent more data in one PDU than this end has declared to take
    /// (MaxRecvDataSegmentLength, RFC 7143 §13.12): the connection has to be closed, as skipping
    /// the data would mean to read it.
    #[error(
        "the data segment of the PDU at byte {stream_offset} has {data_bytes} bytes, more than MaxRecvDataSegmentLength {max_data_bytes}; close the connection"
    )]
    DataSegmentTooLong {
        /// The header.
        bhs: Bhs,
        /// Where the PDU begins in the stream.
        stream_offset: u64,
        /// DataSegmentLength.
        data_bytes: usize,
        /// The bound that was in force.
        max_data_bytes: usize,
    },
    /// The data digest does not match. The header is good and the stream still in step: a target
    /// answers with a Reject, an initiator gives the task up (RFC 7143 §7.8).
    #[error(
        "data digest of the PDU at byte {stream_offset} is {received}, computed {computed}: the data was corrupted in transit and is lost"
    )]
    DataDigest {
        /// The header.
        bhs: Bhs,
        /// Where the PDU begins in the stream.
        stream_offset: u64,
        /// What the PDU carries.
        received: Digest,
        /// What its data and padding give.
        computed: Digest,
    },
}

impl FrameError {
    /// Whether the stream is out of step for good, so that only closing the connection is left.
    #[must_use]
    pub const fn is_fatal(&self) -> bool {
        !matches!(self, FrameError::DataDigest { .. })
    }

    /// Whose fault it is.
    #[must_use]
    pub const fn fault(&self) -> Fault {
        match self {
            FrameError::HeaderDigest { .. } | FrameError::DataDigest { .. } => {
                Fault::EnvironmentLacks
            }
            FrameError::DataSegmentTooLong { .. } => Fault::PeerMisbehaved,
        }
    }
}
