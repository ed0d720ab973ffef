//! The logic of measured streams, without sockets: what a sender writes and when, what a receiver answers, and the
//! measurements.
//!
//! ```text
//!  Sending ── Hello, then in every N bytes a Mark (number, time) ──► Receiving
//!          ◄─ Welcome, then for every Mark an Echo (both, and when it was read) ──
//! ```
//!
//! - [`Sending`]: a stream at its sender: [`Sending::next`] returns what to write, [`Sending::take`] gets what was
//!   read;
//! - [`Receiving`]: a stream at its receiver;
//! - [`report`]: the measurements of all streams of a sender.

mod mark;
mod receiving;
mod report;
mod sending;
mod tally;

pub use mark::{Clock, Nonsense};
pub use receiving::Receiving;
pub use report::{jain, report};
pub use sending::{Next, PIECE_BYTES, Sending, filling};

use std::time::Duration;

/// Minimum and maximum distance of marks, in bytes.
pub const MARK_EVERY_BYTES: (u32, u32) = (1024, 1 << 30);

/// How long a receiver may take to read the rest after the measurement.
pub const END_PATIENCE: Duration = Duration::from_secs(1);
