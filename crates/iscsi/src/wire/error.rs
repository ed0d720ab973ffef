//! What can be wrong with a header.

use super::{Opcode, RejectReason};
use crate::fault::Fault;

/// A header that has no meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// The header is of another PDU than the one that the parser was written for.
    #[error("header with opcode {:#04x} was given to the parser of {expected:?}: look at the opcode first", found.to_wire())]
    WrongOpcode {
        /// What the parser reads.
        expected: Opcode,
        /// What the header says.
        found: Opcode,
    },
    /// The opcode has no meaning in RFC 7143.
    #[error("the peer sent a PDU with opcode {0:#04x}, which RFC 7143 §11.2.1.2 does not assign")]
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
