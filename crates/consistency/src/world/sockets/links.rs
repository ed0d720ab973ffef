//! Connections to a target process.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::{Sockets, World};
use crate::oracle::Rule;
use crate::world::links::Near;
use crate::world::ports::State;

/// Maximum number of bytes per read from a socket.
const READ_BYTES: usize = 65_536;

/// A socket, with bytes in both directions between it and the initiator's end.
pub(in crate::world) struct Wire {
    stream: TcpStream,
    outgoing: Vec<u8>,
    incoming: Vec<u8>,
    /// Bytes of `incoming` that the initiator's end has received.
    given: usize,
    /// The socket no longer accepts data.
    is_shut: bool,
}

/// A connection whose initiator's end is closed, with bytes that reach the target later.
pub(super) struct Leftover {
    stream: TcpStream,
    bytes: Vec<u8>,
    /// They are sent in one of this many turns.
    pace: usize,
}

impl Wire {
    pub(super) fn new(stream: TcpStream) -> io::Result<Wire> {
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        Ok(Wire {
            stream,
            outgoing: Vec::new(),
            incoming: Vec::new(),
            given: 0,
            is_shut: false,
        })
    }

    /// Sends as much as the socket accepts.
    fn send(&mut self) {
        match self.stream.write(&self.outgoing) {
            Ok(bytes) => drop(self.outgoing.drain(..bytes)),
            Err(error) if is_for_later(&error) => {}
            Err(_) => {
                // Reads return the data received before, then end of file.
                self.is_shut = true;
                self.outgoing.clear();
            }
        }
    }

    /// Reads up to `most` bytes once all earlier ones are consumed. Returns whether the connection is still open.
    fn read(&mut self, most: usize) -> bool {
        if self.given < self.incoming.len() {
            return true;
        }
        self.given = 0;
        self.incoming.resize(most, 0);
        match self.stream.read(&mut self.incoming) {
            Ok(0) => {
                self.incoming.clear();
                false
            }
            Ok(bytes) => {
                self.incoming.truncate(bytes);
                true
            }
            Err(error) => {
                self.incoming.clear();
                is_for_later(&error)
            }
        }
    }
}

fn is_for_later(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

impl World<'_, Sockets<'_>> {
    /// Moves bytes towards the target; returns whether anything moved.
    pub(super) fn forth(&mut self, at: usize) -> bool {
        let link = &mut self.links[at];
        let port = link.port;
        if link.wire.is_shut {
            return false;
        }
        if link.stalls > 0 {
            link.stalls -= 1;
            return true;
        }
        let waited = link.wire.outgoing.len();
        if waited == 0 {
            let pending = link.near.pending(&mut self.ports[port]);
            if pending == 0 {
                return false;
            }
            let part = match self.random.one_in(4) {
                true => self.random.between(1, pending),
                false => pending,
            };
            let time = (self.instant(), &mut self.trace);
            let link = &mut self.links[at];
            let mut taken = std::mem::take(&mut link.wire.outgoing);
            taken.resize(part, 0);
            self.events.clear();
            let seen = (&mut link.observer, &mut self.events);
            link.near
                .take(&mut self.ports[port], &mut taken, seen, time);
            link.wire.outgoing = taken;
            // The oracle processes it before the target can.
            self.observe(at);
        }
        let wire = &mut self.links[at].wire;
        wire.send();
        let has_moved = waited == 0 || wire.outgoing.len() < waited;
        self.pump(port);
        has_moved
    }

    /// Moves bytes towards the initiator; returns whether anything moved.
    pub(super) fn back(&mut self, at: usize) -> bool {
        let most = match self.random.one_in(4) {
            true => self.random.between(1, 512),
            false => READ_BYTES,
        };
        let link = &mut self.links[at];
        if matches!(link.near, Near::Gone) {
            return false;
        }
        if !link.wire.read(most) {
            self.target_hung_up(at);
            return true;
        }
        let mut has_moved = false;
        // Event by event, so that both ends and the oracle process all events in the same order.
        loop {
            let now = self.instant();
            let link = &mut self.links[at];
            let mut incoming = std::mem::take(&mut link.wire.incoming);
            self.events.clear();
            let bytes = &incoming[link.wire.given..];
            let given = match bytes.is_empty() {
                true => None,
                false => {
                    let seen = (&mut link.observer, &mut self.events);
                    link.near.give(&mut self.ports[link.port], bytes, seen)
                }
            };
            let Some(given) = given else {
                incoming.clear();
                link.wire.given = 0;
                link.wire.incoming = incoming;
                return has_moved;
            };
            link.wire.given += given;
            link.wire.incoming = incoming;
            has_moved = true;
            self.target_counts(at);
            self.observe(at);
            self.near_end_receives(at, given, now);
        }
    }

    /// The target has received all commands before the last ExpCmdSN that it has sent.
    fn target_counts(&mut self, at: usize) {
        let link = &self.links[at];
        if let (Near::Session(_), Some(exp_cmd_sn)) = (&link.near, link.observer.exp_cmd_sn()) {
            let session = self.ports[link.port].oracle_session;
            let now = self.now;
            self.oracle.arrived(session, exp_cmd_sn, now);
        }
    }

    /// The target has closed a connection that the initiator still has open.
    fn target_hung_up(&mut self, at: usize) {
        let link = &self.links[at];
        let port = link.port;
        let this = &self.ports[port];
        let goes_on = matches!(link.near, Near::Session(cid) if !this.removed.contains(&cid))
            && this.state == State::Up;
        if goes_on {
            let id = link.id;
            self.oracle.violate(Rule::Protocol, || {
                format!(
                    "the target closed connection {id} of port {port}, which no request had ended"
                )
            });
        }
        self.near_end_lost(at);
    }

    /// The initiator's end of a connection is closed: some of its unsent bytes reach the target later.
    pub(super) fn leave_behind(&mut self, at: usize, pending: &[u8]) {
        let kept = match self.random.one_in(2) {
            true => self.random.below(pending.len() + 1),
            false => 0,
        };
        let pace = self.random.pick(&[1, 1, 16, 64]);
        self.events.clear();
        let link = &mut self.links[at];
        link.observer.forth(&pending[..kept], &mut self.events);
        let mut bytes = std::mem::take(&mut link.wire.outgoing);
        bytes.extend_from_slice(&pending[..kept]);
        if let Ok(stream) = link.wire.stream.try_clone() {
            let leftover = Leftover {
                stream,
                bytes,
                pace,
            };
            self.side.leftovers.push(leftover);
        }
        self.observe(at);
    }

    /// Sends some or all leftover bytes, and closes their connections.
    pub(super) fn send_leftovers(&mut self, all: bool) -> bool {
        let before = self.side.leftovers.len();
        let random = &mut self.random;
        self.side.leftovers.retain_mut(|leftover| {
            if !all && !random.one_in(leftover.pace) {
                return true;
            }
            // Bytes that the socket does not accept at once are lost.
            let _ = leftover.stream.write(&leftover.bytes);
            false
        });
        self.side.leftovers.len() < before
    }

    /// Waits up to `most` for a connection to become readable or writable; returns whether one is.
    pub(super) fn bytes_come(&self, most: Duration) -> Result<bool, String> {
        let mut sockets: Vec<PollFd<'_>> = (self.links.iter())
            .map(|link| {
                let mut flags = PollFlags::IN;
                flags.set(PollFlags::OUT, !link.wire.outgoing.is_empty());
                PollFd::new(&link.wire.stream, flags)
            })
            .collect();
        if sockets.is_empty() {
            return Ok(false);
        }
        let most = Timespec {
            tv_sec: most.as_secs() as _,
            tv_nsec: most.subsec_nanos().into(),
        };
        match poll(&mut sockets, Some(&most)) {
            Ok(ready) => Ok(ready > 0),
            Err(rustix::io::Errno::INTR) => Ok(true),
            Err(error) => Err(format!("poll: {error}")),
        }
    }
}
