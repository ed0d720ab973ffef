//! I/Os as the tracepoints of the kernel's block and SCSI layers tell of them, and commands as those of its target (LIO) do,
//! by programs of ours in the kernel (`src/bpf`).
//!
//! Programs rather than tracefs: they tell of the disks that are watched alone, put the moments of an I/O together where
//! they happen, so that one record crosses over instead of five lines of text, and need nothing mounted.

#[cfg(not(feature = "ebpf"))]
mod absent;
#[cfg(any(feature = "ebpf", test))]
mod decode;
#[cfg(feature = "ebpf")]
mod kernel;

#[cfg(not(feature = "ebpf"))]
pub use absent::{BlockTracing, TargetTracing};
#[cfg(feature = "ebpf")]
pub use kernel::{BlockTracing, TargetTracing};

use wansan_tcp::ebpf::EbpfError;

/// I/Os that are kept of each kind; what comes behind is counted.
pub const MOST_KEPT: usize = 500_000;

/// A request of the block layer that was completed. Times are CLOCK_MONOTONIC, in ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BlockIo {
    /// The disk's device number, as [`device_number`] makes it.
    pub disk: u32,
    /// Where it begins, in sectors of 512 bytes.
    pub sector: u64,
    /// Its length.
    pub bytes: u32,
    /// When it came to the disk, and had to wait for a request. The kernel tells of the first that a request is made
    /// for; those of dm-multipath's paths come with a request.
    pub submitted_ns: Option<u64>,
    /// When it had a request; where the kernel counts no statistics of the disk, when that went to the driver.
    pub allocated_ns: u64,
    /// When that went to the driver first.
    pub issued_ns: u64,
    /// When the SCSI layer gave the command to the initiator that took it.
    pub dispatched_ns: Option<u64>,
    /// How often it did that.
    pub dispatches: u32,
    /// When the initiator had its status.
    pub done_ns: Option<u64>,
    /// When the request was complete.
    pub completed_ns: u64,
    /// The first 16 bytes of its CDB.
    pub cdb: [u8; 16],
}

impl BlockIo {
    /// When it came to the disk, as far as is known.
    #[must_use]
    pub fn began_ns(&self) -> u64 {
        let submitted_ns = self.submitted_ns.unwrap_or(self.allocated_ns);
        submitted_ns.min(self.allocated_ns)
    }
}

/// A command that LIO has carried out. Times are CLOCK_MONOTONIC, in ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TargetCommand {
    /// Its Initiator Task Tag, as it stands in PDUs.
    pub tag: u32,
    /// Its LUN.
    pub lun: u64,
    /// When it was taken up.
    pub began_ns: u64,
    /// When its store had done it.
    pub done_ns: u64,
    /// The first 16 bytes of its CDB.
    pub cdb: [u8; 16],
}

/// Why there are none.
#[derive(Debug, thiserror::Error)]
pub enum TracingError {
    /// Programs cannot be loaded, or not these.
    #[error(transparent)]
    Ebpf(#[from] EbpfError),
    /// Its tracepoints have other arguments.
    #[error("Linux {release} is too old: its block layer's tracepoints are known from 5.15 on")]
    TooOld {
        /// As uname(2) has it.
        release: String,
    },
}

/// The number of a block device as the kernel has it (MKDEV in linux/kdev_t.h).
#[must_use]
pub fn device_number(major: u32, minor: u32) -> u32 {
    major << 20 | minor
}
