//! The stream meter: TCP streams with marks in them that the receiver echoes, so that throughput,
//! latency and fairness of any path, relays on it among them, can be measured (`docs/reference/streams.md`).
//!
//! [`Receiver::start`] takes streams; [`Sender::connect`] opens some and [`Sender::run`] sends and
//! measures. What goes over the wire, and what is measured of it, is in [`wansan_workload::stream`], which knows no
//! socket.
//!
//! Both have one thread with an event loop, whatever the number of streams.

mod error;
mod flow;
mod receive;
mod send;
mod settings;
mod socket;

pub use error::StreamError;
pub use receive::{ReceiveCounts, Receiver};
pub use send::{Progress, Sender};
pub use settings::{
    BufferSettings, LoadSettings, ReceiveSettings, SendSettings, StreamSettings, TakingSettings,
};
pub use wansan_workload::stream::Nonsense;
