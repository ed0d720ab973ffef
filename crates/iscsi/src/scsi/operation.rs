//! Work on the medium for the commands that are neither READ, WRITE nor SYNCHRONIZE CACHE.

use std::sync::Arc;

use super::copy::CopyJob;
use super::reserve_keep::ReservationChange;
use super::unit_change::UnitChange;

/// What a store is to do. Ranges are in bytes, of whole blocks, and lie inside the logical unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MediumOperation {
    /// Find out whether these bytes can be read.
    Verify {
        /// First byte.
        offset_bytes: u64,
        /// Number of bytes.
        len_bytes: u64,
    },
    /// Compare `data`, repeated as often as it fits, with the medium. A difference is a MISCOMPARE.
    Compare {
        /// First byte.
        offset_bytes: u64,
        /// Number of bytes, a multiple of the length of `data`.
        len_bytes: u64,
        /// What should be there; not empty.
        data: Vec<u8>,
    },
    /// Write `data`, bring it to the medium, and read it back.
    WriteAndVerify {
        /// First byte.
        offset_bytes: u64,
        /// The bytes.
        data: Vec<u8>,
        /// Whether what is read back is compared with `data`.
        compare: bool,
    },
    /// Write one block again and again.
    WriteSame {
        /// First byte.
        offset_bytes: u64,
        /// Number of bytes, a multiple of the length of `block`.
        len_bytes: u64,
        /// One block.
        block: Vec<u8>,
    },
    /// Give back the space of these ranges, which read as zeros from then on.
    Deallocate {
        /// First byte and number of bytes of each.
        ranges: Vec<(u64, u64)>,
    },
    /// If the first half of `data` is what is on the medium, write the second half there: in one
    /// step against all other writing. A difference is a MISCOMPARE.
    CompareAndWrite {
        /// First byte.
        offset_bytes: u64,
        /// What should be there, then what to write; both of one length.
        data: Vec<u8>,
        /// On the medium before it is answered.
        fua: bool,
    },
    /// Set the bits that are set in `data`: in one step against all other writing.
    OrWrite {
        /// First byte.
        offset_bytes: u64,
        /// The bits.
        data: Vec<u8>,
        /// On the medium before it is answered.
        fua: bool,
    },
    /// Say which blocks have space of their own: the answer's Data-In is made with
    /// [`LbaStatus`](super::LbaStatus).
    Status {
        /// First byte.
        offset_bytes: u64,
        /// Size of a logical block.
        block_bytes: u32,
        /// Runs of blocks to report at most, at least 1.
        max_runs: usize,
    },
    /// Read these bytes into a cache, if there is one.
    PreFetch {
        /// First byte.
        offset_bytes: u64,
        /// Number of bytes.
        len_bytes: u64,
    },
    /// Copy from unit to unit.
    Copy(CopyJob),
    /// Bring what was written to the medium, and then end the change that has asked for that.
    FlushFor(Arc<UnitChange>),
    /// Keep the persistent reservations of the unit, so that
    /// [`TargetDevice::restore`](super::TargetDevice::restore) can be given them when the target is
    /// started again. This is for units that have
    /// [`keeps_reservations`](super::LogicalUnit::keeps_reservations).
    KeepReservations(Arc<ReservationChange>),
}

impl MediumOperation {
    /// The places of units beside its own that it works on.
    pub(crate) fn other_units(&self, own: usize) -> Vec<usize> {
        match self {
            MediumOperation::Copy(job) => {
                let mut units = job.units();
                units.retain(|unit| *unit != own);
                units
            }
            _ => Vec::new(),
        }
    }

    /// The places of the units that it writes to; `own` is that of its command.
    #[must_use]
    pub fn written_units(&self, own: usize) -> Vec<usize> {
        match self {
            MediumOperation::Verify { .. }
            | MediumOperation::Compare { .. }
            | MediumOperation::Status { .. }
            | MediumOperation::PreFetch { .. }
            | MediumOperation::FlushFor(_)
            | MediumOperation::KeepReservations(_) => Vec::new(),
            MediumOperation::WriteAndVerify { .. }
            | MediumOperation::WriteSame { .. }
            | MediumOperation::Deallocate { .. }
            | MediumOperation::CompareAndWrite { .. }
            | MediumOperation::OrWrite { .. } => vec![own],
            MediumOperation::Copy(job) => job.written_units(),
        }
    }

    /// Bytes of data that it carries.
    #[must_use]
    pub fn data_bytes(&self) -> usize {
        match self {
            MediumOperation::Compare { data, .. }
            | MediumOperation::WriteAndVerify { data, .. }
            | MediumOperation::CompareAndWrite { data, .. }
            | MediumOperation::OrWrite { data, .. }
            | MediumOperation::WriteSame { block: data, .. } => data.len(),
            _ => 0,
        }
    }
}
