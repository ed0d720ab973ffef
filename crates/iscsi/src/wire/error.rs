//! Errors of PDUs.

use super::{Bhs, Opcode, RejectReason};
use crate::digest::Digest;
use crate::fault::Fault;

/// An invalid header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// The header has another opcode than the parser expects.
    #[error("header with opcode {:#04x} was passed to the parser of {expected:?}; check the opcode first", found.to_wire())]
    WrongOpcode {
        /// The opcode that the parser expects.
        expected: Opcode,
        /// The opcode in the header.
        found: Opcode,
    },
    /// RFC 7143 does not define the opcode.
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
        /// Its value.
        value: u32,
        /// The section of RFC 7143 that defines it.
        section: &'static str,
    },
    /// An additional header segment exceeds TotalAHSLength, or its length does not fit its type.
    #[error(
        "the peer sent an additional header segment at byte {offset} that does not fit (RFC 7143 §11.2.2)"
    )]
    MalformedAhs {
        /// Its offset from the end of the Basic Header Segment.
        offset: usize,
    },
}

impl ParseError {
    /// Which side is at fault.
    #[must_use]
    pub const fn fault(&self) -> Fault {
        match self {
            ParseError::WrongOpcode { .. } => Fault::CallerMisused,
            ParseError::UnknownOpcode(_)
            | ParseError::InvalidField { .. }
            | ParseError::MalformedAhs { .. } => Fault::PeerMisbehaved,
        }
    }

    /// The reason for a target's Reject (RFC 7143 §11.17.1).
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

/// Why a PDU cannot be read from the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The header digest does not match. The lengths in the header cannot be trusted, so the next
    /// PDU cannot be located: the connection must be closed (RFC 7143 §7.8).
    #[error(
        "header digest of the PDU at byte {stream_offset} is {received}, computed {computed}: the PDU was corrupted in transit; close the connection"
    )]
    HeaderDigest {
        /// The offset of the PDU in the stream.
        stream_offset: u64,
        /// The digest in the PDU.
        received: Digest,
        /// The digest computed over its header.
        computed: Digest,
    },
    /// The data segment exceeds this end's MaxRecvDataSegmentLength (RFC 7143 §13.12): the
    /// connection must be closed, as skipping the data would require reading it.
    #[error(
        "the data segment of the PDU at byte {stream_offset} has {data_bytes} bytes, more than MaxRecvDataSegmentLength {max_data_bytes}; close the connection"
    )]
    DataSegmentTooLong {
        /// The header.
        bhs: Bhs,
        /// The offset of the PDU in the stream.
        stream_offset: u64,
        /// DataSegmentLength.
        data_bytes: usize,
        /// This end's MaxRecvDataSegmentLength.
        max_data_bytes: usize,
    },
    /// The data digest does not match. The header is valid and framing is intact: a target answers
    /// with a Reject, an initiator fails the task (RFC 7143 §7.8).
    #[error(
        "data digest of the PDU at byte {stream_offset} is {received}, computed {computed}: the data was corrupted in transit and is lost"
    )]
    DataDigest {
        /// The header.
        bhs: Bhs,
        /// The offset of the PDU in the stream.
        stream_offset: u64,
        /// The digest in the PDU.
        received: Digest,
        /// The digest computed over its data and padding.
        computed: Digest,
    },
}

impl FrameError {
    /// Whether framing is lost, so that the connection must be closed.
    #[must_use]
    pub const fn is_fatal(&self) -> bool {
        !matches!(self, FrameError::DataDigest { .. })
    }

    /// Which side is at fault.
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
