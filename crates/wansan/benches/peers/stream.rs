//! The limit of large I/Os: a bare stream of blocks over one connection of loopback.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use wansan_peers::process::PeerError;

use crate::echo::{own_server, system};
use crate::loads::LARGE_BYTES;

/// The argument that makes the benchmark's own program the sending side.
pub(crate) const SERVER_ARGUMENT: &str = "stream-server";
const NAME: &str = "bare stream";

/// Sends blocks to one connection until it closes. Prints its port first.
///
/// # Errors
/// What a socket says.
pub(crate) fn serve() -> io::Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    println!("{}", listener.local_addr()?.port());
    let (mut stream, _) = listener.accept()?;
    let block = vec![0x5a; LARGE_BYTES as usize];
    // The receiver closes when it has seen enough.
    while stream.write_all(&block).is_ok() {}
    Ok(())
}

/// Bytes per second that arrive, over `time`.
///
/// # Errors
/// When the sending side does not start or the connection breaks.
pub(crate) fn bytes_per_second(time: Duration) -> Result<f64, PeerError> {
    let (_server, port) = own_server(SERVER_ARGUMENT, NAME)?;
    receive(port, time).map_err(system(NAME))
}

fn receive(port: u16, time: Duration) -> io::Result<f64> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    let mut input = vec![0; LARGE_BYTES as usize];
    let (mut done, started) = (0, Instant::now());
    while started.elapsed() < time {
        match stream.read(&mut input)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            bytes => done += bytes,
        }
    }
    Ok(done as f64 / started.elapsed().as_secs_f64())
}
