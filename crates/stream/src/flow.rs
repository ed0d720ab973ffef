//! One stream at its sender.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_linger, set_socket_timeout, socket_cookie};
use rustix::net::{RecvFlags, SendFlags, Shutdown, connect, getsockname, recv, send, shutdown};
use wansan_schema::FlowReport;
use wansan_tcp::buffers::Buffer;
use wansan_tcp::{TcpInfo, congestion, delays, options};
use wansan_trace::congestion::SlowStarts;
use wansan_trace::event::Tcp;
use wansan_trace::{ConnectionId, Instant, NameId, SessionId, clock};
use wansan_workload::stream::{Clock, Next, Nonsense, PIECE_BYTES, Sending};

use crate::error::StreamError;
use crate::settings::{SendSettings, StreamSettings};
use crate::socket;

/// Pieces to send per wakeup before other streams get their turn.
const TURN_PIECES: usize = 8;
/// How long a receiver may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// A stream.
#[derive(Debug)]
pub(super) struct Flow {
    number: usize,
    socket: OwnedFd,
    local: SocketAddr,
    peer: SocketAddr,
    /// What to send, and the measurements.
    pub(super) sending: Sending,
    /// The stream and its FIN were sent.
    pub(super) has_finished: bool,
    /// The receiver has closed.
    pub(super) has_ended: bool,
    /// The socket may be writable.
    pub(super) wants_to_write: bool,
    /// The endpoints' name in records.
    pub(super) ends: NameId,
    /// Its connection has been recorded.
    pub(super) is_recorded: bool,
    starts: SlowStarts,
    retransmits: u64,
}

impl Flow {
    /// Connects, and waits for the receiver's welcome message.
    pub(super) fn connect(
        number: usize,
        settings: &SendSettings,
        addresses: &[SocketAddr],
        here: Clock,
    ) -> Result<Flow, StreamError> {
        let mut refused = None;
        for &to in addresses {
            let socket = socket::stream(to)?;
            prepare(&socket, &settings.load.stream)?;
            match connect(&socket, &to) {
                Ok(()) => return Flow::begin(number, socket, to, settings, here),
                Err(errno) => {
                    let source = match errno {
                        Errno::INPROGRESS | Errno::AGAIN => io::ErrorKind::TimedOut.into(),
                        other => other.into(),
                    };
                    refused = Some(StreamError::Connect { to, source });
                }
            }
        }
        Err(refused.unwrap_or_else(|| StreamError::Address {
            given: settings.to.clone(),
        }))
    }

    fn begin(
        number: usize,
        socket: OwnedFd,
        to: SocketAddr,
        settings: &SendSettings,
        here: Clock,
    ) -> Result<Flow, StreamError> {
        let no_welcome = |source: io::Error| match source.kind() {
            io::ErrorKind::WouldBlock => StreamError::NoWelcome {
                to,
                waited: PATIENCE,
            },
            _ => StreamError::Connect { to, source },
        };
        let mut sending = Sending::new(settings.load.stream.every_bytes(), here);
        send(&socket, &sending.hello(), SendFlags::NOSIGNAL)
            .map_err(|errno| no_welcome(errno.into()))?;
        while !sending.is_answered() {
            let mut bytes = [0; 64];
            let (_, read) = recv(&socket, &mut bytes, RecvFlags::empty())
                .map_err(|errno| no_welcome(errno.into()))?;
            if read == 0 {
                return Err(no_welcome(io::ErrorKind::ConnectionReset.into()));
            }
            let said = sending.take(&bytes[..read], clock::now());
            said.map_err(|nonsense| StreamError::Nonsense {
                flow: number,
                nonsense,
            })?;
        }
        let local = SocketAddr::try_from(getsockname(&socket).map_err(io::Error::from)?);
        Ok(Flow {
            number,
            local: local.map_err(io::Error::from)?,
            peer: to,
            socket,
            sending,
            has_finished: false,
            has_ended: false,
            wants_to_write: true,
            ends: NameId::NONE,
            is_recorded: false,
            starts: SlowStarts::default(),
            retransmits: 0,
        })
    }

    /// Writes what the socket accepts and the rate permits.
    pub(super) fn write(&mut self, filling: &[u8; PIECE_BYTES]) -> Result<(), StreamError> {
        for _ in 0..TURN_PIECES {
            let (piece, has_more) = match self.sending.next(filling, clock::now()) {
                Next::Piece { bytes, has_more } => (bytes, has_more),
                Next::Waits => {
                    self.wants_to_write = false;
                    return Ok(());
                }
                Next::Finished => {
                    self.finish();
                    return Ok(());
                }
            };
            let mut flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
            flags.set(SendFlags::MORE, has_more);
            match send(&self.socket, piece, flags) {
                Ok(written) => {
                    let whole = written == piece.len();
                    self.sending.wrote(written);
                    if !whole {
                        return Ok(());
                    }
                }
                Err(Errno::AGAIN) => return Ok(()),
                Err(errno) => return Err(self.lost(errno.into())),
            }
        }
        Ok(())
    }

    /// Reads echoes.
    pub(super) fn read(&mut self) -> Result<(), StreamError> {
        let mut bytes = [0; 4096];
        loop {
            let read = match recv(&self.socket, &mut bytes, RecvFlags::DONTWAIT) {
                Ok((_, 0)) if self.has_finished => {
                    self.has_ended = true;
                    return Ok(());
                }
                Ok((_, 0)) => return Err(self.lost(io::ErrorKind::UnexpectedEof.into())),
                Ok((_, read)) => read,
                Err(Errno::AGAIN) => return Ok(()),
                Err(errno) => return Err(self.lost(errno.into())),
            };
            let taken = self.sending.take(&bytes[..read], clock::now());
            taken.map_err(|nonsense: Nonsense| StreamError::Nonsense {
                flow: self.number,
                nonsense,
            })?;
            if read < bytes.len() {
                return Ok(());
            }
        }
    }

    /// Shuts down the sending direction.
    pub(super) fn finish(&mut self) {
        self.wants_to_write = false;
        self.has_finished = true;
        // A connection that is gone needs no FIN.
        let _ = shutdown(&self.socket, Shutdown::Write);
    }

    /// The socket's TCP_INFO now, as a record.
    pub(super) fn sample(&mut self, now: Instant) -> Option<Tcp> {
        let cookie = socket_cookie(&self.socket).unwrap_or(self.number as u64);
        let info = TcpInfo::of(&self.socket).ok()?;
        let record = info.record(now, SessionId(cookie), ConnectionId(0));
        let (from, to) = self.sending.window();
        self.starts.see(&record, (from..=to).contains(&now));
        self.retransmits = u64::from(record.retransmits);
        Some(record)
    }

    /// The endpoints' name in records.
    pub(super) fn ends_name(&self) -> String {
        Tcp::ends_name(self.local, self.peer)
    }

    /// The results.
    pub(super) fn report(&self) -> FlowReport {
        FlowReport {
            flow: self.number as u64,
            local: self.local.to_string(),
            peer: self.peer.to_string(),
            congestion_control: congestion::of(&self.socket).unwrap_or_default(),
            retransmits: self.retransmits,
            slow_start_returns: self.starts.returns(),
            ..self.sending.report()
        }
    }

    fn lost(&self, source: io::Error) -> StreamError {
        StreamError::Lost {
            flow: self.number,
            source,
        }
    }
}

impl AsFd for Flow {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Applies the settings to a socket before the handshake.
fn prepare(socket: &OwnedFd, settings: &StreamSettings) -> Result<(), StreamError> {
    let machine = |errno: Errno| StreamError::Machine(errno.into());
    // A meter that dies in the middle of a stream sends RST, not FIN.
    set_socket_linger(socket, Some(Duration::ZERO)).map_err(machine)?;
    set_socket_timeout(socket, Timeout::Send, Some(PATIENCE)).map_err(machine)?;
    set_socket_timeout(socket, Timeout::Recv, Some(PATIENCE)).map_err(machine)?;
    delays::set_nagle(socket, false)?;
    if let Some(name) = &settings.congestion_control {
        congestion::choose(socket, name)?;
    }
    if let Some(size) = settings.send_buffer {
        Buffer::Send.set(socket, size.bytes())?;
    }
    if let Some(size) = settings.unsent {
        options::set_most_unsent(socket, u32::try_from(size.0).unwrap_or(u32::MAX))?;
    }
    Ok(())
}
