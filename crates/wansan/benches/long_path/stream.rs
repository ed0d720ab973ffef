//! What the path gives a bare TCP stream: one connection, one end that sends all it can.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use wansan_lab::world::Node;

/// What each system call moves at most.
const PIECE_BYTES: usize = 256 << 10;

/// Bytes per second that arrive at `to` from `from` in `time`, after `warmup`.
pub(crate) fn bytes_per_s(from: &Node, to: &Node, warmup: Duration, time: Duration) -> Result<f64> {
    let address = to.address();
    let listener = to
        .namespace()
        .run(move || TcpListener::bind((address, 0)))?;
    let portal = listener.local_addr()?;
    // The receiver connects nowhere: the sender does, so that it is the one that starts.
    let sender = from
        .namespace()
        .run(move || TcpStream::connect(portal).map(|stream| thread::spawn(move || send(stream))));
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
