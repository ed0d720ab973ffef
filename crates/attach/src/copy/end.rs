//! The ends of a copy, as disks that carry out operations.

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

/// The longest stretch of zeros that one operation is about, in bytes.
const ZERO_BYTES: u64 = 1 << 30;

/// One end. Operations go in by [`End::submit`]; [`End::turn`] works on them until `deadline` or until the waker that
/// it was made with is readable; what is done comes out of [`End::poll_done`].
pub(super) trait End: Send {
    /// Its size, in bytes; `None` when it ends where its data do, or has any size.
    fn size_bytes(&self) -> Option<u64>;

    /// How much it holds at most, in bytes; `None` where it grows.
    fn room_bytes(&self) -> Option<u64> {
        self.size_bytes()
    }

    /// What its operations have to be multiples of, in bytes.
    fn block_bytes(&self) -> u64 {
        1
    }

    /// The most data that one operation takes, in bytes.
    fn most_bytes(&self) -> u64 {
        u64::MAX
    }

    /// The longest stretch that one operation zeroes, in bytes.
    fn zero_bytes(&self) -> u64 {
        ZERO_BYTES
    }

    /// What tells it from another one under the same name, as far as that is known.
    fn identity(&self) -> String {
        String::new()
    }

    /// How often what had not been flushed may have been lost.
    fn losses(&self) -> u64 {
        0
    }

    fn submit(&mut self, tag: u64, action: Action);

    fn turn(&mut self, deadline: Instant) -> Result<(), CopyError>;

    fn poll_done(&mut self) -> Option<(u64, Outcome)>;

    /// What it said of the last operation that failed.
    fn take_reason(&mut self) -> Option<String>;

    /// Ends the use of it. What it returns keeps other copies from writing to it for as long as it is there.
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

/// Has a waker not be readable any more.
pub(super) fn drain(waker: &OwnedFd) {
    // It does not block: there is nothing to read where nobody has woken.
    let _ = rustix::io::read(waker, &mut [0; 8]);
}
