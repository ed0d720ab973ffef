//! Drivers: sockets, threads, files and clocks around the pure state machines.
//!
//! - [`store`]: backing stores of logical units;
//! - [`target`]: the target server;
//! - [`initiator`]: the initiator client;
//! - [`multipath`]: sessions with one unit over several routes; [`sessions`]: one session or several;
//! - [`reservation`]: reserving a unit for this host; [`identity`]: the identity of units;
//! - [`load`]: the load generator;
//! - [`settings`]: settings of the programs at both ends;
//! - [`url`]: iSCSI URLs;
//! - [`secret_file`]: reading CHAP secrets.

pub mod identity;
pub mod initiator;
pub mod load;
mod machine;
pub mod multipath;
pub mod reservation;
pub mod secret_file;
pub mod sessions;
pub mod settings;
pub mod store;
mod tail;
pub mod target;
pub mod url;

pub use identity::UnitIdentity;
pub use initiator::{Initiator, InitiatorConfig, InitiatorError, Route};
pub use reservation::{Claim, Registering, Reservation, ReservationKey};
pub use sessions::Sessions;
pub use target::{Target, TargetConfig, TargetError};
pub use wansan_tcp::DelayedAck;
