//! A connection of the session in full feature phase: its socket.

use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use wansan_iscsi::initiator::Connection;
use wansan_trace::{Instant, Recorder, clock};

use super::InitiatorError;

/// A socket of the session, at the place of its connection's CID.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) stream: TcpStream,
    pub(super) portal: String,
    /// The socket takes no more for now.
    pub(super) is_blocked: bool,
    /// When something last came.
    pub(super) last_heard: Instant,
}

impl Line {
    /// A line over `stream`, whose reads may wait from now on.
    pub(super) fn new(stream: TcpStream, portal: String) -> Result<Line, InitiatorError> {
        stream
            .set_nonblocking(false)
            .map_err(InitiatorError::NoSocket)?;
        Ok(Line {
            stream,
            portal,
            is_blocked: false,
            last_heard: clock::now(),
        })
    }

    /// Sends what `connection` has to send, as much as the socket takes.
    pub(super) fn send(
        &mut self,
        connection: &mut Connection,
        trace: &mut Recorder,
    ) -> Result<(), InitiatorError> {
        self.is_blocked = false;
        while !connection.pending().is_empty() {
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            match send(&self.stream, connection.pending(), flags) {
                Ok(bytes) => connection.sent(bytes, clock::now(), trace),
                Err(Errno::AGAIN) => {
                    self.is_blocked = true;
                    return Ok(());
                }
                Err(Errno::INTR) => {}
                Err(errno) => return Err(self.error(errno)),
            }
        }
        Ok(())
    }

    /// Reads at most `most_bytes` of what has come, and says when, if anything has; without
    /// DONTWAIT it waits a little.
    pub(super) fn receive(
        &mut self,
        connection: &mut Connection,
        most_bytes: usize,
        flags: RecvFlags,
    ) -> Result<Option<Instant>, InitiatorError> {
        let space = connection.space();
        let most = most_bytes.min(space.len());
        match recv(&self.stream, &mut space[..most], flags) {
            Ok((0, _)) => {
                let portal = self.portal.clone();
                Err(InitiatorError::Closed { portal })
            }
            Ok((bytes, _)) => {
                let now = clock::now();
                connection.filled(bytes, now);
                self.last_heard = now;
                Ok(Some(now))
            }
            Err(Errno::AGAIN | Errno::INTR) => Ok(None),
            Err(errno) => Err(self.error(errno)),
        }
    }

    pub(super) fn error(&self, errno: Errno) -> InitiatorError {
        InitiatorError::Socket {
            portal: self.portal.clone(),
            source: errno.into(),
        }
    }

    pub(super) fn close(&self) {
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

impl AsFd for Line {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}
