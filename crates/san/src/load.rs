//! The load generator: drives a [`wansan_workload::Load`] over a session.

mod run;
mod unit;

pub(crate) use run::command;
pub use run::{Load, LoadError, Progress};
pub(crate) use unit::data;
pub use unit::{address, ask, capacity, page};
pub use wansan_schema::BenchReport;
