//! The load generator: keeps I/Os in flight on one LUN and measures what comes of it.
//!
//! - [`workload`]: which I/O comes next, seeded;
//! - [`content`]: what verified blocks contain;
//! - [`run`]: the loop, and the [`Report`] of what it measured.

pub mod content;
mod report;
mod run;
mod unit;
mod verify;
pub mod workload;

pub use report::{ConnectionReport, Latency, Report};
pub use run::{Limit, LoadConfig, LoadError, Progress, run};
pub use unit::capacity;
