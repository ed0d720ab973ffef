//! Why a session fails.

use crate::fault::Fault;
use crate::sequence::Sn;
use crate::text::TextError;
use crate::text::exchange::ExchangeError;
use crate::wire::{FrameError, ParseError};

/// The session has failed (at error recovery level 0 any protocol error ends it, RFC 7143 §7.1.5).
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// The byte stream cannot be split into PDUs.
    #[error("the target's stream is corrupt: {0}")]
    Frame(#[from] FrameError),
    /// A PDU is malformed.
    #[error("the target sent a malformed PDU: {0}")]
    Parse(#[from] ParseError),
    /// A PDU that is not valid from a target.
    #[error("the target sent opcode 0x{0:02x}, which is not a target opcode or not expected now")]
    UnexpectedOpcode(u8),
    /// Data-In outside the buffer, out of order, or for a task that is not a read.
    #[error(
        "the target sent Data-In of {bytes} bytes at offset {offset} of {expected_bytes} for task {task:#x}; the next offset is {expected}"
    )]
    DataOutOfPlace {
        /// The task.
        task: u32,
        /// Bytes received.
        bytes: usize,
        /// Its Buffer Offset.
        offset: u32,
        /// The task's Expected Data Transfer Length; 0 unless it is a read.
        expected_bytes: u32,
        /// The next Buffer Offset.
        expected: u32,
    },
    /// An R2T that violates the command or the negotiated values.
    #[error("the target sent an R2T for task {task:#x} that {problem}")]
    BadR2t {
        /// The task.
        task: u32,
        /// What is wrong.
        problem: &'static str,
    },
    /// A status with an unexpected StatSN.
    #[error(
        "the target sent StatSN {got} instead of {expected}: {} (RFC 7143 §4.2.2.2)",
        if got.lt(*expected) { "a status was sent twice" } else { "a status is missing" }
    )]
    StatusOutOfOrder {
        /// The value received.
        got: Sn,
        /// The value expected.
        expected: Sn,
    },
    /// A PDU for a task with allegiance to another connection, or that was never sent.
    #[error(
        "the target sent a PDU for task {task:#x} on connection {connection}, to which the task has no allegiance (RFC 7143 §4.2.5.1)"
    )]
    WrongConnection {
        /// The task.
        task: u32,
        /// The CID of the connection.
        connection: u16,
    },
    /// The target sends NOP-Ins without reading the answers.
    #[error("the target sends NOP-Ins faster than it reads the answers")]
    PingFlood,
    /// The answer to a Text Request is invalid.
    #[error("the target sent an invalid text response: {0}")]
    Text(#[from] ExchangeError),
    /// Data was corrupted on the way to the target (data digest error, RFC 7143 §7.8).
    #[error("data was corrupted on the way to the target: data digest error (RFC 7143 §7.8)")]
    Damaged,
    /// Connection recovery failed (RFC 7143 §7.1.4.3).
    #[error("the target did not {what}: response 0x{code:02x} (RFC 7143 §11.6.1, §11.15.1)")]
    NotRecovered {
        /// The request.
        what: &'static str,
        /// The response code.
        code: u8,
    },
    /// The target requests a logout or drops the connection (RFC 7143 §11.9).
    #[error(
        "the target {} (asynchronous event {event}, RFC 7143 §11.9.1)",
        if *event == 1 { "asked for a logout" } else { "dropped the connection" }
    )]
    TargetLeft {
        /// The event's code.
        event: u8,
    },
}

impl SessionError {
    /// Which side is at fault.
    #[must_use]
    pub fn fault(&self) -> Fault {
        match self {
            SessionError::TargetLeft { .. }
            | SessionError::Damaged
            | SessionError::NotRecovered { .. } => Fault::EnvironmentLacks,
            SessionError::Frame(error) => error.fault(),
            _ => Fault::PeerMisbehaved,
        }
    }

    /// Whether the session cannot continue without the connection.
    #[must_use]
    pub fn ends_session(&self) -> bool {
        matches!(self, SessionError::NotRecovered { .. })
    }

    /// Whether the path to the target failed, which may recover, and not one of its ends.
    #[must_use]
    pub fn is_of_the_path(&self) -> bool {
        self.fault() == Fault::EnvironmentLacks
    }
}

/// Why a logged-in connection is not added to its session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AdmitError {
    /// The login is not complete.
    #[error("the connection has not logged in yet")]
    NotLoggedIn,
    /// Its login created its own session, or joined another one (TSIH, RFC 7143 §11.12.6).
    #[error(
        "the connection belongs to the session with TSIH {tsih:#06x}, not to this one (RFC 7143 §11.12.6)"
    )]
    OtherSession {
        /// The TSIH of the session that it logged in to.
        tsih: u16,
    },
    /// The session has a connection with its CID (RFC 7143 §11.12.7), or, for the leading connection of a replacement
    /// session, has connections at all.
    #[error("the session already has a connection with this CID (RFC 7143 §6.3.5)")]
    Taken,
}

impl From<TextError> for SessionError {
    fn from(error: TextError) -> Self {
        SessionError::Text(error.into())
    }
}
