//! The policy of measured streams, without sockets: what a sender writes and when, what a receiver answers, and
//! what is measured of it.
//!
//! ```text
//!  Sending ── Hello, then in every N bytes a Mark (number, time) ──► Receiving
//!          ◄─ Welcome, then for every Mark an Echo (both, and when it was read) ──
//! ```
//!
//! - [`Sending`]: one stream at its sender: [`Sending::next`] says what is written, [`Sending::take`] is given what
//!   was read;
//! - [`Receiving`]: one at its receiver;
//! - [`report`]: what all streams of a sender measured together.

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

/// The least and the greatest distance of marks, in bytes.
pub const MARK_EVERY_BYTES: (u32, u32) = (1024, 1 << 30);

/// How long a receiver may take to read the rest once all was measured.
pub const END_PATIENCE: Duration = Duration::from_secs(1);
