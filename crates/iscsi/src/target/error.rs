//! Why the target closes a connection.

use crate::fault::Fault;
use crate::wire::{FrameError, ParseError};

/// The connection must be closed; its session continues over its other connections. Where the
/// standard requires a Reject first, it has been queued: send pending bytes before closing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Close {
    /// The byte stream cannot be split into PDUs.
    #[error("the initiator's stream is corrupt: {0}")]
    Frame(#[from] FrameError),
    /// A PDU is malformed.
    #[error("the initiator sent a malformed PDU: {0}")]
    Parse(#[from] ParseError),
    /// A PDU that is not allowed in this state.
    #[error("the initiator sent opcode 0x{opcode:02x}, which {why}")]
    OutOfState {
        /// The opcode.
        opcode: u8,
        /// Why it is not allowed.
        why: &'static str,
    },
    /// A protocol error that only closing the connection can answer.
    #[error("protocol error by the initiator: {0}")]
    Protocol(&'static str),
    /// The memory shared by all sessions is exhausted.
    #[error("the target is out of memory for commands behind a gap in CmdSN")]
    NoMemory,
    /// The initiator logged out.
    #[error("the initiator logged out")]
    LoggedOut,
}

impl Close {
    /// Which side is at fault; `None` for an orderly end.
    #[must_use]
    pub fn fault(&self) -> Option<Fault> {
        match self {
            Close::LoggedOut => None,
            Close::NoMemory => Some(Fault::EnvironmentLacks),
            _ => Some(Fault::PeerMisbehaved),
        }
    }
}
