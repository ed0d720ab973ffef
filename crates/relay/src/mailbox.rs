//! Mail to a relay's threads. What goes through it is rare, never a flow's bytes.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, PoisonError};

use rustix::event::{EventfdFlags, eventfd};

use crate::meter::Meter;
use crate::route::{Listener, Route};
use crate::seat::Seat;
use crate::snapshot::Part;

/// What a thread is told.
#[derive(Debug)]
pub(crate) enum Mail {
    /// Carry the flow of this client.
    Client(Client),
    /// Listen at these, and nowhere else.
    Listen(Vec<Listener>),
    /// Say what has been done; all mail before this is done then, too.
    Count(SyncSender<Meter>),
    /// Look at all flows and say what waits in them.
    Survey(SyncSender<Part>),
    /// End; flows that are there are reset.
    Stop,
}

/// A connection that was accepted.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) socket: OwnedFd,
    pub(crate) address: SocketAddr,
    pub(crate) route: Arc<Route>,
    pub(crate) seat: Seat,
}

/// A thread's mail, with a descriptor to wait on. Clients are bounded by their seats, and the rest is
/// the owner's.
#[derive(Debug)]
pub(crate) struct Mailbox {
    queue: Mutex<VecDeque<Mail>>,
    event: OwnedFd,
}

impl Mailbox {
    pub(crate) fn new() -> io::Result<Mailbox> {
        Ok(Mailbox {
            queue: Mutex::default(),
            event: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
        })
    }

    /// Puts mail in and wakes the owner.
    pub(crate) fn put(&self, mail: Mail) {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let was_empty = queue.is_empty();
        queue.push_back(mail);
        drop(queue);
        if was_empty {
            // Adding 1 to an eventfd fails only at 2^64 − 1.
            let _ = rustix::io::write(&self.event, &1u64.to_ne_bytes());
        }
    }

    /// Takes all mail out.
    pub(crate) fn take(&self) -> VecDeque<Mail> {
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
