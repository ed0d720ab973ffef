//! Why a disk is slow: diagnoses this host's iSCSI sessions from outside, whatever software runs them.
//!
//! [`host`] finds the objects: sessions of the kernel's initiator ([`open_iscsi`], in sysfs), targets of the kernel
//! ([`lio`], in configfs), and the connections of all others with their processes ([`sockets`], [`software`]). For a
//! while, [`watch`] then captures packets ([`packets`]), counters of the block layer ([`block`]) and each I/O, with
//! eBPF programs in the kernel ([`tracepoints`]). `wansan_insight` interprets the packets; [`matching`] finds the
//! kernel's I/Os among them; [`host_queue`] and [`traced`] determine what these wait for in the host's queues and in
//! the target's stores; [`multipath`] compares paths; [`judge`] adds the time in the host and determines the limiting
//! factor; [`change`] recommends changes, as commands for the software in use; [`diagnosis`] combines all of this.

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
