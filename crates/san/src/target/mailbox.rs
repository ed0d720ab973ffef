//! Mail between the threads of a target.

use std::collections::VecDeque;
use std::io;
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::mpsc::SyncSender;
use std::sync::{Mutex, PoisonError};

use rustix::event::{EventfdFlags, eventfd};
use wansan_trace::SessionId;

use super::seat::Seat;
use super::serve::Peer;
use super::snapshot::Part;

/// What one thread tells another.
#[derive(Debug)]
pub(super) enum Mail {
    /// Serve this connection.
    Connection(TcpStream, Seat),
    /// Serve this connection, which wants to join a session of yours, from where its login stands.
    Joining(Box<Peer>),
    /// Sessions must be reviewed, as others have changed something.
    Review,
    /// End this session: its initiator has begun anew (RFC 7143 §6.3.5).
    EndSession(SessionId),
    /// Listen no more, and ask all initiators to leave within so many seconds.
    Drain(u16),
    /// Say what has been done.
    Snapshot(SyncSender<Part>),
    /// End.
    Stop,
}

impl Mail {
    /// Whether mail that waits in `queue` says it already.
    fn is_known_from(&self, queue: &VecDeque<Mail>) -> bool {
        let is_review = |mail: &Mail| matches!(mail, Mail::Review);
        is_review(self) && queue.iter().any(is_review)
    }
}

/// One thread's mailbox: a queue with a descriptor to wait on. What goes through it is rare (new
/// connections, resets), never an I/O.
#[derive(Debug)]
pub(super) struct Mailbox {
    queue: Mutex<VecDeque<Mail>>,
    event: OwnedFd,
}

impl Mailbox {
    pub(super) fn new() -> io::Result<Mailbox> {
        Ok(Mailbox {
            queue: Mutex::default(),
            event: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
        })
    }

    /// Puts mail in and wakes the owner.
    pub(super) fn put(&self, mail: Mail) {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        // An initiator may reset a unit as often as it likes; once it waits to be read, saying it
        // again adds nothing.
        if !mail.is_known_from(&queue) {
            queue.push_back(mail);
        }
        drop(queue);
        // Adding 1 to an eventfd fails only at 2^64 − 1.
        let _ = rustix::io::write(&self.event, &1u64.to_ne_bytes());
    }

    /// Takes all mail out.
    pub(super) fn take(&self) -> VecDeque<Mail> {
        // Cleared first: mail that comes from here on sets it again. EAGAIN: it was clear.
        let _ = rustix::io::read(&self.event, &mut [0u8; 8]);
        std::mem::take(&mut *self.queue.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl AsFd for Mailbox {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}
