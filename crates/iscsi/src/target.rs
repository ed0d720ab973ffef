//! The target's side of a session in full feature phase (RFC 7143 §4.2, §11).
//!
//! - [`Session`]: the command window, the tasks and the store operations ([`Work`]);
//! - [`Connection`]: one connection's byte streams, one of several;
//! - [`Memory`]: the memory limit shared by all sessions;
//! - [`SessionDirectory`]: the target's sessions, for logins.
//!
//! A connection logs in with [`crate::login::TargetLogin`] in a [`Handshake`], which then creates a session or the
//! connection that joins one.

mod allowance;
mod answered;
mod answering;
mod connection;
mod data_in;
mod directory;
mod error;
mod fenced;
mod gate;
mod grants;
mod handshake;
mod hold;
mod incoming;
mod kept;
mod layout;
mod management;
mod membership;
mod memory;
mod meter;
mod order;
mod places;
mod reassign;
mod recovery;
mod session;
mod task;
mod window;
mod work;
mod writing;

pub use allowance::{Period, Taken};
pub use connection::Connection;
pub use directory::{Desk, Known, MAX_ENDED, MAX_SESSIONS, Nexus, SessionDirectory};
pub use error::Close;
pub use handshake::{Handshake, HandshakeError};
pub use memory::Memory;
pub use meter::{ConnectionMeter, LatencyHistogram, OperationMeter, SessionMeter, UnitMeter};
pub use session::{Session, SessionConfig, UNSOLICITED_BYTES};
pub use work::{Done, ReadSpace, Work};

pub use crate::scsi::Remains;
