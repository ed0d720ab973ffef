//! The logic of a load generator, of measured streams and of a store with a given service time, as pure state machines:
//! drivers pass in a session, bytes or an operation, and the time.
//!
//! - [`sequence`]: which I/O comes next, seeded;
//! - [`Load`]: when to submit it, in a closed loop, in batches or at a rate; the measurements;
//! - [`content`]: the contents of verified blocks;
//! - [`service`]: when a store with a given number of servers completes an operation;
//! - [`stream`]: the protocol and measurements of both ends of a measured stream.

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
