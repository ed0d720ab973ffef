//! Drivers: sockets, threads, files and clocks around the pure machines.
//!
//! - [`store`]: backing stores of logical units;
//! - [`target`]: the target server;
//! - [`initiator`]: the initiator client;
//! - [`multipath`]: sessions with one unit over several routes; [`sessions`]: one session or several;
//! - [`reservation`]: a unit that is reserved for this host; [`identity`]: what tells units from each other;
//! - [`load`]: the load generator on top of it;
//! - [`settings`]: what programs of both ends are asked to do;
//! - [`url`]: iSCSI URLs;
//! - [`secret_file`]: where CHAP secrets come from.

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
