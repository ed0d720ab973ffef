//! Settings of the programs at both ends: `wansan target`, `wansan bench` and other initiators.

mod bench;
mod chap;
mod initiator;
mod negotiation;
mod target;

pub use bench::{BenchSettings, LoadSettings};
pub use chap::{ChapSettings, ChapSettingsError, Hash, TargetChapSettings};
pub use initiator::{AckSettings, ConnectionSettings, InitiatorSettings, ScheduleSettings};
pub use negotiation::{Digest, NegotiationSettings, RecoverySettings};
pub use target::{
    AccessSettings, DiscoverySettings, Lun, LunSettings, ProcessSettings, SendingSettings,
    StatusPlace, TargetFile, TargetFileError, TargetMistake, TargetSettings, UnitsSettings,
    WindowSettings,
};
