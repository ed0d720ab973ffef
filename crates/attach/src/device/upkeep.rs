//! Maintains a device's connections. The kernel closes a connection when a request on it times out or the disk's
//! process closes it, resends its open requests over the others, and never reconnects by itself.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::thread::{self, JoinHandle};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

use super::netlink::{Attributes, Family};
use super::{FAMILY, INDEX, RECONFIGURE, add_sockets, is_ours, negotiated};
use crate::listen::{Place, Stream};

/// Interval between reconnection attempts.
const INTERVAL: Timespec = Timespec {
    tv_sec: 1,
    tv_nsec: 0,
};

/// The maintenance thread; it runs until this is dropped.
#[derive(Debug)]
pub(super) struct Upkeep {
    end: OwnedFd,
    thread: Option<JoinHandle<()>>,
}

impl Upkeep {
    /// Maintains `connections` of device `number` to `place`.
    ///
    /// # Errors
    /// No thread, or no descriptor to stop it by.
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
        // A full counter stops the thread as well.
        let _ = rustix::io::write(&self.end, &1_u64.to_ne_bytes());
        // The panic hook has reported it.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn watch(number: u32, place: &Place, mut connections: Vec<Stream>, end: &OwnedFd) {
    let mut were_gone = vec![false; connections.len()];
    loop {
        let mut fds = vec![PollFd::new(end, PollFlags::IN)];
        // Only hang-ups matter, and poll always reports them.
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
        // The kernel accepts a replacement only after it has closed the old connection, and does not report when. Hence
        // a second pass.
        for (connection, _) in connections.iter_mut().zip(seen_twice).filter(|it| it.1) {
            match replaced(number, place) {
                Ok(new) => *connection = new,
                // The device was disconnected, or belongs to another process now.
                Err(error) if error.kind() == io::ErrorKind::InvalidInput => return,
                // The disk's process is not serving now.
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

/// Opens a connection to replace a closed one.
///
/// # Errors
/// [`io::ErrorKind::InvalidInput`] if the device is no longer ours.
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
