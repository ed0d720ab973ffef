//! The policy of a relay that splits TCP connections (RFC 3135 §2.4), without sockets: drivers report the TCP state of
//! both sides and carry out its decisions.
//!
//! - [`Direction`]: which bytes are read, held and written, and how they end, over a driver's [`Carrier`];
//! - [`Governor`]: bounds the queueing delay of a flow by its [`Law`], over a driver's [`Sides`];
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

/// The client's side, as a place among a flow's sides; the direction from it has the same place.
pub const CLIENT: usize = 0;

/// The target's side.
pub const TARGET: usize = 1;

/// What a relay holds of each direction of a flow at most, where nothing else is set; bytes.
pub const DEFAULT_BUFFER_BYTES: usize = 256 << 10;

/// What sides are called in messages, in the order of a flow's.
pub const NAMES: [&str; 2] = ["towards the client", "towards the target"];
