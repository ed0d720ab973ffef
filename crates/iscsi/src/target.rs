//! The target's side of a session in full feature phase (RFC 7143 §4.2, §11).
//!
//! - [`Session`]: the command window, the tasks and what the stores are to do ([`Work`]);
//! - [`Connection`]: one connection's byte streams;
//! - [`Memory`]: the bound on what all sessions hold together.
//!
//! A connection logs in by itself with [`crate::login::TargetLogin`] over a [`Handshake`] and is
//! then given to its session.

mod answering;
mod connection;
mod error;
mod handshake;
mod hold;
mod incoming;
mod management;
mod memory;
mod session;
mod task;
mod window;
mod work;
mod writing;

pub use connection::Connection;
pub use error::Close;
pub use handshake::{Handshake, HandshakeError};
pub use memory::Memory;
pub use session::{Notice, Session, SessionConfig};
pub use work::Work;
