//! Displays TCP connections while they are watched ([`wansan_tcp::watch`]).
//!
//! [`run`] passes the watch's batches to [`Sink`]s: the [`Screen`] in a terminal, the live [`Page`] in browsers,
//! [`Metrics`] for Prometheus, and the caller's own, for which [`Lines`] formats JSON. Each keeps its own board: all
//! open connections with their latest state.

mod audience;
mod board;
mod json;
mod metrics;
mod page;
mod screen;
mod sink;
mod text_screen;
mod words;

pub use audience::{Audience, LivePage, message};
pub use json::Lines;
pub use metrics::Metrics;
pub use page::Page;
pub use screen::Screen;
pub use sink::{Sink, SinkError, run};
pub use text_screen::TextScreen;
pub use words::{describe_device_gone, describe_method};
