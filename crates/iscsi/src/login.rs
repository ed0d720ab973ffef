//! The login phase as a state machine per connection (RFC 7143 §6.3, §11.12, §11.13).
//!
//! - [`TargetLogin`] takes Login Requests and returns the Responses; its caller decides about
//!   targets and sessions through [`Sessions`];
//! - [`InitiatorLogin`] starts a login and takes Login Responses.
//!
//! Both pass the same stages, security and operational negotiation and full feature phase, of which either of the first
//! two may be skipped. An initiator that needs no authentication starts in the operational stage with all its keys and
//! requests the transition to full feature phase at once, so that a login takes one round trip. With a secret it starts
//! in the security stage, and the exchange of [`chap`] takes three more.

pub mod chap;
pub mod initiator;
pub mod sessions;
pub mod target;

pub use initiator::{
    Established, InitiatorLogin, InitiatorLoginError, InitiatorSettings, Next, Request,
};
pub use sessions::{Admitted, AnnouncedWindow, Candidate, Found, Refusal, Sessions};
pub use target::{Accepted, Reply, Step, TargetLogin, TargetLoginError};

use crate::wire::Stage;

/// Maximum bytes of text that a target accepts in one sequence of a login. RFC 7143 §6.1 requires
/// 8192, and more only for authentication methods with large items.
pub const MAX_LOGIN_TEXT_BYTES: usize = 16_384;

/// Maximum number of PDUs from one end in a login. The longest text, in segments of 512 bytes,
/// takes 128.
pub const MAX_PDUS: u32 = 256;

/// The version of the protocol (RFC 7143 §11.12.4).
pub const VERSION: u8 = 0;

/// Whether login may transition from stage `from` to stage `to` (RFC 7143 §11.12.3).
fn leads_on(from: Stage, to: Stage) -> bool {
    from.to_wire() < to.to_wire() && to != Stage::SecurityNegotiation
}
