//! The trace vocabulary: what every part of wansan says about an I/O, in one set of words.
//!
//! - [`time`]: one integer [`Instant`] everywhere (CLOCK_MONOTONIC nanoseconds);
//! - [`clock`]: the one place that reads that clock;
//! - [`ids`]: sessions, connections, tasks and names;
//! - [`layer`]: the layers of one I/O, from the application down to the store;
//! - [`event`]: the record kinds, a table for each, from which the struct, the row in memory, the
//!   columns in files and the JSON follow;
//! - [`field`]: the types that a record's fields may have;
//! - [`kind`]: what a record kind is, and its columns;
//! - [`names`]: the strings of a file's columns;
//! - [`congestion`]: what congestion control did between two samples of TCP_INFO;
//! - [`log`]: one kind's records in memory;
//! - [`page`]: the records as a page of the reference;
//! - [`passage`]: layers that a task crossed at one moment, as the recorder keeps them;
//! - [`recorder`]: the bounded, never-blocking store of records of one thread;
//! - [`file`]: the Parquet files of a run folder;
//! - [`terminal`]: text made safe to print on a terminal;
//! - [`typescript`]: the records as types of the pages;
//! - [`units`]: quantities as people write them (`16ms`, `1Gbit/s`, `512KiB`).
//!
//! Everything but [`clock`], [`file`] and the supply of memory in [`log`] is pure.

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
pub mod terminal;
pub mod time;
pub mod typescript;
pub mod units;

pub use ids::{ConnectionId, NameId, SessionId, TaskTag};
pub use layer::{Direction, Layer};
pub use log::Budget;
pub use recorder::{Kinds, Recorder};
pub use time::Instant;
