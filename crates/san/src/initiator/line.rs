//! A connection of the session in full feature phase: its socket.

use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::net::sockopt::set_socket_linger;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use wansan_iscsi::initiator::Connection;
use wansan_tcp::TcpInfo;
use wansan_trace::{Instant, Recorder, clock};

use super::InitiatorError;

/// A socket of the session, at the place of its connection's CID.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) stream: TcpStream,
    pub(super) portal: String,
    /// The socket takes no more for now.
    pub(super) is_blocked: bool,
    /// What TCP had acknowledged of what was sent when it was last asked.
    acked_bytes: u64,
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
            acked_bytes: 0,
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
                Ok(Some(now))
            }
            Err(Errno::AGAIN | Errno::INTR) => Ok(None),
            Err(errno) => Err(self.error(errno)),
        }
    }

    /// Asks TCP about the connection: whether the target's end has taken more of what was sent,
    /// which is a sign of life of a connection that only sends, and how long a round trip takes.
    pub(super) fn look_at_tcp(&mut self, connection: &mut Connection, now: Instant) -> Duration {
        let Ok(info) = TcpInfo::of(&self.stream) else {
            return Duration::ZERO;
        };
        if info.acked_bytes() != self.acked_bytes {
            self.acked_bytes = info.acked_bytes();
            connection.heard(now);
        }
        let round_trip = Duration::from_nanos(info.srtt_ns());
        if !round_trip.is_zero() {
            connection.round_trip_measured(round_trip);
        }
        round_trip
    }

    /// What is waited for: something to read and, when it is blocked, room to write.
    pub(super) fn awaited(&self) -> PollFd<'_> {
        let mut flags = PollFlags::IN;
        flags.set(PollFlags::OUT, self.is_blocked);
        PollFd::new(self, flags)
    }

    fn error(&self, errno: Errno) -> InitiatorError {
        InitiatorError::Socket {
            portal: self.portal.clone(),
            source: errno.into(),
        }
    }

    /// Ends the connection in order.
    pub(super) fn close(&self) {
        let _ = self.stream.shutdown(Shutdown::Both);
    }

    /// Ends a lost connection at once (RFC 9293 §3.10.5). Its port is free for the one that takes
    /// its place over the same route, where ending in order would wait for an acknowledgement that a
    /// broken path does not bring.
    pub(super) fn abort(self) {
        // No socket refuses this.
        let _ = set_socket_linger(&self.stream, Some(Duration::ZERO));
    }
}

impl AsFd for Line {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}
