//! Operations on the medium for commands other than READ, WRITE and SYNCHRONIZE CACHE.

use std::sync::Arc;

use super::copy::CopyJob;
use super::reserve_keep::ReservationChange;
use super::unit_change::UnitChange;

/// An operation of a store. Ranges are in bytes, of whole blocks, inside the logical unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MediumOperation {
    /// Check that these bytes are readable.
    Verify {
        /// First byte.
        offset_bytes: u64,
        /// Number of bytes.
        len_bytes: u64,
    },
    /// Compare `data`, repeated to the full length, with the medium. A difference is a MISCOMPARE.
    Compare {
        /// First byte.
        offset_bytes: u64,
        /// Number of bytes, a multiple of the length of `data`.
        len_bytes: u64,
        /// The expected data; not empty.
        data: Vec<u8>,
    },
    /// Write `data` to the medium and read it back.
    WriteAndVerify {
        /// First byte.
        offset_bytes: u64,
        /// The bytes.
        data: Vec<u8>,
        /// Whether to compare the data read back with `data`.
        compare: bool,
    },
    /// Write one block repeatedly.
    WriteSame {
        /// First byte.
        offset_bytes: u64,
        /// Number of bytes, a multiple of the length of `block`.
        len_bytes: u64,
        /// One block.
        block: Vec<u8>,
    },
    /// Unmap these ranges, which read as zeros from then on.
    Deallocate {
        /// First byte and number of bytes of each.
        ranges: Vec<(u64, u64)>,
    },
    /// If the first half of `data` matches the medium, write the second half there, atomically with
    /// respect to all other writes. A difference is a MISCOMPARE.
    CompareAndWrite {
        /// First byte.
        offset_bytes: u64,
        /// The expected data, then the data to write, of equal length.
        data: Vec<u8>,
        /// Force unit access: on the medium before the status is sent.
        fua: bool,
    },
    /// OR `data` into the medium, atomically with respect to all other writes.
    OrWrite {
        /// First byte.
        offset_bytes: u64,
        /// The bits.
        data: Vec<u8>,
        /// Force unit access: on the medium before the status is sent.
        fua: bool,
    },
    /// Report which blocks are mapped: the Data-In is built with [`LbaStatus`](super::LbaStatus).
    Status {
        /// First byte.
        offset_bytes: u64,
        /// Size of a logical block.
        block_bytes: u32,
        /// Maximum number of extents to report, at least 1.
        max_runs: usize,
    },
    /// Read these bytes into a cache, if there is one.
    PreFetch {
        /// First byte.
        offset_bytes: u64,
        /// Number of bytes.
        len_bytes: u64,
    },
    /// Copy between units.
    Copy(CopyJob),
    /// Flush written data to the medium, then complete the change that requested it.
    FlushFor(Arc<UnitChange>),
    /// Save the unit's persistent reservations, for [`TargetDevice::restore`](super::TargetDevice::restore) when the
    /// target is restarted. For units with [`keeps_reservations`](super::LogicalUnit::keeps_reservations).
    KeepReservations(Arc<ReservationChange>),
}

impl MediumOperation {
    /// The indices of units other than its own that it accesses.
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

    /// The indices of the units that it writes; `own` is that of its command.
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

    /// Bytes of its data.
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
