//! Why a disk is slow: the iSCSI sessions of this host, whatever software runs them, looked at from outside.
//!
//! [`host`] finds what there is: sessions of the kernel's initiator ([`open_iscsi`], by sysfs), targets of the kernel
//! ([`lio`], by configfs), and the connections of all others with their processes ([`sockets`], [`software`]).
//! [`watch`] then takes packets ([`packets`]), counters of the block layer ([`block`]) and what programs in the kernel tell of
//! each I/O ([`tracepoints`]) for a while. What packets tell is `wansan_insight`'s to say; [`matching`] finds the kernel's I/Os
//! among them, [`host_queue`] and [`traced`] say what these wait for above and below, [`multipath`] what paths differ in; [`judge`] adds what the host kept I/Os for, and says what holds them back; [`change`] says
//! what to do about it, in the commands of the software that runs there; [`diagnosis`] is all of that together.

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
