//! Traces I/Os at the tracepoints of the kernel's block and SCSI layers, and commands at those of its target (LIO),
//! with eBPF programs (`src/bpf`).
//!
//! eBPF rather than tracefs: the programs record only the watched disks, combine the timestamps of an I/O in the
//! kernel, so that one record is transferred instead of five lines of text, and need no mount.

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

/// Most records kept of each kind; further ones are counted.
pub const MOST_KEPT: usize = 500_000;

/// A completed request of the block layer. Times are CLOCK_MONOTONIC, in ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BlockIo {
    /// The disk's device number, as encoded by [`device_number`].
    pub disk: u32,
    /// Its start, in sectors of 512 bytes.
    pub sector: u64,
    /// Its length.
    pub bytes: u32,
    /// When it arrived at the disk and had to wait for a request. The kernel reports the first bio that a request is
    /// allocated for; I/Os on dm-multipath's paths arrive with a request.
    pub submitted_ns: Option<u64>,
    /// When its request was allocated; if the kernel keeps no statistics of the disk, when it was issued to the driver.
    pub allocated_ns: u64,
    /// When first issued to the driver.
    pub issued_ns: u64,
    /// When the SCSI layer passed the command to the initiator that accepted it.
    pub dispatched_ns: Option<u64>,
    /// Number of dispatches.
    pub dispatches: u32,
    /// When the initiator received its status.
    pub done_ns: Option<u64>,
    /// When the request completed.
    pub completed_ns: u64,
    /// The first 16 bytes of its CDB.
    pub cdb: [u8; 16],
}

impl BlockIo {
    /// When it arrived at the disk, as far as known.
    #[must_use]
    pub fn began_ns(&self) -> u64 {
        let submitted_ns = self.submitted_ns.unwrap_or(self.allocated_ns);
        submitted_ns.min(self.allocated_ns)
    }
}

/// A command completed by LIO. Times are CLOCK_MONOTONIC, in ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TargetCommand {
    /// Its Initiator Task Tag, as in PDUs.
    pub tag: u32,
    /// Its LUN.
    pub lun: u64,
    /// When LIO started it.
    pub began_ns: u64,
    /// When its store completed it.
    pub done_ns: u64,
    /// The first 16 bytes of its CDB.
    pub cdb: [u8; 16],
}

/// Why tracepoints are unavailable.
#[derive(Debug, thiserror::Error)]
pub enum TracingError {
    /// These programs, or eBPF programs in general, cannot be loaded.
    #[error(transparent)]
    Ebpf(#[from] EbpfError),
    /// The kernel's tracepoints have other arguments.
    #[error("Linux {release} is too old: its block layer's tracepoints are known from 5.15 on")]
    TooOld {
        /// The release, from uname(2).
        release: String,
    },
}

/// The number of a block device in the kernel's encoding (MKDEV in linux/kdev_t.h).
#[must_use]
pub fn device_number(major: u32, minor: u32) -> u32 {
    major << 20 | minor
}
