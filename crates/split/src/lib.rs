//! The policy of a relay that splits TCP connections (RFC 3135 §2.4), without sockets: drivers report the TCP state of
//! both sides and carry out its decisions.
//!
//! - [`Direction`]: which bytes are read, held and written, and how the stream ends, over a driver's [`Carrier`];
//! - [`Governor`]: bounds the queueing delay of a flow according to its [`Law`], over a driver's [`Sides`];
//! - [`Receiver`]: decides at each arriving segment whether to signal ECE to its sender.
//!
//! docs/internals/relay-control.md derives the laws.

mod direction;
mod drain;
mod ece;
mod echo;
mod governor;
mod law;
mod plateau;
mod reading;
mod shares;
mod window;

pub use direction::{Carrier, Direction, End, Taken, Turn};
pub use ece::{Arrival, Order, Receiver, Signals};
pub use echo::{Fallback, FellBack, SignalSettings};
pub use governor::{Bound, Governor, Sides};
pub use law::{Law, LawError};
pub use reading::{Memory, Reading};
pub use shares::Shares;
pub use window::{ReceiveBuffer, Window};

/// Index of the client's side among the two sides of a flow, and of the direction from the client.
pub const CLIENT: usize = 0;

/// Index of the target's side, and of the direction from the target.
pub const TARGET: usize = 1;

/// Default limit on the bytes that a relay holds of each direction of a flow.
pub const DEFAULT_BUFFER_BYTES: usize = 256 << 10;

/// Names of the sides in messages, indexed by [`CLIENT`] and [`TARGET`].
pub const NAMES: [&str; 2] = ["towards the client", "towards the target"];
