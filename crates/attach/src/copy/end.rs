//! The ends of a copy, as disks that are asked for operations.

mod file;
mod nbd;
mod standard;

use std::os::fd::OwnedFd;

use wansan_cache::{Action, Outcome};
use wansan_trace::Instant;

use super::CopyError;
use crate::disk::{Disk, DiskEvent};
pub(super) use file::FileEnd;
pub(super) use nbd::NbdEnd;
pub(super) use standard::{StandardInput, StandardOutput};

/// One end. Operations go in by [`End::submit`]; [`End::turn`] works on them until `deadline` or until the waker that
/// it was made with is readable; what is done comes out of [`End::poll_done`].
pub(super) trait End: Send {
    /// Its size, in bytes; `None` when it ends where its data do, or has any size.
    fn size_bytes(&self) -> Option<u64>;

    /// What its operations have to be multiples of, in bytes.
    fn block_bytes(&self) -> u64;

    /// Whether all of it reads as zeros still.
    fn is_blank(&self) -> bool;

    fn submit(&mut self, tag: u64, action: Action);

    fn turn(&mut self, deadline: Instant) -> Result<(), CopyError>;

    fn poll_done(&mut self) -> Option<(u64, Outcome)>;

    /// Ends the use of it.
    fn close(self: Box<Self>) -> Result<(), CopyError>;
}

/// A LUN.
pub(super) struct IscsiEnd {
    pub(super) disk: Disk,
    pub(super) name: String,
    pub(super) waker: OwnedFd,
}

impl End for IscsiEnd {
    fn size_bytes(&self) -> Option<u64> {
        Some(self.disk.facts().capacity.bytes())
    }

    fn block_bytes(&self) -> u64 {
        self.disk.facts().block_bytes()
    }

    fn is_blank(&self) -> bool {
        false
    }

    fn submit(&mut self, tag: u64, action: Action) {
        self.disk.submit(wansan_cache::Operation { tag, action });
    }

    fn turn(&mut self, deadline: Instant) -> Result<(), CopyError> {
        let failed = |why: String| CopyError::End {
            place: self.name.clone(),
            why,
        };
        self.disk
            .turn(deadline)
            .map_err(|error| failed(error.to_string()))?;
        while let Some(event) = self.disk.poll_event() {
            if let DiskEvent::Lost(why) = event {
                return Err(failed(why));
            }
        }
        drain(&self.waker);
        Ok(())
    }

    fn poll_done(&mut self) -> Option<(u64, Outcome)> {
        self.disk.poll_done()
    }

    fn close(self: Box<Self>) -> Result<(), CopyError> {
        self.disk.detach();
        Ok(())
    }
}

/// Has a waker not be readable any more.
pub(super) fn drain(waker: &OwnedFd) {
    // It does not block: there is nothing to read where nobody has woken.
    let _ = rustix::io::read(waker, &mut [0; 8]);
}
