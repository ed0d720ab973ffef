//! The initiator's side of a session in full feature phase (RFC 7143 §4.2, §5, §11).
//!
//! - [`Session`]: the queue, the command window and the tasks, with its connections;
//! - [`Connection`]: one connection's byte streams;
//! - [`Schedule`]: which connection takes the next command; [`Tally`]: counters of each;
//! - [`Command`] goes in, [`Completion`] comes out;
//! - [`Recovery`]: recovers lost connections;
//! - [`RouteQueue`]: the commands for one unit above the sessions of several routes;
//! - [`Splitter`]: splits long writes, for targets that request little data at a time.
//!
//! A connection logs in with [`crate::login::InitiatorLogin`] in a [`Handshake`] and then enters its session: the first
//! one by [`Handshake::into_session`], others by [`Session::join`] and [`Session::admit`].

mod allegiance;
mod backoff;
mod connection;
mod dealer;
mod error;
mod handshake;
mod incoming;
mod lanes;
mod liveness;
mod outgoing;
mod overlap;
mod queue;
mod recovery;
mod replay;
mod requests;
mod retry;
mod route_queue;
mod schedule;
mod session;
mod snack;
mod split;
mod tally;
mod task;
mod text;
mod window;

pub use backoff::Backoff;
pub use connection::Connection;
pub use error::{AdmitError, SessionError};
pub use handshake::{Entry, Handshake, HandshakeError, LoginSettings};
pub use recovery::{
    Dialer, Lost, NotBack, Recoveries, Recovery, RecoverySettings, Step, attempt_time,
};
pub use route_queue::{Denied, RouteQueue};
pub use schedule::Schedule;
pub use session::{Event, Full, Session};
pub use split::{Splitter, part_bytes};
pub use tally::Tally;
pub use task::{Answer, Command, Completion, TaskError, Transfer};
