//! Keeps a device's connections up. The kernel closes one of which a request has taken longer than it may, or that the
//! disk's process has ended, sends what was open over the others, and makes no new one by itself.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::thread::{self, JoinHandle};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

use super::netlink::{Attributes, Family};
use super::{FAMILY, INDEX, RECONFIGURE, add_sockets, is_ours, negotiated};
use crate::listen::{Place, Stream};

/// Time between two attempts to make a connection.
const INTERVAL: Timespec = Timespec {
    tv_sec: 1,
    tv_nsec: 0,
};

/// The thread that does it, until this is dropped.
#[derive(Debug)]
pub(super) struct Upkeep {
    end: OwnedFd,
    thread: Option<JoinHandle<()>>,
}

impl Upkeep {
    /// Of the device with that number, which has these connections to that place.
    ///
    /// # Errors
    /// When there can be no thread, or nothing to end it by.
    pub(super) fn begin(number: u32, place: Place, connections: Vec<Stream>) -> io::Result<Upkeep> {
        let end = eventfd(0, EventfdFlags::CLOEXEC)?;
        let ends = end.try_clone()?;
        let thread = thread::Builder::new()
            .name("nbd upkeep".to_owned())
            .spawn(move || watch(number, &place, connections, &ends))?;
        Ok(Upkeep {
            end,
            thread: Some(thread),
        })
    }
}

impl Drop for Upkeep {
    fn drop(&mut self) {
        // A counter that is full ends the thread as well.
        let _ = rustix::io::write(&self.end, &1_u64.to_ne_bytes());
        // A panic has been reported by its hook.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn watch(number: u32, place: &Place, mut connections: Vec<Stream>, end: &OwnedFd) {
    let mut were_gone = vec![false; connections.len()];
    loop {
        let mut fds = vec![PollFd::new(end, PollFlags::IN)];
        // Only that they are gone is of interest, which is always reported.
        let none = PollFlags::empty();
        fds.extend(connections.iter().map(|it| PollFd::new(it, none)));
        if poll(&mut fds, None).is_err() {
            continue;
        }
        if !fds[0].revents().is_empty() {
            return;
        }
        let gone: Vec<bool> = fds[1..].iter().map(|fd| !fd.revents().is_empty()).collect();
        let seen_twice = were_gone.iter().zip(&gone).map(|(were, are)| *were && *are);
        // The kernel takes a new one only once it has put the old one down, and does not say whether it did.
        for (connection, _) in connections.iter_mut().zip(seen_twice).filter(|it| it.1) {
            match replaced(number, place) {
                Ok(new) => *connection = new,
                // The device was taken down, or is another process's.
                Err(error) if error.kind() == io::ErrorKind::InvalidInput => return,
                // The disk's process does not serve now.
                Err(_) => {}
            }
        }
        were_gone = gone;
        let mut end = [PollFd::new(end, PollFlags::IN)];
        if poll(&mut end, Some(&INTERVAL)).is_ok_and(|ready| ready > 0) {
            return;
        }
    }
}

/// A new connection, in place of one that is gone.
///
/// # Errors
/// [`io::ErrorKind::InvalidInput`] when the device is not ours any more.
fn replaced(number: u32, place: &Place) -> io::Result<Stream> {
    let (stream, _) = negotiated(place)?;
    if !is_ours(number) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut request = Attributes::default();
    request.u32(INDEX, number);
    add_sockets(&mut request, &[stream.as_fd()]);
    Family::open(FAMILY)?.ask(RECONFIGURE, &request)?;
    Ok(stream)
}
