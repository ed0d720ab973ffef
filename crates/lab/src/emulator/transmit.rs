//! Frames that are due, on their way to the kernel.

use std::io::IoSlice;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{MMsgHdr, SendAncillaryBuffer, SendFlags, sendmmsg};
use wansan_trace::{Instant, clock};

use super::frame::Frame;
use super::join::Joined;

/// Joined frames handed over in one system call. The kernel carries each one through the receiving
/// host's network stack before it takes the next, so a large batch would make its last frame late.
const BATCH: usize = 16;
/// Packets that are kept for one another before they are handed over.
const PACKETS: usize = 128;

/// A packet that is due.
pub(super) struct Due {
    pub(super) frame: Frame,
    /// Which direction it came by.
    pub(super) direction: usize,
    /// When its path let it go.
    pub(super) departed: Instant,
    /// How long its path's delay was for it.
    pub(super) delayed: Duration,
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

    /// Whether nothing waits to be sent.
    pub(super) fn is_empty(&self) -> bool {
        self.due.is_empty()
    }

    /// Whether there are enough packets for a system call of their own.
    pub(super) fn is_full(&self) -> bool {
        self.due.len() >= PACKETS
    }

    /// Packets that the kernel refused, for good.
    pub(super) fn failed(&self) -> u64 {
        self.failed
    }

    /// Hands all packets to the kernel, and each that is through to `sent` with the time.
    pub(super) fn flush(&mut self, socket: BorrowedFd<'_>, mut sent: impl FnMut(Due, Instant)) {
        let mut joined = self.join();
        while !joined.is_empty() {
            let batch = joined.len().min(BATCH);
            let accepted = match send(socket, &joined[..batch], &self.due) {
                Ok(accepted) => accepted,
                Err(Errno::INTR) => continue,
                Err(_) => {
                    // The first frame is at fault or the link is down. Either way its packets are
                    // lost, as on a wire; the next one may fare better.
                    self.failed += joined[0].packets as u64;
                    1
                }
            };
            let now = clock::now();
            let packets: usize = joined.drain(..accepted).map(|frame| frame.packets).sum();
            for due in self.due.drain(..packets) {
                sent(due, now);
            }
        }
    }

    /// The packets due, joined to as few frames as possible without a change of their order.
    fn join(&self) -> Vec<Joined> {
        let mut rest = &self.due[..];
        std::iter::from_fn(|| {
            let joined = Joined::first(rest.iter().map(|due| &due.frame))?;
            rest = &rest[joined.packets..];
            Some(joined)
        })
        .collect()
    }
}

/// Sends frames, which take their packets from `due` in turn, until one is refused; the number
/// sent, or why the first one was refused. It waits when the socket's buffer is full, which empties
/// as the receiving host takes its frames.
fn send(socket: BorrowedFd<'_>, frames: &[Joined], due: &[Due]) -> Result<usize, Errno> {
    let mut slices: Vec<IoSlice<'_>> = Vec::with_capacity(due.len() + 2 * frames.len());
    let mut ends = Vec::with_capacity(frames.len());
    let mut packets = due.iter().map(|due| &due.frame);
    for frame in frames {
        frame.slices(packets.by_ref().take(frame.packets), &mut slices);
        ends.push(slices.len());
    }
    let mut controls: Vec<SendAncillaryBuffer<'_, '_, '_>> = frames
        .iter()
        .map(|_| SendAncillaryBuffer::default())
        .collect();
    let mut start = 0;
    let mut messages: Vec<MMsgHdr<'_>> = ends
        .iter()
        .zip(&mut controls)
        .map(|(&end, control)| {
            MMsgHdr::new(&slices[std::mem::replace(&mut start, end)..end], control)
        })
        .collect();
    sendmmsg(socket, &mut messages, SendFlags::empty())
}
