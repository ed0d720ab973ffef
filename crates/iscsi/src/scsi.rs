//! The SCSI disk: CDB decoding, and responses (SPC-4, SBC-3, SAM-5).
//!
//! For a target, [`TargetDevice::decode`] turns a LUN and a CDB into a [`Decoded`]: either the complete response, or
//! the byte range of a store to read, write or flush. It allocates nothing for READ and WRITE. Commands with parameter
//! data, or that need another operation of a store, decode to [`StoreOperation::Deferred`]: once their Data-Out is
//! complete, [`TargetDevice::execute`] turns it into the response or a [`MediumOperation`]. For an initiator, [`cdb`]
//! builds the CDBs, and [`inquiry::Inquiry`], [`capacity::Capacity`], [`report_luns::LunList`] and [`Sense`] parse the
//! responses.
//!
//! A command is one row of the table in `command`, which decoding and REPORT SUPPORTED OPERATION CODES read, and one or
//! two functions next to related ones: `block` and `medium` for the medium, `copy` for copies between units,
//! [`inquiry`], `vpd`, [`capacity`] and `mode` for the properties of a unit, [`report_luns`] and `request_sense` for
//! the state of its target device or its I_T nexus, `supported` for the table itself, `unit_control` for the rest.
//! Everything else gets INVALID COMMAND OPERATION CODE.
//!
//! State shared by initiators, such as mode parameters and reservations, is in `nexus`; the rules of reservations are
//! in `reservation`, their commands in `reserve_in` and `reserve_out`, effects on other initiators in
//! `reserve_effects`, and persistence over a restart in `reserve_keep`; `unit_change` is for changes that wait for the
//! cache. Responses that fence off other initiators wait for the stores by `fence`. The initiator's side of
//! reservations is in `claim`.

pub mod answer;
pub mod attention;
mod block;
pub mod capacity;
pub mod cdb;
mod claim;
mod command;
mod copy;
pub mod device;
mod extent;
mod fence;
pub mod inquiry;
mod lba_status;
pub mod malformed;
mod medium;
pub mod mode;
mod nexus;
pub mod opcode;
mod operation;
mod port;
mod port_groups;
pub mod report_luns;
mod request_sense;
mod reservation;
mod reserve_effects;
mod reserve_in;
mod reserve_keep;
mod reserve_out;
pub mod sense;
mod supported;
#[cfg(test)]
mod tests;
pub mod unit;
mod unit_change;
mod unit_control;
pub mod vpd;

pub use answer::{Answer, Decoded, Executed, StoreOperation};
pub use attention::{UnitAttention, UnitAttentions};
pub use cdb::Cdb;
pub use claim::{HostKey, Keys, ReserveOut, is_about_reservations, parse_registrants};
pub use copy::{CopyJob, CopyProgress, CopySegment};
pub use device::{DeviceError, TargetDevice};
pub use extent::{Effect, extent};
pub(crate) use fence::{Fence, Ticket};
pub use lba_status::{LbaRun, LbaStatus, parse_runs};
pub use malformed::Malformed;
pub use mode::WriteModes;
pub use nexus::{Nexus, NexusId, Remains};
pub use operation::MediumOperation;
pub use port::InitiatorPort;
pub use port_groups::{AccessState, is_about_access_state, parse_port_groups};
pub use reserve_keep::ReservationChange;
pub use sense::{AdditionalSense, FieldPointer, Sense, SenseKey};
pub use unit::{Geometry, GeometryError, Identity, LogicalUnit};
pub use unit_change::UnitChange;

/// The two bytes at `at`, big-endian, as all numbers in SCSI.
fn be16(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

/// The four bytes at `at`, big-endian.
fn be32(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// The eight bytes at `at`, big-endian.
fn be64(bytes: &[u8], at: usize) -> u64 {
    u64::from(be32(bytes, at)) << 32 | u64::from(be32(bytes, at + 4))
}
