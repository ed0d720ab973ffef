//! Kernel timestamps of a socket's data (SO_TIMESTAMPING): when written bytes reached the queueing discipline, the
//! device and the peer's acknowledgement, and when read bytes were received.
//!
//! The kernel stamps the last byte of a send call. Where it merges the bytes of several calls into one segment, it
//! stamps the last call's only. A receive call returns the stamp of the last segment read: the kernel overwrites
//! earlier stamps as it merges segments in the receive queue.
//!
//! While bytes wait in the send buffer, or it is full, TCP is asked for the cause: a `tcp` record when that begins and
//! every millisecond.
//!
//! Nothing here blocks. Stamps that the kernel has no room for are lost, and so are those taken while the clock was
//! being set: their records have no times.

mod calls;
mod socket;
mod wall;

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use wansan_trace::clock::{self, Both};
use wansan_trace::event::{PduDirection, Stamp};
use wansan_trace::{ConnectionId, Instant, Recorder, SessionId};

use crate::TcpInfo;
use calls::Calls;
use wall::Wall;

/// The most bytes per send call on a stamped socket: the size of one Linux buffer, which has one stamp.
pub const CALL_BYTES: usize = 64 << 10;

/// How often TCP is asked why bytes wait.
const ASK_AGAIN: Duration = Duration::from_millis(1);

/// The stamps of one connection's socket.
///
/// Call [`Stamping::sent`] after each send call that took bytes, and [`Stamping::refused`] after one that took none;
/// read with [`Stamping::receive`]. Call [`Stamping::collect`] whenever poll(2) reports an error of the socket, as
/// pending stamps count as one. [`Stamping::finish`] records the rest.
#[derive(Debug)]
pub struct Stamping {
    session: SessionId,
    connection: ConnectionId,
    nagle: bool,
    sent_end: u64,
    received_end: u64,
    /// The newest receive stamp: no later one is older.
    arrived: Instant,
    calls: Calls,
    wall: Wall,
    /// Whether the send buffer was full at the last send call.
    is_full: bool,
    /// When TCP was last asked why bytes wait, if some have waited since.
    asked: Option<Instant>,
}

impl Stamping {
    /// Makes the kernel stamp data of `socket` from now on; `sent` and `received` bytes passed before. `nagle`: Nagle's
    /// algorithm is on.
    ///
    /// # Errors
    /// Errors of setsockopt(2): EINVAL on kernels before 6.2.
    pub fn begin(
        socket: impl AsFd,
        (session, connection): (SessionId, ConnectionId),
        nagle: bool,
        sent_end: u64,
        received_end: u64,
    ) -> io::Result<Stamping> {
        socket::enable(socket)?;
        let mut wall = Wall::default();
        wall.anchor(Both::now());
        Ok(Stamping {
            session,
            connection,
            nagle,
            sent_end,
            received_end,
            arrived: Instant::ZERO,
            calls: Calls::new(sent_end),
            wall,
            is_full: false,
            asked: None,
        })
    }

    /// The socket took `bytes` in a send call that returned at `now`.
    pub fn sent(&mut self, bytes: usize, now: Instant) {
        if bytes > 0 {
            self.is_full = false;
            self.sent_end += bytes as u64;
            self.calls.handed(Stamp {
                stream_end: self.sent_end,
                bytes: bytes as u32,
                nagle: self.nagle,
                ..self.blank(PduDirection::Sent, now)
            });
        }
    }

    /// The socket took nothing: its send buffer is full.
    pub fn refused(&mut self) {
        self.is_full = true;
    }

    /// Reads from `socket` into `space`, as recv(2) does with the same flags, and records the time of receipt; returns
    /// the number of bytes, and when they were available.
    ///
    /// # Errors
    /// Errors of recvmsg(2).
    pub fn receive(
        &mut self,
        socket: impl AsFd,
        space: &mut [u8],
        flags: rustix::net::RecvFlags,
        trace: &mut Recorder,
    ) -> rustix::io::Result<usize> {
        let flags = flags.bits().cast_signed();
        let received = socket::receive(socket, space, flags);
        let (bytes, realtime_ns) = received.map_err(|error| {
            rustix::io::Errno::from_io_error(&error).unwrap_or(rustix::io::Errno::IO)
        })?;
        if bytes > 0 {
            let both = Both::now();
            self.wall.anchor(both);
            let moment = |ns| self.wall.moment(ns, self.arrived);
            let arrived = realtime_ns.and_then(moment);
            self.arrived = arrived.unwrap_or(self.arrived);
            self.received_end += bytes as u64;
            trace.stamp(Stamp {
                stream_end: self.received_end,
                bytes: bytes as u32,
                arrived: arrived.unwrap_or(Instant::ZERO),
                ..self.blank(PduDirection::Received, both.monotonic)
            });
        }
        Ok(bytes)
    }

    /// Reads the kernel's stamps of send calls on `socket`, and records the calls that have all of theirs.
    ///
    /// # Errors
    /// Errors of recvmmsg(2), without those of the connection.
    pub fn collect(&mut self, socket: impl AsFd, trace: &mut Recorder) -> io::Result<()> {
        // Room for several reports of one call, in case segments are retransmitted.
        const ROUNDS: usize = 256;
        let fd = socket.as_fd();
        for _ in 0..ROUNDS {
            let (calls, wall) = (&mut self.calls, &mut self.wall);
            let mut is_first = true;
            let count = socket::collect(fd, |step, key, realtime_ns| {
                if std::mem::take(&mut is_first) {
                    wall.anchor(Both::now());
                }
                let since = calls.since(key);
                let moment = since.and_then(|since| wall.moment(realtime_ns, since));
                // A report that is late, or of an unknown time, still counts as one.
                calls.told(key, step, moment.unwrap_or(Instant::ZERO));
            })?;
            if count < socket::AT_ONCE {
                break;
            }
        }
        while let Some(done) = self.calls.done() {
            trace.stamp(done);
        }
        self.ask(fd, trace);
        Ok(())
    }

    /// Asks TCP why it holds the newest bytes, or why the buffer is full, if so.
    fn ask(&mut self, socket: impl AsFd, trace: &mut Recorder) {
        if !trace.tcp.is_kept() || !self.calls.holds() && !self.is_full {
            self.asked = None;
            return;
        }
        let now = clock::now();
        if self.asked.is_none_or(|asked| now.since(asked) >= ASK_AGAIN) {
            self.asked = Some(now);
            if let Ok(record) = TcpInfo::sample(socket, now, self.session, self.connection) {
                trace.tcp(record);
            }
        }
    }

    /// Records the remaining send calls on `socket`, with or without stamps.
    pub fn finish(mut self, socket: impl AsFd, trace: &mut Recorder) {
        // A failed socket has no more stamps.
        let _ = self.collect(socket, trace);
        while let Some(call) = self.calls.take() {
            trace.stamp(call);
        }
    }

    fn blank(&self, direction: PduDirection, time: Instant) -> Stamp {
        Stamp {
            time,
            session: self.session,
            connection: self.connection,
            direction,
            ..Stamp::BLANK
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::time::Duration;

    use rustix::net::RecvFlags;
    use wansan_trace::Kinds;

    use super::*;

    const IDS: (SessionId, ConnectionId) = (SessionId(7), ConnectionId(3));

    fn pair(address: &str) -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind(address).unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        client.set_nodelay(true).unwrap();
        (client, listener.accept().unwrap().0)
    }

    fn recorder() -> Recorder {
        let stamps = Kinds {
            stamp: true,
            tcp: true,
            ..Kinds::NONE
        };
        Recorder::new(stamps, 64 << 20)
    }

    fn all(trace: &Recorder, direction: PduDirection) -> Vec<Stamp> {
        let of = trace
            .stamp
            .iter()
            .filter(|stamp| stamp.direction == direction);
        of.collect()
    }

    /// With one byte at a time in request and response, all times are in order.
    #[test]
    fn every_time_stands_in_its_order() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let (client, mut server) = pair(address);
            (&client).write_all(b"login").unwrap();
            server.read_exact(&mut [0; 5]).unwrap();
            let mut trace = recorder();
            let mut stamping = Stamping::begin(&client, IDS, false, 5, 0).unwrap();
            // The kernel begins to stamp received data a moment later.
            std::thread::sleep(Duration::from_millis(20));
            for _ in 0..50 {
                (&client).write_all(&[1; 300]).unwrap();
                stamping.sent(300, clock::now());
                server.read_exact(&mut [0; 300]).unwrap();
                server.write_all(&[2; 200]).unwrap();
                let mut answer = [0; 200];
                let mut come = 0;
                while come < 200 {
                    let space = &mut answer[come..];
                    let none = RecvFlags::empty();
                    come += stamping.receive(&client, space, none, &mut trace).unwrap();
                }
                stamping.collect(&client, &mut trace).unwrap();
            }
            stamping.finish(&client, &mut trace);
            let sent = all(&trace, PduDirection::Sent);
            assert_eq!(sent.len(), 50);
            for (place, call) in sent.iter().enumerate() {
                assert_eq!(call.stream_end, 5 + 300 * (place as u64 + 1));
                assert_eq!((call.session, call.connection), IDS);
                assert!(call.scheduled > Instant::ZERO, "{call:?}");
                assert!(call.scheduled <= call.departed, "{call:?}");
                assert!(call.departed <= call.acknowledged, "{call:?}");
                assert!(call.arrived == Instant::ZERO, "{call:?}");
            }
            let received = all(&trace, PduDirection::Received);
            let bytes: u32 = received.iter().map(|call| call.bytes).sum();
            assert_eq!(bytes, 50 * 200);
            for call in &received {
                assert!(call.arrived > Instant::ZERO, "{call:?}");
                assert!(call.arrived <= call.time, "{call:?}");
            }
            let last = received.last().unwrap();
            assert_eq!(last.stream_end, 10_000);
            assert!(last.arrived > sent[49].departed, "{last:?}");
        }
    }

    /// Data that the peer does not read stays in the send buffer, and is recorded so.
    #[test]
    fn what_is_held_in_the_send_buffer_is_seen() {
        let (client, mut server) = pair("127.0.0.1:0");
        client.set_nonblocking(true).unwrap();
        let mut trace = recorder();
        let mut stamping = Stamping::begin(&client, IDS, true, 0, 0).unwrap();
        let mut given = 0_u64;
        while let Ok(bytes) = (&client).write(&[3; CALL_BYTES]) {
            stamping.sent(bytes, clock::now());
            stamping.collect(&client, &mut trace).unwrap();
            given += bytes as u64;
        }
        assert!(stamping.calls.holds());
        let mut taken = 0;
        let mut space = vec![0; 1 << 20];
        while taken < given {
            taken += server.read(&mut space).unwrap() as u64;
            stamping.collect(&client, &mut trace).unwrap();
        }
        let deadline = clock::now() + Duration::from_secs(20);
        while stamping.calls.is_waiting() && clock::now() < deadline {
            stamping.collect(&client, &mut trace).unwrap();
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(!stamping.calls.holds());
        stamping.finish(&client, &mut trace);
        let sent = all(&trace, PduDirection::Sent);
        assert_eq!(sent.last().unwrap().stream_end, given);
        assert!(sent.last().unwrap().acknowledged > Instant::ZERO);
        assert!(sent.iter().all(|call| call.nagle));
        let held = sent
            .iter()
            .any(|call| call.scheduled.since(call.time) > Duration::ZERO);
        assert!(held, "no call waited of {}", sent.len());
        let asked = trace.tcp.iter().filter(|sample| sample.unsent_bytes > 0);
        assert!(asked.count() > 0, "TCP was not asked what for");
    }

    #[test]
    fn a_socket_that_was_reset_still_says_so_to_its_reader() {
        let (client, server) = pair("127.0.0.1:0");
        let mut trace = recorder();
        let mut stamping = Stamping::begin(&client, IDS, false, 0, 0).unwrap();
        (&client).write_all(&[1; 10]).unwrap();
        stamping.sent(10, clock::now());
        // Closing with unread bytes sends a reset (RFC 9293 §3.10.4).
        std::thread::sleep(Duration::from_millis(20));
        drop(server);
        std::thread::sleep(Duration::from_millis(20));
        let _ = stamping.collect(&client, &mut trace);
        let read = stamping.receive(&client, &mut [0; 10], RecvFlags::empty(), &mut trace);
        assert_eq!(read, Err(rustix::io::Errno::CONNRESET));
        stamping.finish(&client, &mut trace);
        assert_eq!(all(&trace, PduDirection::Sent).len(), 1);
    }

    #[test]
    fn a_socket_without_a_stream_is_an_error() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        assert!(Stamping::begin(&listener, IDS, false, 0, 0).is_err());
    }
}
