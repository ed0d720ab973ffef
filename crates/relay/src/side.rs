//! One connection of a flow, with state that needs no system call.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::sockopt::set_socket_linger;
use rustix::net::{RecvFlags, SendFlags, Shutdown, recv, send, shutdown};
use wansan_server::poller::Ready;
use wansan_tcp::TcpInfo;
use wansan_tcp::queues;

/// Result of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Read {
    /// Number of bytes read.
    Bytes(usize),
    /// No data now.
    Nothing,
    /// The peer has sent FIN.
    Fin,
    /// The connection is lost, and all earlier data was read.
    Lost,
}

/// Closing a socket without [`Side::let_go`] resets its connection (SO_LINGER of 0 s, set before the handshake): a
/// truncated stream, even by the relay's own death, must not look complete.
#[derive(Debug)]
pub(crate) struct Side {
    socket: OwnedFd,
    /// Reading may succeed without blocking.
    pub(crate) readable: bool,
    /// Writing may succeed without blocking.
    pub(crate) writable: bool,
    /// An urgent byte is ahead.
    pub(crate) urgent: bool,
    /// The peer has shut down: a short read does not mean that no more is queued.
    pub(crate) ending: bool,
    /// The peer's FIN has arrived behind the queued data.
    pub(crate) fin: bool,
    /// Why the connection was lost: reset by the peer, or timed out in the kernel.
    pub(crate) lost: Option<Errno>,
}

impl Side {
    /// Takes a non-blocking socket; the poller reports its readiness.
    pub(crate) fn new(socket: OwnedFd) -> Side {
        Side {
            socket,
            readable: false,
            writable: false,
            urgent: false,
            ending: false,
            fin: false,
            lost: None,
        }
    }

    /// Takes the poller's events.
    pub(crate) fn note(&mut self, ready: Ready) {
        self.readable |= ready.read | ready.urgent;
        self.writable |= ready.write;
        self.urgent |= ready.urgent;
        self.ending |= ready.ending;
        self.fin |= ready.ending && !ready.failed;
    }

    /// Reads.
    pub(crate) fn read(&mut self, into: &mut [u8], flags: RecvFlags) -> Read {
        let wanted = into.len();
        match recv(&self.socket, into, flags | RecvFlags::DONTWAIT) {
            Ok((_, 0)) => Read::Fin,
            Ok((_, read)) => {
                // The queue is empty; new data raises another event. At the urgent byte a read is short too.
                if read < wanted && !self.ending && !self.urgent {
                    self.readable = false;
                }
                Read::Bytes(read)
            }
            Err(errno) => self.cannot_read(errno),
        }
    }

    /// Interprets a read error.
    pub(crate) fn cannot_read(&mut self, errno: Errno) -> Read {
        self.readable = false;
        if errno == Errno::AGAIN {
            return Read::Nothing;
        }
        self.lost = Some(errno);
        Read::Lost
    }

    /// Writes as much as the socket accepts; 0 when it accepts nothing now, or the connection is lost.
    pub(crate) fn write(&mut self, bytes: &[u8], flags: SendFlags) -> usize {
        let flags = flags | SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        match send(&self.socket, bytes, flags) {
            Ok(written) => {
                self.writable = written == bytes.len();
                written
            }
            Err(errno) => {
                self.cannot_write(errno);
                0
            }
        }
    }

    /// Interprets a write error.
    pub(crate) fn cannot_write(&mut self, errno: Errno) {
        self.writable = false;
        if errno != Errno::AGAIN {
            self.lost = Some(errno);
        }
    }

    /// Sends a FIN after the written data.
    pub(crate) fn finish(&mut self) {
        if let Err(errno) = shutdown(&self.socket, Shutdown::Write) {
            self.lost = Some(errno);
        }
    }

    /// Whether the next byte is the urgent one.
    pub(crate) fn is_at_urgent_byte(&self) -> bool {
        queues::is_at_urgent_byte(&self.socket).unwrap_or(false)
    }

    /// Whether the peer has acknowledged all written data; a FIN in flight does not count.
    pub(crate) fn is_acknowledged(&self) -> bool {
        queues::unacked_bytes(&self.socket).is_ok_and(|bytes| bytes <= 1)
    }

    /// Whether the peer has acknowledged all written data and the FIN, or is gone.
    pub(crate) fn has_sent_all(&self) -> bool {
        TcpInfo::of(&self.socket).is_ok_and(|info| info.has_sent_all())
    }

    /// Makes close normal again: the kernel sends the written data, and the FIN.
    pub(crate) fn let_go(&self) {
        // A connection that is gone already needs no FIN.
        let _ = set_socket_linger(&self.socket, None);
    }

    /// Takes and clears the socket's pending error.
    pub(crate) fn take_error(&self) -> io::Result<()> {
        let pending = rustix::net::sockopt::socket_error(&self.socket)?;
        Ok(pending?)
    }

    /// Whether the handshake is complete.
    pub(crate) fn is_connected(&self) -> bool {
        rustix::net::getpeername(&self.socket).is_ok()
    }
}

impl AsFd for Side {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
