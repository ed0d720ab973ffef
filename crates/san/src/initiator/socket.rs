//! A connection of the session in full feature phase: its socket.

use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::net::sockopt::set_socket_linger;
use rustix::net::{RecvFlags, recv, send};
use wansan_iscsi::initiator::Connection;
use wansan_iscsi::keys::SessionParameters;
use wansan_iscsi::record::keys_record;
use wansan_tcp::{DelayedAck, Stamping, TcpInfo, connection, stamps};
use wansan_trace::event::{self, Role};
use wansan_trace::{Instant, Recorder, SessionId, clock};

use super::InitiatorError;
use crate::tail::{SEND, Tail};

/// A socket of the session, at the index of its connection's CID.
#[derive(Debug)]
pub(super) struct Socket {
    pub(super) stream: TcpStream,
    pub(super) portal: String,
    /// The socket accepts no more data for now.
    pub(super) is_blocked: bool,
    delayed_ack: DelayedAck,
    /// Bytes acknowledged by TCP at the last query.
    acked_bytes: u64,
    tail: Tail,
    is_recorded: bool,
    /// Kernel timestamps of the socket's data, if recorded.
    stamping: Option<Stamping>,
}

impl Socket {
    /// A line over `stream`, whose reads may block from now on.
    pub(super) fn new(
        stream: TcpStream,
        portal: String,
        delayed_ack: DelayedAck,
    ) -> Result<Socket, InitiatorError> {
        stream
            .set_nonblocking(false)
            .map_err(InitiatorError::NoSocket)?;
        Ok(Socket {
            stream,
            portal,
            is_blocked: false,
            delayed_ack,
            acked_bytes: 0,
            tail: Tail::default(),
            is_recorded: false,
            stamping: None,
        })
    }

    /// Records the connection, once, and enables kernel timestamps of its data if stamps are recorded. A kernel without
    /// support leaves the records without stamps.
    pub(super) fn begin_records(
        &mut self,
        session: SessionId,
        keys: &SessionParameters,
        connection: &Connection,
        now: Instant,
        trace: &mut Recorder,
    ) {
        if std::mem::replace(&mut self.is_recorded, true) {
            return;
        }
        let ids = (session, connection.id());
        let known = event::Connection {
            time: now,
            session,
            connection: connection.id(),
            role: Role::Initiator,
            quick_ack: self.delayed_ack == DelayedAck::Quick,
            ..keys_record(keys, connection.parameters())
        };
        connection::record(&self.stream, known, trace);
        if trace.stamp.is_kept() {
            let ends = (connection.sent_bytes(), connection.received_bytes());
            // Nagle's algorithm is off on every socket of an initiator.
            self.stamping = Stamping::begin(&self.stream, ids, false, ends.0, ends.1).ok();
        }
    }

    /// Makes the connection be recorded again.
    pub(super) fn forget_records(&mut self) {
        self.is_recorded = false;
    }

    /// Records the remaining stamps.
    pub(super) fn finish_stamps(&mut self, trace: &mut Recorder) {
        if let Some(stamping) = self.stamping.take() {
            stamping.finish(&self.stream, trace);
        }
    }

    /// Reads the stamps of sent data.
    fn collect_stamps(&mut self, trace: &mut Recorder) -> Result<(), InitiatorError> {
        let Some(stamping) = &mut self.stamping else {
            return Ok(());
        };
        let collected = stamping.collect(&self.stream, trace);
        collected.map_err(|source| InitiatorError::Socket {
            portal: self.portal.clone(),
            source,
        })
    }

    /// Sends pending data of `connection`, as much as the socket accepts.
    pub(super) fn send(
        &mut self,
        connection: &mut Connection,
        trace: &mut Recorder,
    ) -> Result<(), InitiatorError> {
        self.is_blocked = false;
        while !connection.pending().is_empty() {
            let pending = connection.pending();
            let most = match self.stamping {
                Some(_) => stamps::CALL_BYTES,
                None => usize::MAX,
            };
            let (bytes, flags) = match pending.get(..most) {
                Some(part) => (part, SEND),
                None => (pending, self.tail.flags(&self.stream)),
            };
            match send(&self.stream, bytes, flags) {
                Ok(bytes) => {
                    let now = clock::now();
                    connection.sent(bytes, now, trace);
                    if let Some(stamping) = &mut self.stamping {
                        stamping.sent(bytes, now);
                    }
                }
                Err(Errno::AGAIN) => {
                    self.is_blocked = true;
                    if let Some(stamping) = &mut self.stamping {
                        stamping.refused();
                    }
                    break;
                }
                Err(Errno::INTR) => {}
                Err(errno) => return Err(self.error(errno)),
            }
        }
        self.collect_stamps(trace)
    }

    /// Reads at most `most_bytes` of available input, and returns when, if there was any; without DONTWAIT it waits a
    /// little.
    pub(super) fn receive(
        &mut self,
        connection: &mut Connection,
        most_bytes: usize,
        flags: RecvFlags,
        trace: &mut Recorder,
    ) -> Result<Option<Instant>, InitiatorError> {
        let space = connection.space();
        let most = most_bytes.min(space.len());
        let space = &mut space[..most];
        let received = match &mut self.stamping {
            Some(stamping) => stamping.receive(&self.stream, space, flags, trace),
            None => recv(&self.stream, space, flags).map(|(bytes, _)| bytes),
        };
        // Pending stamps wake up whoever polls the socket.
        self.collect_stamps(trace)?;
        match received {
            Ok(0) => {
                let portal = self.portal.clone();
                Err(InitiatorError::Closed { portal })
            }
            Ok(bytes) => {
                let now = clock::now();
                connection.filled(bytes, now);
                let kept = self.delayed_ack.keep(&self.stream);
                kept.map_err(|source| InitiatorError::Socket {
                    portal: self.portal.clone(),
                    source,
                })?;
                Ok(Some(now))
            }
            Err(Errno::AGAIN | Errno::INTR) => Ok(None),
            Err(errno) => Err(self.error(errno)),
        }
    }

    /// Queries TCP: whether the target's end has acknowledged more data, which is a sign of life of a connection that
    /// only sends, and the round-trip time.
    pub(super) fn look_at_tcp(&mut self, connection: &mut Connection, now: Instant) -> Duration {
        let Ok(info) = TcpInfo::of(&self.stream) else {
            return Duration::ZERO;
        };
        self.tail.look_at(&info);
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

    /// What to poll for: input and, when blocked, room to write.
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

    /// Waits until the target has closed the connection, at most until `deadline`. Discards input that arrives before.
    pub(super) fn await_end(&self, deadline: Instant) {
        let mut passed_over = [0; 4096];
        loop {
            let left = deadline.since(clock::now());
            let mut fds = [PollFd::new(self, PollFlags::IN)];
            if left.is_zero() || super::wait(&mut fds, left).is_err() {
                return;
            }
            match recv(&self.stream, &mut passed_over, RecvFlags::DONTWAIT) {
                Ok((1.., _)) | Err(Errno::AGAIN | Errno::INTR) => {}
                Ok(_) | Err(_) => return,
            }
        }
    }

    /// Whether dropping the connection resets it, as [`Socket::abort`] does, or closes it in order.
    pub(super) fn end_at_once(&self, is_at_once: bool) {
        // No socket rejects this option.
        let _ = set_socket_linger(&self.stream, is_at_once.then_some(Duration::ZERO));
    }

    /// Closes the connection in order.
    pub(super) fn close(&self) {
        let _ = self.stream.shutdown(Shutdown::Both);
    }

    /// Resets a lost connection (RFC 9293 §3.10.5). Its port is free for its replacement over the same route, where
    /// closing in order would wait for an acknowledgement that a broken path does not deliver.
    pub(super) fn abort(mut self, trace: &mut Recorder) {
        self.finish_stamps(trace);
        self.end_at_once(true);
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}
