//! Why a disk is slow: diagnoses this host's iSCSI sessions, whatever software runs them, from outside.
//!
//! [`host`] finds the objects: sessions of the kernel's initiator ([`open_iscsi`], by sysfs), targets of the kernel
//! ([`lio`], by configfs), and the connections of all others with their processes ([`sockets`], [`software`]).
//! [`watch`] then captures packets ([`packets`]), counters of the block layer ([`block`]) and each I/O, by programs in
//! the kernel ([`tracepoints`]), for a while. `wansan_insight` interprets the packets; [`matching`] finds the kernel's
//! I/Os among them, [`host_queue`] and [`traced`] determine what these wait for above and below, [`multipath`] compares
//! paths; [`judge`] adds the time in the host and determines the limiting factor; [`change`] recommends changes, as
//! commands for the software in use; [`diagnosis`] combines all of this.

mod attributes;
pub mod block;
pub mod budget;
pub mod change;
pub mod diagnosis;
mod filter;
pub mod host;
pub mod host_queue;
pub mod judge;
pub mod lio;
pub mod matching;
pub mod multipath;
pub mod open_iscsi;
pub mod packets;
pub mod slices;
pub mod sockets;
pub mod software;
pub mod traced;
pub mod tracepoints;
pub mod watch;

pub use diagnosis::Diagnosis;
pub use host::Host;
pub use slices::Slices;
pub use watch::{Slice, Watch, WatchError};
