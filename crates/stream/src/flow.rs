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

use crate::error::StreamError;
use crate::mark::{Answers, Clock, Echo, MARK_BYTES, Nonsense, Outgoing, hello};
use crate::report::Latencies;
use crate::settings::{SendSettings, StreamSettings};
use crate::socket;

/// What is offered to a socket at once.
const PIECE_BYTES: usize = 64 << 10;
/// Pieces that go at one wakeup before the other streams have their turn.
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
    outgoing: Outgoing,
    answers: Answers,
    /// Bytes per second that it may have, and since when they count.
    pace: Option<(f64, Instant)>,
    /// Bytes that it is to send in all.
    most_bytes: u64,
    /// It has sent all, and the end.
    pub(super) has_finished: bool,
    /// The receiver has closed.
    pub(super) has_ended: bool,
    /// Writing may be tried.
    pub(super) wants_to_write: bool,
    pub(super) tally: Tally,
    /// Its ends as records name them.
    pub(super) ends: NameId,
    /// Its connection has been recorded.
    pub(super) is_recorded: bool,
    starts: SlowStarts,
    retransmits: u64,
}

/// What is counted of the marks that came back.
#[derive(Debug)]
pub(super) struct Tally {
    /// From when to when it counts.
    pub(super) window: (Instant, Instant),
    /// Whether sender and receiver have one clock.
    is_one_clock: bool,
    /// The last one before it counts.
    before: Option<Echo>,
    first: Option<Echo>,
    last: Option<Echo>,
    pub(super) latencies: Latencies,
    pub(super) one_way: Latencies,
}

impl Tally {
    fn new(window: (Instant, Instant), is_one_clock: bool) -> Tally {
        Tally {
            window,
            is_one_clock,
            before: None,
            first: None,
            last: None,
            latencies: Latencies::new(),
            one_way: Latencies::new(),
        }
    }

    fn count(&mut self, echo: Echo, now: Instant) {
        if now < self.window.0 {
            self.before = Some(echo);
        }
        if !(self.window.0..self.window.1).contains(&now) {
            return;
        }
        self.first.get_or_insert(echo);
        self.last = Some(echo);
        self.latencies.count(now.since(echo.sent).as_nanos() as u64);
        if self.is_one_clock {
            let way = echo.received.since(echo.sent);
            self.one_way.count(way.as_nanos() as u64);
        }
    }

    /// Bytes between the first and the last mark, and these by the time between. Where only one came within
    /// the window, it is counted from the one before it; of a single mark no rate is known.
    fn throughput(&self, every_bytes: u32) -> (u64, Option<f64>) {
        let ends = |first: Option<Echo>| {
            let (first, last) = (first?, self.last?);
            (first.number < last.number).then_some((first, last))
        };
        let Some((first, last)) = ends(self.first).or_else(|| ends(self.before)) else {
            return (0, None);
        };
        let bytes = (last.number - first.number) * u64::from(every_bytes);
        let time = last.received.since(first.received);
        (bytes, Some(bytes as f64 / time.as_secs_f64().max(1e-9)))
    }
}

impl Flow {
    /// Connects, and waits for the receiver's welcome.
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
        let hello = hello(settings.load.stream.every_bytes(), here);
        send(&socket, &hello, SendFlags::NOSIGNAL).map_err(|errno| no_welcome(errno.into()))?;
        let mut answers = Answers::default();
        let there = loop {
            let mut bytes = [0; 64];
            let (_, read) = recv(&socket, &mut bytes, RecvFlags::empty())
                .map_err(|errno| no_welcome(errno.into()))?;
            if read == 0 {
                return Err(no_welcome(io::ErrorKind::ConnectionReset.into()));
            }
            let said = answers.take(&bytes[..read], 0, |_| {});
            said.map_err(|nonsense| StreamError::Nonsense {
                flow: number,
                nonsense,
            })?;
            if let Some(clock) = answers.clock() {
                break clock;
            }
        };
        let local = SocketAddr::try_from(getsockname(&socket).map_err(io::Error::from)?);
        Ok(Flow {
            number,
            local: local.map_err(io::Error::from)?,
            peer: to,
            socket,
            outgoing: Outgoing::new(settings.load.stream.every_bytes()),
            answers,
            pace: None,
            most_bytes: u64::MAX,
            has_finished: false,
            has_ended: false,
            wants_to_write: true,
            tally: Tally::new((Instant::ZERO, Instant::ZERO), there == here),
            ends: NameId::NONE,
            is_recorded: false,
            starts: SlowStarts::default(),
            retransmits: 0,
        })
    }

    /// It begins now, as fast as that, to send so many bytes.
    pub(super) fn release(
        &mut self,
        window: (Instant, Instant),
        rate_bytes_per_s: Option<f64>,
        most_bytes: u64,
        now: Instant,
    ) {
        self.tally.window = window;
        self.pace = rate_bytes_per_s.map(|rate| (rate, now));
        self.most_bytes = most_bytes;
    }

    /// When the next piece may go, of a stream with a rate.
    pub(super) fn due(&self) -> Option<Instant> {
        let (rate, since) = self.pace?;
        let seconds = (self.outgoing.bytes() + quantum_bytes(rate)) as f64 / rate;
        Some(since + Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX))
    }

    /// Writes what the socket takes, and its rate allows.
    pub(super) fn write(&mut self, filling: &[u8; PIECE_BYTES]) -> Result<(), StreamError> {
        for _ in 0..TURN_PIECES {
            let now = clock::now();
            let left = self.most_bytes - self.outgoing.bytes();
            if left == 0 {
                self.finish();
                return Ok(());
            }
            let mut most = left;
            if let Some((rate, since)) = self.pace {
                let allowed = (now.since(since).as_secs_f64() * rate) as u64;
                most = most.min(allowed.saturating_sub(self.outgoing.bytes()));
                if most < quantum_bytes(rate).min(left) {
                    self.wants_to_write = false;
                    return Ok(());
                }
            }
            let piece = self.outgoing.piece(filling, now);
            let piece = &piece[..piece.len().min(usize::try_from(most).unwrap_or(usize::MAX))];
            // A mark goes along with what follows it.
            let mut flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
            flags.set(SendFlags::MORE, piece.len() <= MARK_BYTES);
            match send(&self.socket, piece, flags) {
                Ok(written) => {
                    let whole = written == piece.len();
                    self.outgoing.wrote(written);
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
            let now = clock::now();
            let tally = &mut self.tally;
            let count = |echo| tally.count(echo, now);
            let taken = self
                .answers
                .take(&bytes[..read], self.outgoing.marks(), count);
            taken.map_err(|nonsense: Nonsense| StreamError::Nonsense {
                flow: self.number,
                nonsense,
            })?;
            if read < bytes.len() {
                return Ok(());
            }
        }
    }

    /// Says to the receiver that this was all.
    pub(super) fn finish(&mut self) {
        self.wants_to_write = false;
        self.has_finished = true;
        // A connection that is gone needs no end.
        let _ = shutdown(&self.socket, Shutdown::Write);
    }

    /// What TCP says of it now, as a record.
    pub(super) fn sample(&mut self, now: Instant) -> Option<Tcp> {
        let cookie = socket_cookie(&self.socket).unwrap_or(self.number as u64);
        let info = TcpInfo::of(&self.socket).ok()?;
        let record = info.record(now, SessionId(cookie), ConnectionId(0));
        let (from, to) = self.tally.window;
        self.starts.see(&record, (from..=to).contains(&now));
        self.retransmits = u64::from(record.retransmits);
        Some(record)
    }

    /// Bytes that its socket took.
    pub(super) fn written_bytes(&self) -> u64 {
        self.outgoing.bytes()
    }

    /// Its ends as records name them.
    pub(super) fn ends_name(&self) -> String {
        Tcp::ends_name(self.local, self.peer)
    }

    /// What it has measured.
    pub(super) fn report(&self, every_bytes: u32) -> FlowReport {
        let (bytes, bytes_per_s) = self.tally.throughput(every_bytes);
        FlowReport {
            flow: self.number as u64,
            local: self.local.to_string(),
            peer: self.peer.to_string(),
            congestion_control: congestion::of(&self.socket).unwrap_or_default(),
            bytes,
            bytes_per_s,
            latency_ns: self.tally.latencies.summary(),
            one_way_ns: self.tally.one_way.summary(),
            retransmits: self.retransmits,
            slow_start_returns: self.starts.returns(),
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

/// What streams send between marks: nothing that compresses to nothing.
pub(super) fn filling() -> Box<[u8; PIECE_BYTES]> {
    let mut bytes = Box::new([0; PIECE_BYTES]);
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for word in bytes.chunks_exact_mut(8) {
        // xorshift64 (Marsaglia 2003).
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        word.copy_from_slice(&state.to_be_bytes());
    }
    bytes
}

/// What a stream with a rate sends at once: that of a millisecond.
fn quantum_bytes(rate_bytes_per_s: f64) -> u64 {
    ((rate_bytes_per_s / 1000.0) as u64).clamp(MARK_BYTES as u64, PIECE_BYTES as u64)
}

/// Gives a socket its settings, before the handshake.
fn prepare(socket: &OwnedFd, settings: &StreamSettings) -> Result<(), StreamError> {
    let machine = |errno: Errno| StreamError::Machine(errno.into());
    // A meter that ends in the middle of a stream does not look like one that sent all.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_needs_two_marks() {
        let at = |ms: u64| Instant::from_ns(ms * 1_000_000);
        for (marks, known) in [
            (&[][..], (0, None)),
            (&[(0, 1500)], (0, None)),
            (&[(0, 500)], (0, None)),
            (&[(0, 500), (1, 1500)], (1000, Some(1000.0))),
            (&[(0, 500), (1, 1200), (2, 1700)], (1000, Some(2000.0))),
            (&[(0, 1200), (1, 1700), (2, 2500)], (1000, Some(2000.0))),
        ] {
            let mut tally = Tally::new((at(1000), at(2000)), true);
            for &(number, ms) in marks {
                let (sent, received) = (at(ms - 2), at(ms - 1));
                tally.count(
                    Echo {
                        number,
                        sent,
                        received,
                    },
                    at(ms),
                );
            }
            assert_eq!(tally.throughput(1000), known, "{marks:?}");
        }
    }
}
