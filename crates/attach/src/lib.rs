//! Attaches remote disks.
//!
//! - [`Disk`]: a logical unit as a disk, over a session that is reestablished when lost;
//! - [`Attached`]: a disk with its cache, served to programs on this host over NBD;
//! - [`control`]: controls a process that attaches disks;
//! - [`copy`]: copies between disks, files and streams;
//! - [`settings`]: the settings of `wansan attach`.

mod attached;
mod coalescing;
mod connection;
pub mod control;
pub mod copy;
mod device;
mod disk;
mod journal_file;
mod listen;
mod requests;
mod runtime;
pub mod settings;
mod stack;
mod status;
mod worker;

pub use attached::{AttachConfig, AttachError, Attached, Detached, Rights};
pub use device::{Device, DeviceError, DeviceName};
pub use disk::{Disk, DiskError, DiskEvent, Facts, Finished};
pub use journal_file::JournalError;
pub use listen::{Listen, ListenError, Place};
pub use status::{Sharing, Standing, Status};
