//! The policy of a load generator, of measured streams and of a store with a set service time, as pure state
//! machines: drivers give them a session, bytes or an operation, and the time.
//!
//! - [`sequence`]: which I/O comes next, seeded;
//! - [`Load`]: when it is submitted, in a closed loop, in batches or at a rate; what is measured;
//! - [`content`]: what verified blocks contain;
//! - [`service`]: when a store with so many servers has served an operation;
//! - [`stream`]: what the two ends of a measured stream say, and what is measured of it.

pub mod content;
mod load;
mod meter;
mod pace;
pub mod sequence;
pub mod service;
pub mod stream;
mod written;

pub use load::{Limit, Load, LoadConfig, failure, pieces};
pub use meter::connections_between;
