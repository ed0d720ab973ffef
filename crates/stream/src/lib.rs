//! The stream meter: TCP streams with marks in them that the receiver echoes, so that throughput,
//! latency and fairness can be told of any path, relays on it among them (`docs/reference/streams.md`).
//!
//! [`Receiver::start`] takes streams; [`Sender::connect`] opens some and [`Sender::run`] sends and
//! measures. What goes over the wire is in `mark`, which knows no socket.
//!
//! ```text
//!  Sender ── Hello, then in every N bytes a Mark (number, time) ──► Receiver
//!         ◄─ Welcome, then for every Mark an Echo (both, and when it was read) ──
//! ```
//!
//! Both have one thread with an event loop, whatever the number of streams.

mod error;
mod flow;
mod mark;
mod receive;
mod report;
mod send;
mod settings;
mod socket;

pub use error::StreamError;
pub use mark::Nonsense;
pub use receive::{ReceiveCounts, Receiver};
pub use report::jain;
pub use send::{Progress, Sender};
pub use settings::{
    BufferSettings, LoadSettings, ReceiveSettings, SendSettings, StreamSettings, TakingSettings,
};

/// The least and the greatest distance of marks, in bytes.
const MARK_EVERY_BYTES: (u32, u32) = (1024, 1 << 30);
