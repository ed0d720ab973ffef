//! Why the target closes a connection.

use crate::fault::Fault;
use crate::wire::{FrameError, ParseError};

/// The connection must be closed; its session goes on while it has others. Where the standard wants
/// a Reject first, it has been queued: send what is pending before closing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Close {
    /// The stream could not be cut into PDUs.
    #[error("the initiator's stream is corrupt: {0}")]
    Frame(#[from] FrameError),
    /// A PDU could not be read.
    #[error("the initiator sent a malformed PDU: {0}")]
    Parse(#[from] ParseError),
    /// A PDU that may not come now.
    #[error("the initiator sent opcode 0x{opcode:02x}, which {why}")]
    OutOfState {
        /// The opcode.
        opcode: u8,
        /// Why it may not come.
        why: &'static str,
    },
    /// A request breaks a rule that leaves no other way to answer.
    #[error("protocol error by the initiator: {0}")]
    Protocol(&'static str),
    /// The memory for all sessions is used up.
    #[error("the target is out of memory for commands behind a gap in CmdSN")]
    NoMemory,
    /// The initiator logged out.
    #[error("the initiator logged out")]
    LoggedOut,
}

impl Close {
    /// Whose fault it is; `None` for an orderly end.
    #[must_use]
    pub fn fault(&self) -> Option<Fault> {
        match self {
            Close::LoggedOut => None,
            Close::NoMemory => Some(Fault::EnvironmentLacks),
            _ => Some(Fault::PeerMisbehaved),
        }
    }
}
