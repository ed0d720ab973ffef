//! Frames that are due, on their way to the kernel.

use std::io::IoSlice;
use std::os::fd::BorrowedFd;

use rustix::io::Errno;
use rustix::net::{MMsgHdr, SendAncillaryBuffer, SendFlags, sendmmsg};
use wansan_trace::{Instant, clock};

/// Frames handed over in one system call. The kernel carries each one through the receiving
/// host's network stack before it takes the next, so a large batch would make its last frame late.
const BATCH_FRAMES: usize = 16;

/// A frame that is due.
pub(super) struct Due {
    pub(super) bytes: Vec<u8>,
    /// Which direction it came by.
    pub(super) direction: usize,
    /// When its path let it go.
    pub(super) departed: Instant,
}

/// What one port has to send.
#[derive(Default)]
pub(super) struct Transmit {
    due: Vec<Due>,
    failed: u64,
}

impl Transmit {
    pub(super) fn push(&mut self, due: Due) {
        self.due.push(due);
    }

    /// Whether there are enough frames for a system call of their own.
    pub(super) fn is_full(&self) -> bool {
        self.due.len() >= BATCH_FRAMES
    }

    /// Frames that the kernel refused, for good.
    pub(super) fn failed(&self) -> u64 {
        self.failed
    }

    /// Hands all frames to the kernel, and each that is through to `sent` with the time.
    pub(super) fn flush(&mut self, socket: BorrowedFd<'_>, mut sent: impl FnMut(Due, Instant)) {
        while !self.due.is_empty() {
            let batch = self.due.len().min(BATCH_FRAMES);
            let accepted = match send(socket, &self.due[..batch]) {
                Ok(accepted) => accepted,
                Err(Errno::INTR) => continue,
                Err(_) => {
                    // The first frame is at fault or the link is down. Either way the frame is
                    // lost, as on a wire; the next one may fare better.
                    self.failed += 1;
                    1
                }
            };
            let now = clock::now();
            for frame in self.due.drain(..accepted) {
                sent(frame, now);
            }
        }
    }
}

/// Sends frames until one is refused; the number sent, or why the first one was refused. It waits
/// when the socket's buffer is full, which empties as the receiving host takes its frames.
fn send(socket: BorrowedFd<'_>, frames: &[Due]) -> Result<usize, Errno> {
    let slices: Vec<[IoSlice<'_>; 1]> = frames
        .iter()
        .map(|frame| [IoSlice::new(&frame.bytes)])
        .collect();
    let mut controls: Vec<SendAncillaryBuffer<'_, '_, '_>> = frames
        .iter()
        .map(|_| SendAncillaryBuffer::default())
        .collect();
    let mut messages: Vec<MMsgHdr<'_>> = slices
        .iter()
        .zip(&mut controls)
        .map(|(slice, control)| MMsgHdr::new(slice, control))
        .collect();
    sendmmsg(socket, &mut messages, SendFlags::empty())
}
