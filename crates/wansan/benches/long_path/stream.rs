//! What the path gives a bare TCP stream: one connection, one end that sends all it can.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use rustix::net::{AddressFamily, SocketType, bind, connect, ipproto, listen, socket};
use wansan_lab::world::Node;

/// What each system call moves at most.
const PIECE_BYTES: usize = 256 << 10;

/// What carries a stream.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Protocol {
    Tcp,
    /// Multipath TCP (RFC 8684), over subflows that the kernel joins.
    Mptcp,
}

impl Protocol {
    /// A socket in the namespace of this thread.
    pub(crate) fn socket(self) -> io::Result<OwnedFd> {
        let protocol = match self {
            Protocol::Tcp => ipproto::TCP,
            Protocol::Mptcp => ipproto::MPTCP,
        };
        Ok(socket(
            AddressFamily::INET,
            SocketType::STREAM,
            Some(protocol),
        )?)
    }
}

/// Bytes per second that arrive at `to` from `from` in `time`, after `warmup`.
pub(crate) fn bytes_per_s(
    protocol: Protocol,
    from: &Node,
    to: &Node,
    warmup: Duration,
    time: Duration,
) -> Result<f64> {
    let address = to.address();
    let listener = to.namespace().run(move || {
        let listening = protocol.socket()?;
        // Subflows come to other addresses than the first.
        bind(&listening, &SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)))?;
        listen(&listening, 1)?;
        io::Result::Ok(TcpListener::from(listening))
    })?;
    let portal = SocketAddr::from((address, listener.local_addr()?.port()));
    // The receiver connects nowhere: the sender does, so that it is the one that starts.
    let sender = from.namespace().run(move || {
        let sending = protocol.socket()?;
        connect(&sending, &portal)?;
        io::Result::Ok(thread::spawn(move || send(TcpStream::from(sending))))
    });
    let (stream, _) = listener.accept()?;
    let received = receive(stream, warmup, time);
    // The receiver has closed: the sender ends with an error that says so.
    let _ = sender?.join();
    Ok(received?)
}

fn send(mut stream: TcpStream) -> io::Result<()> {
    let piece = vec![0x5a; PIECE_BYTES];
    loop {
        stream.write_all(&piece)?;
    }
}

fn receive(mut stream: TcpStream, warmup: Duration, time: Duration) -> io::Result<f64> {
    let mut piece = vec![0; PIECE_BYTES];
    let began = Instant::now();
    let mut measured_bytes = 0;
    loop {
        let bytes = stream.read(&mut piece)?;
        let elapsed = began.elapsed();
        if bytes == 0 || elapsed >= warmup + time {
            return Ok(measured_bytes as f64 / (elapsed - warmup).as_secs_f64());
        }
        if elapsed >= warmup {
            measured_bytes += bytes;
        }
    }
}
