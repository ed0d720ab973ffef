//! Drivers: sockets, threads, files and clocks around the pure machines.
//!
//! - [`store`]: backing stores of logical units;
//! - [`target`]: the target server;
//! - [`initiator`]: the initiator client;
//! - [`load`]: the load generator on top of it;
//! - [`url`]: iSCSI URLs.

pub mod initiator;
pub mod load;
mod machine;
mod poller;
pub mod store;
pub mod target;
pub mod url;

pub use initiator::{Initiator, InitiatorConfig, InitiatorError, Route};
pub use target::{Target, TargetConfig, TargetError};
