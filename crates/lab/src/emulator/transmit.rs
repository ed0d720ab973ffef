//! Due frames on their way to the kernel.

use std::io::IoSlice;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{MMsgHdr, SendAncillaryBuffer, SendFlags, sendmmsg};
use wansan_trace::{Instant, clock};

use super::frame::Frame;
use super::join::Joined;
use crate::kernel;

/// Joined frames per system call. The kernel processes each through the receiving host's network stack before the next,
/// so a large batch would delay its last frame.
const BATCH: usize = 16;
/// Most packets collected before they are sent.
const PACKETS: usize = 128;

/// A due packet.
pub(super) struct Due {
    pub(super) frame: Frame,
    /// Its direction.
    pub(super) direction: usize,
    /// Departure from its path.
    pub(super) departed: Instant,
    /// The delay that its path applied.
    pub(super) delayed: Duration,
}

/// The send queue of one port.
pub(super) struct Transmit {
    due: Vec<Due>,
    failed: u64,
    joins_udp: bool,
}

impl Transmit {
    pub(super) fn new() -> Transmit {
        Transmit {
            due: Vec::new(),
            failed: 0,
            joins_udp: kernel::passes_udp_super_frames(),
        }
    }

    pub(super) fn push(&mut self, due: Due) {
        self.due.push(due);
    }

    /// Whether the queue is empty.
    pub(super) fn is_empty(&self) -> bool {
        self.due.is_empty()
    }

    /// Whether there are enough packets for a system call.
    pub(super) fn is_full(&self) -> bool {
        self.due.len() >= PACKETS
    }

    /// Packets dropped because the kernel refused them.
    pub(super) fn failed(&self) -> u64 {
        self.failed
    }

    /// Sends all packets; reports each that was sent to `sent` with the time.
    pub(super) fn flush(&mut self, socket: BorrowedFd<'_>, mut sent: impl FnMut(Due, Instant)) {
        let mut joined = self.join();
        while !joined.is_empty() {
            let batch = joined.len().min(BATCH);
            let accepted = match send(socket, &joined[..batch], &self.due) {
                Ok(accepted) => accepted,
                Err(Errno::INTR) => continue,
                Err(_) => {
                    // The first frame is invalid or the link is down. Either way its packets are lost, as on a wire;
                    // the next one may succeed.
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

    /// Joins the due packets into as few frames as possible, keeping their order.
    fn join(&self) -> Vec<Joined> {
        let mut rest = &self.due[..];
        std::iter::from_fn(|| {
            let joined = Joined::first(rest.iter().map(|due| &due.frame), self.joins_udp)?;
            rest = &rest[joined.packets..];
            Some(joined)
        })
        .collect()
    }
}

/// Sends frames, which take their packets from `due` in turn, until one is refused; returns the number sent, or the
/// error of the first. Blocks while the socket's buffer is full, which drains as the receiving host processes its
/// frames.
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
