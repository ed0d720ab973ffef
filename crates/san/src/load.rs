//! The load generator: keeps I/Os in flight on one LUN and measures them.
//!
//! - [`workload`]: which I/O comes next, seeded;
//! - [`Load`]: the loop, and the [`BenchReport`] of what it measured.

mod report;
mod run;
mod unit;
mod verify;
pub mod workload;

pub use run::{Limit, Load, LoadConfig, LoadError, Progress};
pub use unit::capacity;
pub use wansan_schema::BenchReport;
