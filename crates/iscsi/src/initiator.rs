//! The initiator's side of a session in full feature phase (RFC 7143 §4.2, §5, §11).
//!
//! - [`Session`]: the queue, the command window and the tasks, with its connections;
//! - [`Connection`]: one connection's byte streams;
//! - [`Command`] goes in, [`Completion`] comes out.
//!
//! A connection logs in by itself with [`crate::login::InitiatorLogin`] over a [`Handshake`] and
//! is then given to its session.

mod connection;
mod error;
mod handshake;
mod incoming;
mod outgoing;
mod session;
mod task;
mod text;

pub use connection::Connection;
pub use error::SessionError;
pub use handshake::{Handshake, HandshakeError};
pub use session::{Event, Full, Session};
pub use task::{Answer, Command, Completion, TaskError, Transfer};
