//! One connection of a flow, and what is known of it without asking the kernel.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::sockopt::set_socket_linger;
use rustix::net::{RecvFlags, SendFlags, Shutdown, recv, send, shutdown};
use wansan_server::poller::Ready;
use wansan_tcp::TcpInfo;
use wansan_tcp::queues;

/// What reading gave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Read {
    /// So many bytes.
    Bytes(usize),
    /// There is nothing now.
    Nothing,
    /// The peer has sent all.
    Fin,
    /// The connection is lost, and all that came before was read.
    Lost,
}

/// A socket that is closed without [`Side::let_go`] resets its connection (SO_LINGER of 0 s, set
/// before the handshake): what is cut off, even by the relay's own death, must not look like the
/// end of the stream.
#[derive(Debug)]
pub(crate) struct Side {
    socket: OwnedFd,
    /// Reading may not block.
    pub(crate) readable: bool,
    /// Writing may not block.
    pub(crate) writable: bool,
    /// There is an urgent byte ahead.
    pub(crate) urgent: bool,
    /// Reading comes to an end: a short read does not mean that there is no more.
    pub(crate) ending: bool,
    /// Why the connection is lost: reset by the peer, or given up by the kernel.
    pub(crate) lost: Option<Errno>,
}

impl Side {
    /// Of that socket, which does not block; the poller says what it is ready for.
    pub(crate) fn new(socket: OwnedFd) -> Side {
        Side {
            socket,
            readable: false,
            writable: false,
            urgent: false,
            ending: false,
            lost: None,
        }
    }

    /// Takes in what the poller says.
    pub(crate) fn note(&mut self, ready: Ready) {
        self.readable |= ready.read | ready.urgent;
        self.writable |= ready.write;
        self.urgent |= ready.urgent;
        self.ending |= ready.ending;
    }

    /// Reads.
    pub(crate) fn read(&mut self, into: &mut [u8], flags: RecvFlags) -> Read {
        let wanted = into.len();
        match recv(&self.socket, into, flags | RecvFlags::DONTWAIT) {
            Ok((_, 0)) => Read::Fin,
            Ok((_, read)) => {
                // Nothing was left; what comes now raises another event. At the urgent byte a read ends
                // early too.
                if read < wanted && !self.ending && !self.urgent {
                    self.readable = false;
                }
                Read::Bytes(read)
            }
            Err(errno) => self.cannot_read(errno),
        }
    }

    /// What an error of reading means.
    pub(crate) fn cannot_read(&mut self, errno: Errno) -> Read {
        self.readable = false;
        if errno == Errno::AGAIN {
            return Read::Nothing;
        }
        self.lost = Some(errno);
        Read::Lost
    }

    /// Writes what the socket takes; 0 when it takes nothing now, or when the connection is lost.
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

    /// What an error of writing means.
    pub(crate) fn cannot_write(&mut self, errno: Errno) {
        self.writable = false;
        if errno != Errno::AGAIN {
            self.lost = Some(errno);
        }
    }

    /// Sends a FIN after what was written.
    pub(crate) fn finish(&mut self) {
        if let Err(errno) = shutdown(&self.socket, Shutdown::Write) {
            self.lost = Some(errno);
        }
    }

    /// Whether the next byte is the urgent one.
    pub(crate) fn is_at_urgent_byte(&self) -> bool {
        queues::is_at_urgent_byte(&self.socket).unwrap_or(false)
    }

    /// Whether the peer has acknowledged all that was written; a FIN that is under way does not count.
    pub(crate) fn is_acknowledged(&self) -> bool {
        queues::unacked_bytes(&self.socket).is_ok_and(|bytes| bytes <= 1)
    }

    /// Whether the peer has acknowledged all that was written and the FIN, or is gone.
    pub(crate) fn has_sent_all(&self) -> bool {
        TcpInfo::of(&self.socket).is_ok_and(|info| info.has_sent_all())
    }

    /// From now on closing is the ordinary one: the kernel sends what was written, and the FIN.
    pub(crate) fn let_go(&self) {
        // A connection that is gone already needs none.
        let _ = set_socket_linger(&self.socket, None);
    }

    /// The error that the socket has, which is then forgotten.
    pub(crate) fn take_error(&self) -> io::Result<()> {
        let pending = rustix::net::sockopt::socket_error(&self.socket)?;
        Ok(pending?)
    }

    /// Whether the handshake is over.
    pub(crate) fn is_connected(&self) -> bool {
        rustix::net::getpeername(&self.socket).is_ok()
    }
}

impl AsFd for Side {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
