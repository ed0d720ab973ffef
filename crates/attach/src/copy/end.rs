//! The ends of a copy, as disks that execute operations.

mod file;
mod nbd;
mod standard;

use std::fs::File;
use std::os::fd::OwnedFd;

use wansan_cache::{Action, Operation, Outcome};
use wansan_trace::Instant;

use super::CopyError;
use crate::disk::{Disk, DiskEvent};
pub(super) use file::FileEnd;
pub(super) use nbd::NbdEnd;
pub(super) use standard::{StandardInput, StandardOutput};

/// Longest range of zeros in one operation, in bytes.
const ZERO_BYTES: u64 = 1 << 30;

/// One end of a copy. [`End::submit`] queues operations; [`End::turn`] works on them until `deadline`, or until the
/// waker passed at creation becomes readable; [`End::poll_done`] returns completions.
pub(super) trait End: Send {
    /// Its size, in bytes; `None` for a stream or for an end of any size.
    fn size_bytes(&self) -> Option<u64>;

    /// Its capacity, in bytes; `None` if it grows.
    fn room_bytes(&self) -> Option<u64> {
        self.size_bytes()
    }

    /// Alignment of its operations, in bytes.
    fn block_bytes(&self) -> u64 {
        1
    }

    /// Most data per operation, in bytes.
    fn most_bytes(&self) -> u64 {
        u64::MAX
    }

    /// Longest range that one operation zeroes, in bytes.
    fn zero_bytes(&self) -> u64 {
        ZERO_BYTES
    }

    /// Distinguishes it from another disk or file of the same name, as far as possible.
    fn identity(&self) -> String {
        String::new()
    }

    /// How many times unflushed writes may have been lost.
    fn losses(&self) -> u64 {
        0
    }

    fn submit(&mut self, tag: u64, action: Action);

    fn turn(&mut self, deadline: Instant) -> Result<(), CopyError>;

    fn poll_done(&mut self) -> Option<(u64, Outcome)>;

    /// The reason for the last failed operation.
    fn take_reason(&mut self) -> Option<String>;

    /// Closes it. While the returned file is open, its lock keeps other copies from writing.
    fn close(self: Box<Self>) -> Option<File>;
}

/// A LUN.
pub(super) struct IscsiEnd {
    pub(super) disk: Disk,
    pub(super) name: String,
    pub(super) waker: OwnedFd,
    pub(super) reason: Option<String>,
}

impl End for IscsiEnd {
    fn size_bytes(&self) -> Option<u64> {
        Some(self.disk.facts().capacity.bytes())
    }

    fn block_bytes(&self) -> u64 {
        self.disk.facts().block_bytes()
    }

    fn identity(&self) -> String {
        let serial = String::from_utf8_lossy(self.disk.facts().serial());
        serial.escape_default().to_string()
    }

    fn losses(&self) -> u64 {
        self.disk.recoveries().sessions
    }

    fn submit(&mut self, tag: u64, action: Action) {
        self.disk.submit(Operation { tag, action });
    }

    fn turn(&mut self, deadline: Instant) -> Result<(), CopyError> {
        let failed = |why: String| CopyError::End {
            place: self.name.clone(),
            why,
        };
        let turned = self.disk.turn(deadline);
        turned.map_err(|error| failed(error.to_string()))?;
        while let Some(event) = self.disk.poll_event() {
            match event {
                DiskEvent::Lost(why) => return Err(failed(why)),
                DiskEvent::Failed(why) => self.reason = Some(why),
                _ => {}
            }
        }
        drain(&self.waker);
        Ok(())
    }

    fn poll_done(&mut self) -> Option<(u64, Outcome)> {
        let finished = self.disk.poll_done()?;
        Some((finished.tag, finished.outcome))
    }

    fn take_reason(&mut self) -> Option<String> {
        self.reason.take()
    }

    fn close(self: Box<Self>) -> Option<File> {
        let _nothing = self.disk.detach();
        None
    }
}

/// Clears a waker.
pub(super) fn drain(waker: &OwnedFd) {
    // Nonblocking: an unsignalled waker has nothing to read.
    let _ = rustix::io::read(waker, &mut [0; 8]);
}
