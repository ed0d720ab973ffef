//! The trace vocabulary: the terms in which all of wansan records an I/O.
//!
//! - [`time`]: a single integer [`Instant`] (CLOCK_MONOTONIC nanoseconds);
//! - [`clock`]: the only place that reads that clock;
//! - [`ids`]: sessions, connections, tasks and names;
//! - [`layer`]: the layers of one I/O, from the application down to the store;
//! - [`event`]: the record kinds, a table for each, from which the struct, the row in memory, the
//!   columns in files and the JSON follow;
//! - [`field`]: types of record fields;
//! - [`kind`]: definition of a record kind and its columns;
//! - [`names`]: the strings of a file's columns;
//! - [`congestion`]: congestion control events between two samples of TCP_INFO;
//! - [`log`]: one kind's records in memory;
//! - [`page`]: generates the reference page of records;
//! - [`passage`]: layers that a task crossed at one time, as one record in memory;
//! - [`recorder`]: the bounded, nonblocking record store of one thread;
//! - [`sample`]: which I/Os are recorded;
//! - [`file`]: the Parquet files of a run folder;
//! - [`terminal`]: text made safe to print on a terminal;
//! - [`typescript`]: generates the records' TypeScript types;
//! - [`units`]: quantities with units (`16ms`, `1Gbit/s`, `512KiB`).
//!
//! Everything but [`clock`], [`file`] and the memory supply of [`log`] is pure.

pub mod clock;
pub mod congestion;
pub mod event;
pub mod field;
pub mod file;
pub mod ids;
pub mod kind;
pub mod layer;
pub mod log;
mod named;
pub mod names;
pub mod page;
pub mod passage;
mod record;
pub mod recorder;
pub mod sample;
pub mod terminal;
pub mod time;
pub mod typescript;
pub mod units;

pub use ids::{ConnectionId, NameId, SessionId, TaskTag};
pub use layer::{Direction, Layer};
pub use log::Budget;
pub use recorder::{Kinds, Recorder};
pub use sample::Sample;
pub use time::Instant;
