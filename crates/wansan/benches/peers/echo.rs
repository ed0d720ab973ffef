//! The limit: two processes that exchange what iSCSI would, without a protocol.
//!
//! One connection over loopback. A request is 48 bytes (the size of a basic header segment); its
//! answer is the same 48 bytes and a block of 4096. The asking side sends the header of each
//! answer back as its next request, so the number in flight stays what it was at first. Each side
//! handles all that one system call brought and sends all of its output with one system call:
//! nothing is left but the kernel's TCP and the copies in and out of it.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use wansan_peers::process::{PeerError, Running};

pub(crate) const HEADER_BYTES: usize = 48;
const BLOCK_BYTES: usize = 4096;
pub(crate) const ANSWER_BYTES: usize = HEADER_BYTES + BLOCK_BYTES;
/// What one read may bring at the asking side: 126 answers, more than are ever in flight.
const INPUT_BYTES: usize = 512 * 1024;

/// The argument that makes the benchmark's own program the answering side.
pub(crate) const SERVER_ARGUMENT: &str = "echo-server";

/// Answers one connection until it closes. Prints its port first.
///
/// # Errors
/// What a socket says.
pub(crate) fn serve() -> io::Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    println!("{}", listener.local_addr()?.port());
    let (mut stream, _) = listener.accept()?;
    stream.set_nodelay(true)?;
    let block = [0x5a_u8; BLOCK_BYTES];
    let mut input = Input::new(INPUT_BYTES / ANSWER_BYTES * HEADER_BYTES, HEADER_BYTES);
    let mut output = Vec::with_capacity(INPUT_BYTES);
    while input.read(&mut stream)? {
        output.clear();
        for request in input.whole() {
            output.extend_from_slice(request);
            output.extend_from_slice(&block);
        }
        stream.write_all(&output)?;
    }
    Ok(())
}

/// Exchanges per second with `in_flight` of them in flight, over `time`.
///
/// # Errors
/// When the answering side does not start or the connection breaks.
pub(crate) fn exchanges_per_second(in_flight: usize, time: Duration) -> Result<f64, PeerError> {
    let (_server, port) = own_server(SERVER_ARGUMENT, "echo pair")?;
    ask(port, in_flight, time).map_err(system("echo pair"))
}

/// Starts the benchmark's own program as a server called `name`; its process and its port.
///
/// # Errors
/// When it does not start.
pub(crate) fn own_server(argument: &str, name: &str) -> Result<(Running, u16), PeerError> {
    let own = std::env::current_exe().map_err(system(name))?;
    let mut command = Command::new(own);
    let mut server = Running::start(command.arg(argument).stdout(Stdio::piped()))?;
    let stdout = server.take_stdout().expect("the command was given a pipe");
    let mut port = String::new();
    let read = BufReader::new(stdout).read_line(&mut port);
    read.map_err(system(name))?;
    let port = port.trim().parse();
    let port = port.map_err(|_| system(name)(io::ErrorKind::InvalidData.into()))?;
    Ok((server, port))
}

/// What the system says of the program `name`.
pub(crate) fn system(name: &str) -> impl FnOnce(io::Error) -> PeerError {
    let program = name.to_owned();
    move |source| PeerError::System { program, source }
}

fn ask(port: u16, in_flight: usize, time: Duration) -> io::Result<f64> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    stream.set_nodelay(true)?;
    let mut input = Input::new(INPUT_BYTES, ANSWER_BYTES);
    let mut output = vec![0_u8; in_flight * HEADER_BYTES];
    let mut done = 0_u64;
    let started = Instant::now();
    stream.write_all(&output)?;
    while started.elapsed() < time {
        if !input.read(&mut stream)? {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        output.clear();
        for answer in input.whole() {
            output.extend_from_slice(&answer[..HEADER_BYTES]);
            done += 1;
        }
        stream.write_all(&output)?;
    }
    let elapsed = started.elapsed();
    // What is still in flight is answered before the connection closes, so neither side sees a
    // reset.
    stream.shutdown(Shutdown::Write)?;
    while input.read(&mut stream)? {}
    Ok(done as f64 / elapsed.as_secs_f64())
}

/// Messages of one size, read as many at a time as there are.
struct Input {
    bytes: Vec<u8>,
    filled_bytes: usize,
    message_bytes: usize,
}

impl Input {
    fn new(capacity_bytes: usize, message_bytes: usize) -> Self {
        Self {
            bytes: vec![0; capacity_bytes],
            filled_bytes: 0,
            message_bytes,
        }
    }

    /// Reads what is there behind what is left of the last read; `false` at the end of the stream.
    fn read(&mut self, stream: &mut TcpStream) -> io::Result<bool> {
        let whole_bytes = self.filled_bytes / self.message_bytes * self.message_bytes;
        self.bytes.copy_within(whole_bytes..self.filled_bytes, 0);
        self.filled_bytes -= whole_bytes;
        let read_bytes = stream.read(&mut self.bytes[self.filled_bytes..])?;
        self.filled_bytes += read_bytes;
        Ok(read_bytes > 0)
    }

    /// The messages that are complete since the last read.
    fn whole(&self) -> impl Iterator<Item = &[u8]> {
        self.bytes[..self.filled_bytes].chunks_exact(self.message_bytes)
    }
}
