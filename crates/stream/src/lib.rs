//! The stream meter: TCP streams with marks that the receiver echoes, to measure throughput, latency and fairness of
//! any path, including paths with relays (`docs/reference/streams.md`).
//!
//! [`Receiver::start`] accepts streams; [`Sender::connect`] opens them and [`Sender::run`] sends and measures. The wire
//! protocol and the measurements are in [`wansan_workload::stream`], which does no I/O.
//!
//! Both run one thread with an event loop for any number of streams.

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
